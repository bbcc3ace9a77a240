"""Packages and tables that load a module when one of its names is first used.

An execution of a chapter then reads the modules that it uses, and no others.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator, Mapping, MutableMapping
from importlib import import_module
from types import ModuleType
from typing import Any, TypeVar

__all__ = ["Registry", "load_on_first_use"]

Value = TypeVar("Value")


def load_on_first_use(package: str) -> None:
    """Let a package import each name under its ``if TYPE_CHECKING:`` when it is asked for.

    The imports that a type checker reads are thus the one list of the names and of where they are:
    ``__all__``, unless the package has one, and ``dir`` know all of them. `book.tools.digest`
    counts such an import with the module that it names.

    Args:
        package: ``__name__`` of the package, which calls this once, at its end.
    """
    module = sys.modules[package]
    assert module.__spec__ is not None
    source = module.__spec__.loader.get_source(package)  # type: ignore[union-attr]
    homes = {
        name.asname or name.name: (part.module, name.name)
        for block in ast.parse(source).body
        if isinstance(block, ast.If) and ast.unparse(block.test) == "TYPE_CHECKING"
        for part in block.body
        if isinstance(part, ast.ImportFrom)
        for name in part.names
    }
    vars(module)["_homes"] = homes
    # constants, classes, functions, as a written list would have them
    order = sorted(homes, key=lambda name: (not name.isupper(), name[0].islower(), name))
    vars(module).setdefault("__all__", order)
    module.__class__ = _Package


class _Package(ModuleType):
    def __getattr__(self, name: str) -> Any:
        if name not in vars(self)["_homes"]:
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        module, there = vars(self)["_homes"][name]
        return vars(self).setdefault(name, getattr(import_module(module), there))

    def __dir__(self) -> list[str]:
        return sorted({*vars(self), *vars(self)["_homes"]})


class Registry(MutableMapping[str, Value]):
    """A table whose own entries are put in by modules, each loaded when an entry is asked for.

    Its names are known from the beginning, and others may be added.

    Args:
        package: ``__name__`` of a package whose ``HOMES`` tells for each name the module in it that
            sets the entry.
    """

    def __init__(self, package: str) -> None:
        homes: Mapping[str, str] = vars(import_module(package))["HOMES"]
        self.waiting = {name: f"{package}.{module}" for name, module in homes.items()}
        self._found: dict[str, Value] = {}

    def __getitem__(self, name: str) -> Value:
        if name in self.waiting:
            import_module(self.waiting[name])
            assert name not in self.waiting, f"{self.waiting[name]} does not set {name!r}"
        return self._found[name]

    def __setitem__(self, name: str, value: Value) -> None:
        self._found[name] = value
        self.waiting.pop(name, None)

    def __delitem__(self, name: str) -> None:
        del (self.waiting if name in self.waiting else self._found)[name]

    def __iter__(self) -> Iterator[str]:
        return iter([*self.waiting, *self._found])

    def __len__(self) -> int:
        return len(self.waiting) + len(self._found)
