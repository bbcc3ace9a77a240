"""Checks of constructor options. Every message: what was asked, what came, the remedy."""

from __future__ import annotations

import difflib

__all__ = ["check_choice", "check_count", "check_flag", "constant_scaling", "head_dim"]


def check_count(name: str, value: object, least: int = 1) -> int:
    """A whole number of at least ``least``."""
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise ValueError(f"{name} must be a whole number >= {least}, got {value!r}.")
    return value


def check_flag(name: str, value: object) -> bool:
    """True or False."""
    if not isinstance(value, bool):
        raise ValueError(f"{name} must be True or False, got {value!r}.")
    return value


def check_choice(name: str, value: object, choices: tuple[str, ...]) -> str:
    """One of ``choices``; the message names the nearest one."""
    if isinstance(value, str) and value in choices:
        return value
    near = difflib.get_close_matches(str(value), choices, n=1)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    raise ValueError(f"{name} must be one of {', '.join(choices)}; got {value!r}.{hint}")


def head_dim(name: str, value: int | None, d_model: int, n_heads: int) -> int:
    """The size of one head: as given, or d_model / n_heads."""
    if value is not None:
        return check_count(name, value)
    if d_model % n_heads:
        raise ValueError(
            f"d_model={d_model} is not a multiple of n_heads={n_heads}, so {name} has no default; "
            f"give {name} (the size of one head)."
        )
    return d_model // n_heads


def constant_scaling(value: str, key_dim: int) -> float:
    """b_j for scaling="inverse_sqrt" (1/sqrt(n)) or "one"."""
    check_choice("scaling", value, ("inverse_sqrt", "one"))
    return key_dim**-0.5 if value == "inverse_sqrt" else 1.0
