"""Which files of the library a piece of code reaches, found by reading imports, not running them.

A package's `__init__` that re-exports names is looked through: `from coefdyn.mixers import GLA`
reaches the module that defines `GLA` and not its neighbours. Any other module counts whole, with
everything that it imports itself, inside functions too, and with the files that are not Python in
its folder (a widget's script, a style sheet). A cell that imports a list of submodules, as
`EXPERIMENTS` is one, goes through them all, so it reaches them all.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from book.tools.chapters import ROOT

PACKAGE = "coefdyn"

#: Run on a GPU only. Committed outputs come from a CPU, so these count only where code names them.
GPU_ONLY = (f"{PACKAGE}.execution.triton",)

Need = tuple[str, str | None]  # (module, the one name wanted of it, or None for all of it)


def parse(path: Path) -> ast.Module:
    """The syntax tree of a file, parsed once as long as the file stays the same."""
    stat = path.stat()
    return _parse(path, stat.st_mtime_ns, stat.st_size)


@cache
def _parse(path: Path, _time: int, _size: int) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), str(path))


class Library:
    """The modules of the package below `root`."""

    def __init__(self, root: Path = ROOT) -> None:
        self.root = root
        self._known: dict[tuple[str, ast.Module], list[Need]] = {}

    def path(self, module: str) -> Path | None:
        """The file of a module, None when there is none of this name."""
        base = self.root.joinpath(*module.split("."))
        for path in (base / "__init__.py", base.with_suffix(".py")):
            if path.is_file():
                return path
        return None

    def reached(self, cells: list[str]) -> list[Path]:
        """All files that code cells reach, sorted; cells that are not Python reach none."""
        todo = [need for cell in cells for need in self._needs_of_cell(cell)]
        named = tuple(module for module, _ in todo)
        seen: set[Need] = set()
        files: set[Path] = set()
        while todo:
            need = todo.pop()
            if need in seen or self._gpu_only(need[0], named):
                continue
            seen.add(need)
            todo += self._follow(*need, files)
        return sorted(files)

    def _needs_of_cell(self, cell: str) -> Iterator[Need]:
        lines = (line for line in cell.splitlines() if not line.lstrip().startswith(("%", "!")))
        try:
            tree = ast.parse("\n".join(lines))
        except SyntaxError:
            return
        for need in self._needs(tree, ""):
            yield need
            yield from self._listed(*need)

    def _listed(self, module: str, name: str | None) -> Iterator[Need]:
        """The submodules that a package's `__init__` lists as strings under this name."""
        path = self.path(module)
        if path is None or path.name != "__init__.py":
            return
        for node in parse(path).body:
            targets = node.targets if isinstance(node, ast.Assign) else []
            targets = [node.target] if isinstance(node, ast.AnnAssign) else targets
            if any(isinstance(one, ast.Name) and one.id == name for one in targets):
                words = (one.value for one in ast.walk(node) if isinstance(one, ast.Constant))
                found = (f"{module}.{word}" for word in words if isinstance(word, str))
                yield from ((one, None) for one in found if self.path(one) is not None)

    @staticmethod
    def _gpu_only(module: str, named: tuple[str, ...]) -> bool:
        hit = next((gpu for gpu in GPU_ONLY if module == gpu or module.startswith(gpu + ".")), None)
        return hit is not None and not any(name.startswith(hit) for name in named)

    def _follow(self, module: str, name: str | None, files: set[Path]) -> list[Need]:
        path = self.path(module)
        if path is None:
            return []
        if name is not None and path.name == "__init__.py":
            bound = list(self._binding(parse(path), module, name))
            if bound:
                return bound
        files.add(path)
        files.update(neighbours(path))
        key = (module, parse(path))
        if key not in self._known:
            self._known[key] = list(self._needs(parse(path), module))
        return self._known[key]

    def _binding(self, tree: ast.Module, module: str, name: str) -> Iterator[Need]:
        """What an `__init__` imports in order to offer `name`."""
        for node in tree.body:
            if isinstance(node, ast.ImportFrom):
                for alias in node.names:
                    if (alias.asname or alias.name) == name:
                        yield from self._from(node, alias.name, module)

    def _needs(self, tree: ast.AST, module: str) -> Iterator[Need]:
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                yield from ((a.name, None) for a in node.names if inside(a.name))
            elif isinstance(node, ast.ImportFrom):
                for alias in node.names:
                    yield from self._from(node, alias.name, module)
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield from ((name, None) for name in [node.value] if self._is_module(name))

    def _is_module(self, text: str) -> bool:
        """Whether a string is the dotted name of a module, as `import_module` is given."""
        return text.startswith(f"{PACKAGE}.") and self.path(text) is not None

    def _from(self, node: ast.ImportFrom, name: str, module: str) -> Iterator[Need]:
        base = node.module or ""
        if node.level:
            path = self.path(module)
            up = node.level - (path is not None and path.name == "__init__.py")
            parts = module.split(".")
            base = ".".join(parts[: len(parts) - up] + ([node.module] if node.module else []))
        if inside(base):
            submodule = f"{base}.{name}"
            yield (
                (submodule, None) if self.path(submodule) else (base, None if name == "*" else name)
            )


@cache
def library_at(root: Path) -> Library:
    """The library below a root, one for all chapters: what it read, it reads once."""
    return Library(root)


def inside(module: str) -> bool:
    """Whether a module belongs to the package."""
    return module == PACKAGE or module.startswith(PACKAGE + ".")


def neighbours(path: Path) -> list[Path]:
    """Files that are not Python beside a module, or in folders there that are not packages."""
    found = []
    for entry in path.parent.iterdir():
        if entry.name.startswith((".", "__")):
            continue
        if entry.is_dir() and not any(entry.rglob("*.py")):
            found += [p for p in entry.rglob("*") if p.is_file()]
        elif entry.is_file() and entry.suffix not in (".py", ".pyc"):
            found.append(entry)
    return found
