"""Checks of options. Messages state the request, the value received and the nearest known name."""

from __future__ import annotations

import dataclasses
import difflib
import math
import sys
from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

__all__ = [
    "check_choice",
    "check_count",
    "check_flag",
    "check_known",
    "check_number",
    "did_you_mean",
    "from_plain",
    "is_finite_number",
    "shown",
]

T = TypeVar("T")


def did_you_mean(word: object, known: Iterable[str]) -> str:
    """``"; did you mean 'x'?"`` with the nearest known word, ``"."`` if none is near."""
    close = difflib.get_close_matches(str(word), list(known), n=1, cutoff=0.5)
    return f"; did you mean {close[0]!r}?" if close else "."


def is_finite_number(value: object) -> bool:
    """Return whether a value is a number that a float holds (True and False are not numbers)."""
    limit = sys.float_info.max  # an integer may lie beyond it
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return number and -limit <= value <= limit  # type: ignore[operator]


def shown(value: object) -> str:
    """Text of a value for a message: a tensor's shape, the size of an integer beyond all floats."""
    if (shape := getattr(value, "shape", None)) is not None:
        return f"a {type(value).__name__.lower()} {tuple(shape)}"
    if isinstance(value, int) and value.bit_length() > 1024:
        return f"a whole number of {value.bit_length()} bits"
    return repr(value)


def check_count(name: str, value: object, least: int = 1) -> int:
    """Raise ValueError unless the value is a whole number of at least ``least``."""
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise ValueError(f"{name} must be a whole number >= {least}, got {shown(value)}.")
    return value


def check_flag(name: str, value: object) -> bool:
    """Raise ValueError unless the value is True or False."""
    if not isinstance(value, bool):
        raise ValueError(f"{name} must be True or False, got {value!r}.")
    return value


def check_number(name: str, value: object, least: float = -math.inf) -> float:
    """Raise ValueError unless the value is a finite number of at least ``least``."""
    if not is_finite_number(value) or value < least:  # type: ignore[operator]
        bound = "" if least == -math.inf else f" >= {least:g}"
        raise ValueError(f"{name} must be a finite number{bound}, got {shown(value)}.")
    return value  # type: ignore[return-value]


def check_choice(name: str, value: object, choices: Iterable[str]) -> str:
    """Raise ValueError unless the value is one of ``choices``."""
    known = list(choices)
    if isinstance(value, str) and value in known:
        return value
    hint = did_you_mean(value, known)
    raise ValueError(f"{name} must be one of {', '.join(known)}; got {value!r}{hint}")


def check_known(what: str, keys: Iterable[str], known: Iterable[str]) -> None:
    """Raise ValueError unless every key is a field of ``what``."""
    known = list(known)
    for key in keys:
        if key not in known:
            hint, listing = did_you_mean(key, known), ", ".join(known)
            raise ValueError(f"{what} has no field {key!r}{hint} Known: {listing}.")


def from_plain(cls: type[T], values: Mapping[str, Any]) -> T:
    """Dataclass from plain values; an unknown key is an error."""
    check_known(cls.__name__, values, [field.name for field in dataclasses.fields(cls)])  # type: ignore[arg-type]
    return cls(**values)
