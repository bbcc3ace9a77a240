"""One self-contained script from JavaScript files that import one another.

The files are ES modules as they stand, for editors, browsers and linters. This module reads the
forms that the project writes, and refuses others:

    import { a, b } from "./file.js";
    import DATA from "../data.json" with { type: "json" };
    import OFFERED from "coefdyn:offered";      a value that Python gives
    export function f() {}                      or const, let, class
    export default { ... };                     of an entry

A top-level statement begins at the start of a line, and its other lines with a blank or a bracket.
`make lint` calls ``main``, for what is exported and imported nowhere.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

__all__ = ["join", "unused_exports"]

_IMPORT = re.compile(r'import (?:\{ (.+) \}|(\w+)) from "(.+)"(?: with \{ type: "json" \})?;')
_STATEMENT = re.compile(r"(export )?(?:async )?(?:function|class|const|let) (\w+)")
_WORD = re.compile(r"[\w$]+")


class _Statement(NamedTuple):
    home: Path
    name: str  # "" for one that declares none
    exported: bool
    text: str


class _Module(NamedTuple):
    imports: dict[str, Path]  # where each imported name is declared
    values: dict[str, str]  # the address of each imported value
    statements: list[_Statement]


def join(entry: Path, given: Mapping[str, Any] | None = None, *, whole: bool = False) -> str:
    """The entry and what it needs of the files it imports, as one script without imports.

    Comments on lines of their own, indentation and ``export`` are left out; of an entry,
    ``export default`` stays. What is needed is told by words, from the entry's own statements on.

    Args:
        entry: the file to begin with.
        given: the values of addresses such as "coefdyn:offered", which JSON can hold.
        whole: all that the files declare, for a script whose functions others call.

    Raises:
        ValueError: for files that import one another in a circle, a name that is imported and not
            exported or declared twice, a file that is not there, an address without a value, and
            other forms of import and export.
    """
    modules = _modules(entry.resolve(), {}, ())
    homes: dict[str, Path | str] = {}
    for home, module in modules.items():
        declared = {statement.name: home for statement in module.statements if statement.name}
        for name, place in {**module.values, **declared}.items():
            if homes.setdefault(name, place) != place:
                raise ValueError(f"{name} is declared in {homes[name]} and in {place}; rename one.")
    every = [statement for module in modules.values() for statement in module.statements]
    needed = set(every) if whole else _needed(entry.resolve(), modules)
    words = {word for statement in needed for word in _WORD.findall(statement.text)}
    values = {name: place for module in modules.values() for name, place in module.values.items()}
    constants = [
        f"const {name} = {_json(place, given or {})};"
        for name, place in values.items()
        if name in words
    ]
    kept = [statement for statement in every if statement in needed]
    return "\n".join([*constants, *(re.sub("^export (?!default)", "", s.text) for s in kept)])


def unused_exports(folder: Path) -> list[str]:
    """The names that a file below the folder exports and none below it imports."""
    modules = {path: _read(path) for path in sorted(folder.resolve().rglob("*.js"))}
    taken = {(home, name) for module in modules.values() for name, home in module.imports.items()}
    return [
        f"{home.relative_to(folder.resolve())}: {name} is exported and imported nowhere"
        for home, module in modules.items()
        for _, name, exported, _ in module.statements
        if exported and name and (home, name) not in taken
    ]


def _modules(
    path: Path, found: dict[Path, _Module], above: tuple[Path, ...]
) -> dict[Path, _Module]:
    """Modules that a file needs and the file itself, each after all that it imports."""
    if path in above:
        circle = " imports ".join(one.name for one in (*above[above.index(path) :], path))
        raise ValueError(f"{circle}; move what they share into a file of its own.")
    if path in found:
        return found
    if not path.is_file():
        raise ValueError(f"{' imports '.join(one.name for one in (*above, path))}: no such file.")
    module = _read(path)
    for home in module.imports.values():
        _modules(home, found, (*above, path))
    for name, home in module.imports.items():
        if not any(one.exported and one.name == name for one in found[home].statements):
            raise ValueError(f"{path.name} imports {name}, which {home.name} does not export.")
    if above:  # a default belongs to the entry
        own = [one for one in module.statements if not one.text.startswith("export default")]
        module = module._replace(statements=own)
    found[path] = module
    return found


def _read(path: Path) -> _Module:
    module = _Module({}, {}, [])
    for line in path.read_text(encoding="utf-8").splitlines():
        code = line.strip()
        if not code or code.startswith("//"):
            continue
        if code.count("`") % 2:
            raise ValueError(
                f"{path.name}: a template over several lines would lose its blanks: {code}"
            )
        if line[0] in " )]}":
            last = module.statements.pop()
            module.statements.append(last._replace(text=f"{last.text}\n{code}"))
        elif code.startswith("import "):
            _take_import(path, code, module)
        else:
            start = _STATEMENT.match(code)
            if code.startswith("export ") and not (start or code.startswith("export default ")):
                raise ValueError(f"{path.name}: this form of export cannot be joined: {code}")
            name, exported = (start[2], bool(start[1])) if start else ("", False)
            module.statements.append(_Statement(path, name, exported, code))
    return module


def _take_import(path: Path, code: str, module: _Module) -> None:
    found = _IMPORT.fullmatch(code)
    if not found or " as " in code:
        raise ValueError(f"{path.name}: this form of import cannot be joined: {code}")
    names, value, address = found.groups()
    place = (path.parent / address).resolve()
    if names:
        module.imports.update((name, place) for name in names.split(", "))
    else:
        module.values[value] = str(place) if address.startswith(".") else address


def _needed(entry: Path, modules: Mapping[Path, _Module]) -> set[_Statement]:
    """The entry's statements without a name, what they name, and so on; and with any statement of a
    file, those of it without a name."""
    found: dict[tuple[Path, str], list[_Statement]] = {}
    for module in modules.values():
        for statement in module.statements:
            found.setdefault((statement.home, statement.name), []).append(statement)
    needed: set[_Statement] = set()
    waiting = [*found.get((entry, ""), [])]
    while waiting:
        statement = waiting.pop()
        if statement not in needed:
            needed.add(statement)
            home, imports = statement.home, modules[statement.home].imports
            for word in {"", *_WORD.findall(statement.text)}:
                waiting += found.get((imports.get(word, home), word), [])
    return needed


def _json(place: str, given: Mapping[str, Any]) -> str:
    if place in given:
        value = given[place]
    elif Path(place).is_file():
        value = json.loads(Path(place).read_text(encoding="utf-8"))
    else:
        raise ValueError(f"nothing is given for {place}; name it in `given`.")
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def main(folders: Iterable[str]) -> int:
    """Print the exports that no file imports; 1 if there are any."""
    found = [line for folder in folders for line in unused_exports(Path(folder))]
    print("\n".join(found), end="\n" if found else "")
    return int(bool(found))
