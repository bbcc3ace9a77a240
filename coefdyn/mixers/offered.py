"""Keywords that a mixer's constructor offers, so that an error names the nearest one."""

from __future__ import annotations

import inspect
from typing import get_args, get_type_hints, is_typeddict

__all__ = ["offered", "show_constructor"]


def offered(form: type) -> set[str] | None:
    """Keywords that a caller may give; None where they cannot be determined.

    Those of its constructor, and of the constructors that this one hands unnamed options to; what
    an abstract base asks of its subclasses is none of them, nor what the class has ``filled``.
    """
    found: set[str] = set()
    makers = [base for base in form.__mro__ if "__init__" in vars(base)]
    for place, base in enumerate(makers):
        if place and inspect.isabstract(base):
            break
        open_ended = None
        for name, one in inspect.signature(vars(base)["__init__"]).parameters.items():
            if one.kind is inspect.Parameter.VAR_KEYWORD:
                open_ended = one
            elif one.kind is not inspect.Parameter.VAR_POSITIONAL and name != "self":
                found.add(name)
        if open_ended is None:
            break
        typed = _typed_options(base, open_ended.name)
        if typed is None:
            return None
        found |= typed
    return found - set(getattr(form, "filled", ()))


def _typed_options(form: type, name: str) -> set[str] | None:
    """The names of ``**name: Unpack[...]`` in a constructor; None without such a type."""
    try:
        hint = get_type_hints(vars(form)["__init__"])[name]
    except (KeyError, NameError, TypeError):
        return None
    inner = get_args(hint)
    return set(inner[0].__annotations__) if inner and is_typeddict(inner[0]) else None


def show_constructor(form: type) -> None:
    """Let help() show the arguments of ``__init__``; Python would show those of ``__new__``."""
    whole = inspect.signature(form.__init__)  # type: ignore[misc]
    form.__signature__ = whole.replace(parameters=list(whole.parameters.values())[1:])  # type: ignore[attr-defined]
