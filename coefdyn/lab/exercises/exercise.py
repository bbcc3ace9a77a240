"""The definition of an exercise."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

__all__ = ["Exercise", "Function"]

Function = Callable[..., Any]


@dataclass(frozen=True, kw_only=True)
class Exercise:
    """One function for the reader to write.

    Args:
        name: as ``grade`` is asked for it.
        inputs: case number to arguments by name, float64; every call makes new tensors.
        solution: arguments to a tensor or a tuple of tensors.
        returns: what the function is to return, in words with shapes.
        mistakes: hint to the function that makes this mistake; a reader's function with the same
            results gets the hint. The first that fits is given.
    """

    name: str
    inputs: Callable[[int], dict[str, Any]]
    solution: Function
    returns: str
    mistakes: Mapping[str, Function]
