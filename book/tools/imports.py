"""The definitions of the library that a piece of code reaches, found by reading, not running, it.

A *definition* is what binds one name at the top of a module: a function, a class with all its
methods, a constant. It reaches every name that it mentions, in its own module or through imports
(also those of a package's `__init__`, which is looked through) where the name is defined, and so
on. What the cells of a chapter reach in this way is what its outputs can depend on. The rules for
what is not a plain name:

module      `module.name` reaches that name. A module used in another way, such as one handed to a
            function, is taken whole, with every name that it offers; so is `from module import *`.
lookup      A *catalogue* is a dict, tuple or list whose entries have names (the key, or
            `name="..."` in a call) and hold definitions or modules, not words and numbers alone.
            Where code only looks into it (`X[name]`, `X.get(name)`, `name in X`,
            `check_choice(_, name, X)`, an error's message), an entry counts when its name is
            *spelled*: a string of these letters stands in something reached. Otherwise all count.
getattr     `getattr(package, name)` and `package.__all__` reach the package's names that are
            spelled; `getattr(module, name)` takes the module whole.
by string   A string that is a module's dotted name takes the module whole;
            `f"coefdyn.part.{name}"` those modules of the package whose names are spelled.
statement   What binds no name at the top of a module (`register(Task(name="mqar", ...))`,
            `TABLE.update(...)`, `TABLE[key] = value`) and a definition that has a decorator of the
            library's belong to the variables that they change: those that they name, and those
            that the function they call mentions. They count when such a variable does, as its
            entries. With no such variable they count with their module.
file        A string that is the name of a file below the package (a style sheet of matplotlib, a
            font) adds the file. Scripts and styles of figures do not count, nor what makes
            the `_esm` and `_css` of a class: outputs hold none of them.
submodule   A package's submodule comes before its `__getattr__`, which can only import it.

Annotations are not followed where nothing evaluates them, nor names that a function has as its own.
In doubt a rule takes more: an execution in vain costs minutes, an output that is wrong and counts
as current costs the reader's trust. `tests/unit/test_tools_digest.py` holds the rules against what
chapters really call.
"""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Iterable, Iterator
from functools import cached_property, lru_cache
from pathlib import Path
from typing import NamedTuple

from book.tools.chapters import ROOT
from book.tools.definitions import (
    PACKAGE,
    WHOLE,
    Assignment,
    Module,
    Piece,
    Use,
    chain_of,
    entries_of,
    inside_package,
    name_of,
    python,
    scope,
)

#: the name that the cells of a chapter have among the modules
CELLS = "<cells>"
#: Run on a GPU only. Committed outputs come from a CPU, so these count only where code names them.
GPU_ONLY = f"{PACKAGE}.execution.triton"
#: The only module among them that runs on a CPU: it raises a GPU's errors.
REFUSALS = f"{GPU_ONLY}.dispatch"
#: Files that a page carries and no notebook contains.
SENT = (".js", ".css")


class Target(NamedTuple):
    """A name of a module of the library; the module itself where the name is ""."""

    module: str
    name: str

    @property
    def whole(self) -> bool:
        """True if this is a module, or the list of the names that it offers."""
        return self.name in ("", "__all__")

    def __str__(self) -> str:
        return f"{self.module}:{self.name}"


class Library:
    """The modules of the package below `root`, as they stand when this is made."""

    def __init__(self, root: Path = ROOT) -> None:
        self.modules: dict[str, Module] = {}
        self.files: dict[str, list[Path]] = {}
        for path in sorted((root / PACKAGE).rglob("*")):
            if path.suffix == ".py":
                parts = path.relative_to(root).with_suffix("").parts
                package = parts[-1] == "__init__"
                name = ".".join(parts[:-1] if package else parts)
                text = path.read_text(encoding="utf-8")
                self.modules[name] = Module(name, text, package=package)
            elif path.is_file() and path.suffix not in (*SENT, ".pyc"):
                self.files.setdefault(path.name, []).append(path)
        self._pieces: dict[Target, list[Piece]] = {}
        self._entries: dict[Target, list[tuple[str | None, Piece | Use]]] = {}

    @cached_property
    def changed_by(self) -> dict[Target, list[Piece]]:
        """Statements that belong to each variable; with the name "" to a module."""
        found: dict[Target, list[Piece]] = {}
        for module in self.modules.values():
            for piece in module.effects:
                owners = set(self._owners(module, piece))
                decorated = getattr(piece.nodes[0], "decorator_list", [])
                for owner in owners or ([] if decorated else [Target(module.name, "")]):
                    found.setdefault(owner, []).append(piece)
        return found

    def _owners(self, module: Module, piece: Piece) -> Iterator[Target]:
        """Variables that a statement changes, as far as reading tells."""
        (node,) = piece.nodes
        inside = [node.value] if isinstance(node, ast.Expr) else list(scope(node))
        calls = [one for one in inside if isinstance(one, ast.Call)]
        changed = [one for call in calls for one in (call.func, *call.args)]
        for one in getattr(node, "decorator_list", []):
            changed.append(one.func if isinstance(one, ast.Call) else one)
        changed += [one for one in inside if isinstance(one, ast.Attribute | ast.Subscript)]
        for one in changed:
            while isinstance(one, ast.Subscript):
                one = one.value
            for target in self.targets(piece, chain_of(one) or ("",)):
                yield from self._variables(target)

    def _variables(self, target: Target | str) -> Iterator[Target]:
        """The variable itself, or the variables that a function mentions."""
        if isinstance(target, str) or target.whole:
            return
        if self.modules[target.module].is_variable(target.name):
            yield target
            return
        for piece in self.pieces(target):
            for found in (one for use in piece.uses for one in self.targets(piece, use.chain)):
                if isinstance(found, Target) and self.modules[found.module].is_variable(found.name):
                    yield found

    def pieces(self, target: Target) -> list[Piece]:
        """Statements that bind a name, whole."""
        if target not in self._pieces:
            module = self.modules[target.module]
            statements = module.bound.get(target.name, [])
            self._pieces[target] = [module.piece(target.name, one) for one in statements]
        return self._pieces[target]

    def entries(self, target: Target) -> list[tuple[str | None, Piece | Use]]:
        """Entries of a variable that count on their own, some only where code names them."""
        if target not in self._entries:
            found = self._entries[target] = []
            module = self.modules[target.module]
            for statement in module.bound.get(target.name, []):
                if isinstance(statement, Assignment) and statement.value is not None:
                    found += (
                        self._entry(module, target, *one) for one in entries_of(statement.value)
                    )
                else:
                    found.append((None, module.piece(target.name, statement)))
        return self._entries[target]

    def _entry(
        self, module: Module, target: Target, name: str | None, *nodes: ast.AST
    ) -> tuple[str | None, Piece | Use]:
        if name == WHOLE:
            return None, Use(chain_of(nodes[0]) or (), lookup=True)
        piece = module.piece(f"{target.name}[{name!r}]", nodes[-1])
        piece.nodes = nodes  # what looks into a dict is given none of its keys
        known = {one.rpartition(".")[2] for one in self.modules}
        return name if piece.uses or piece.strings & known else None, piece

    def targets(self, piece: Piece, chain: tuple[str, ...]) -> Iterator[Target | str]:
        """Meaning of a dotted name in a piece: targets in the library, strings elsewhere."""
        found: list[Target | str] = []
        for imported in piece.imports.get(chain[0], []):
            found += self._imported(piece.module, *imported)
        if piece.module in self.modules:
            found += self.find(piece.module, chain[0])
        for target in found:
            yield from self._attribute(target, chain[1:])

    def _attribute(self, target: Target | str, rest: tuple[str, ...]) -> Iterator[Target | str]:
        if isinstance(target, str) or target.name or not rest:
            yield target
            return
        for one in self.find(target.module, rest[0]):
            yield from self._attribute(one, rest[1:])

    def find(self, module: str, name: str, seen: frozenset = frozenset()) -> list[Target | str]:
        """Definition of a module's name, followed through imports; none for a builtin."""
        known, here = self.modules[module], Target(module, name)
        if here in seen:
            return []
        found: list[Target | str] = [here] if name in known.bound else []
        for node, alias in (*known.imports.get(name, []), *known.imports.get("*", [])):
            found += self._imported(module, node, alias, name, seen | {here})
        if not found and f"{module}.{name}" in self.modules:
            return [Target(f"{module}.{name}", "")]
        if not found and seen and "__getattr__" in known.bound:
            return [Target(module, "__getattr__")]
        return found

    def _imported(
        self,
        module: str,
        node: ast.Import | ast.ImportFrom,
        alias: ast.alias,
        name: str = "",
        seen: frozenset = frozenset(),
    ) -> list[Target | str]:
        if isinstance(node, ast.Import):
            base = alias.name if alias.asname else alias.name.partition(".")[0]
            return [Target(base, "") if base in self.modules else base]
        base = self.absolute(module, node)
        name = name if alias.name == "*" else alias.name
        if base not in self.modules:
            return [] if alias.name == "*" else [f"{base}.{name}"]
        return self.find(base, name, seen | {Target(base, "")})

    def inside(self, package: str) -> list[str]:
        """The modules directly below a package."""
        return [name for name in self.modules if name.rpartition(".")[0] == package]

    def absolute(self, module: str, node: ast.ImportFrom) -> str:
        """The module that a `from ... import` names."""
        if not node.level:
            return node.module or ""
        up = node.level - self.modules[module].package
        parts = module.split(".")
        return ".".join([*parts[: len(parts) - up], *filter(None, [node.module])])

    def reached(self, cells: Iterable[str]) -> dict[str, str]:
        """The digest of each definition that code cells reach, by module:name.

        It covers what the definition says and what the names in it stand for. Cells that are not
        Python reach nothing.
        """
        found: dict[str, list[str]] = {}
        closure = Closure(self, cells)
        for piece, names in closure.pieces.items():
            said = "" if piece.module == CELLS else piece.meaning
            label = f"{piece.module}:{piece.name}"
            found.setdefault(label, []).append("\n".join((*sorted(names), said)))
        for name in closure.spelled & self.files.keys():
            found[name] = [_content(path) for path in self.files[name]]
        return {
            label: hashlib.sha256("\n".join(sorted(found[label])).encode()).hexdigest()
            for label in sorted(found)
        }


class Closure:
    """Everything that some cells reach: pieces of code, each with the meaning of its names."""

    def __init__(self, library: Library, cells: Iterable[str]) -> None:
        self.library = library
        self.pieces: dict[Piece, list[str]] = {}
        self.spelled: set[str] = set()
        self._waiting: dict[str, list[Piece | Target]] = {}
        self._seen: set[tuple[Target, bool]] = set()
        body = [statement for cell in cells for statement in python(cell)]
        first = Piece(CELLS, "", *body, evaluated=True)
        self._gpu = any(GPU_ONLY in ast.unparse(one) for one in body)
        self._todo: list[Piece | tuple[Target, bool]] = [first]
        for name, all_ in first.imports.items():
            for target in library.targets(first, (name,)):
                if isinstance(target, Target) and target.name:
                    self._todo.append((target, False))
            for node, _ in all_ if name == "*" else ():
                base = getattr(node, "module", None) or ""
                self._todo += [(Target(base, ""), False)] if inside_package(base) else []
        while self._todo:
            one = self._todo.pop()
            if isinstance(one, Piece):
                self._take(one)
            elif one not in self._seen:
                self._seen.add(one)
                self._take_module(*one) if one[0].whole else self._take_name(*one)

    def _take(self, piece: Piece) -> None:
        if piece in self.pieces or (_is_gpu(piece.module) and not self._gpu):
            return
        names = self.pieces[piece] = []
        for use in piece.uses:
            for target in self.library.targets(piece, use.chain):
                names.append(f"{'.'.join(use.chain)} is {target}")
                if isinstance(target, Target):
                    self._todo.append((target, use.lookup))
        for text in piece.strings:
            self._spell(text)
        for package in piece.packages:
            for name in self.library.inside(package):
                self._await(name.rpartition(".")[2], Target(name, ""))
        self._todo += self.library.changed_by.get(Target(piece.module, ""), [])

    def _take_name(self, target: Target, lookup: bool) -> None:
        if not lookup:
            self._todo += self.library.pieces(target)
        else:
            for name, entry in self.library.entries(target):
                if isinstance(entry, Piece):
                    self._await(name, entry)
                else:
                    found = self.library.targets(self.library.pieces(target)[0], entry.chain)
                    self._todo += [(one, True) for one in found if isinstance(one, Target)]
        for piece in self.library.changed_by.get(target, []):
            self._await(name_of(piece.nodes[0]) if lookup else None, piece)

    def _take_module(self, target: Target, lookup: bool) -> None:
        """Take the names that a module offers: all, or those of a package that are spelled out."""
        module = self.library.modules[target.module]
        spelled = target.name == "__all__" or (lookup and module.package)
        for name in (*module.bound, *module.imports):
            for found in self.library.find(module.name, name):
                if isinstance(found, Target) and (found.name or module.package):
                    self._await(name if spelled else None, found)

    def _await(self, name: str | None, one: Piece | Target) -> None:
        """Take something as soon as its name is spelled out, where it has one."""
        if name is not None and name not in self.spelled:
            self._waiting.setdefault(name, []).append(one)
        else:
            self._todo.append(one if isinstance(one, Piece) else (one, False))

    def _spell(self, text: str) -> None:
        if "." in text and text in self.library.modules:
            self._todo.append((Target(text, ""), self.library.modules[text].package))
        if text not in self.spelled:
            self.spelled.add(text)
            for one in self._waiting.pop(text, []):
                self._await(None, one)


@lru_cache(maxsize=2)
def _library(root: Path, _stamp: tuple) -> Library:
    return Library(root)


def library_at(root: Path) -> Library:
    """Library below a root, read once as long as its files stay the same."""
    paths = sorted(
        path for path in (root / PACKAGE).rglob("*") if path.suffix not in (*SENT, ".pyc")
    )
    stats = ((path, path.stat()) for path in paths)
    return _library(root, tuple((path, stat.st_mtime_ns, stat.st_size) for path, stat in stats))


def _is_gpu(module: str) -> bool:
    return f"{module}.".startswith(f"{GPU_ONLY}.") and module != REFUSALS


def module_of(name: str) -> str:
    """The module of a definition, as `Library.reached` names it."""
    return name.partition(":")[0]


def _content(path: Path) -> str:
    """Content of a file; lines of a style sheet that are comments are left out."""
    data = path.read_bytes()
    if path.suffix == ".mplstyle":
        data = b"\n".join(line for line in data.splitlines() if not line.startswith(b"#"))
    return hashlib.sha256(data).hexdigest()
