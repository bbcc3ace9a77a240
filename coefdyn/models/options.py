"""Checks of configuration values. Every message: what was asked, what came, the remedy."""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

__all__ = ["check_choice", "check_known", "from_plain"]

T = TypeVar("T")


def check_choice(name: str, value: object, choices: Iterable[str]) -> None:
    """``value`` is one of ``choices``."""
    known = list(choices)
    if value not in known:
        listing = ", ".join(known)
        raise ValueError(f"{name} must be one of {listing}; got {value!r}{_near(value, known)}")


def check_known(what: str, keys: Iterable[str], known: Iterable[str]) -> None:
    """Every key is known; the message names the nearest known one."""
    known = list(known)
    for key in keys:
        if key not in known:
            listing = ", ".join(known)
            raise ValueError(f"{what} has no field {key!r}{_near(key, known)} Known: {listing}.")


def from_plain(cls: type[T], values: Mapping[str, Any]) -> T:
    """A dataclass from plain values; an unknown key is an error."""
    check_known(cls.__name__, values, [field.name for field in dataclasses.fields(cls)])  # type: ignore[arg-type]
    return cls(**values)


def _near(value: object, known: list[str]) -> str:
    close = difflib.get_close_matches(str(value), known, n=1, cutoff=0.5)
    return f"; did you mean {close[0]!r}?" if close else "."
