"""When a committed output is older than what it was made from: the record of executions.

`book/executed.json` tells for each chapter the digest of its code cells, that of the pins, and what
its execution read: every module that was loaded and every other file below `coefdyn`, `book` and
`data` that was opened, by any of its processes. Each stands there with a mark of eight digits, made
from its name and its content. Files that the same chapters read make a group, named by a digest of
its marks, and a chapter names its groups. It is current as long as all its marks are those of
today's files. Nothing is guessed from the source: too many executions cost minutes, one too few
publishes wrong outputs.

Modules count by their syntax trees without comments and docstrings, other files by their bytes.
Where a package only tells which of its modules has a name (`coefdyn.first_use`), this counts with
that module, so that a new one concerns nobody yet. The scripts and styles of interactive figures do
not count, since the page build puts them in.

`book.tools.execute` alone writes the file. After a merge's conflict take either side and execute: a
chapter that the side knows wrongly is stale. A file that cannot be read makes all chapters stale.
"""

from __future__ import annotations

import ast
import fcntl
import hashlib
import json
import os
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from math import inf
from pathlib import Path
from typing import Any

import jupytext
import nbformat

from book.tools import pins
from book.tools.chapters import BOOK, ROOT, Chapter, front_matter, read
from book.tools.download_note import is_note

RECORD = BOOK / "executed.json"
#: folders whose files count
COUNTED = ("coefdyn", "book", "data")
#: what the page build puts into a figure, and what an execution writes
NOT_COUNTED = (".js", ".css", ".ipynb")
#: entries that an execution or its tools write into the head of a notebook
OWN = ("jupytext", "kernelspec", "language_info", "widgets")


@dataclass(frozen=True, kw_only=True)
class Execution:
    """Digests of a chapter's code and of the pins, and a mark -> file for all that was read."""

    code: str
    pins: str
    files: dict[str, str]

    def changes(self, chapter: Chapter, root: Path = ROOT) -> list[str]:
        """The parts that differ today: "code", "pins", "files"."""
        parts = ["code"] if self.code != code_digest(read_source(chapter)) else []
        parts += ["pins"] if self.pins != pins_digest(root) else []
        return parts + (["files"] if self.changed_files(root) else [])

    def changed_files(self, root: Path = ROOT) -> list[str]:
        """Names of the files that differ today, sorted."""
        return sorted(name for sign, name in self.files.items() if mark(name, root) != sign)


def execution(
    source: nbformat.NotebookNode, opened: Iterable[str], began: float = inf, root: Path = ROOT
) -> Execution:
    """The record of an execution of a source that opened these files, as they are now.

    A file written after it began (seconds since the epoch) gets a mark that fits no content.
    """
    marks = {}
    for name in sorted({name for path in opened if (name := counted_name(path, root))}):
        path = root / name
        if path.is_dir() and not name.endswith("/"):
            continue
        late = path.is_file() and path.stat().st_mtime > began
        marks[short([name, "changed meanwhile"])[:8] if late else mark(name, root)] = name
    return Execution(code=code_digest(source), pins=pins_digest(root), files=marks)


def counted_name(path: str, root: Path = ROOT) -> str:
    """The name of a file below the repository, empty where outputs do not depend on it.

    A folder, whose contents were listed, ends with a slash.
    """
    try:
        inside = Path(path).relative_to(root)
    except ValueError:
        return ""
    parts = inside.parts
    hidden = any(part.startswith(".") or part == "__pycache__" for part in parts)
    if parts[:1] not in [(one,) for one in COUNTED] or hidden or inside.suffix in NOT_COUNTED:
        return ""
    if parts[:2] in [("data", "scratch"), ("book", "_build"), ("book", RECORD.name)]:
        return ""
    return inside.as_posix() + ("/" if path.endswith("/") else "")


def mark(name: str, root: Path = ROOT) -> str:
    """Eight digits of a file's name and content, or of a folder's name and the names in it."""
    path, told = root / name, []
    if name.endswith("/"):
        inside = path.iterdir() if path.is_dir() else ()
        content = "\n".join(sorted(one.name for one in inside if not one.name.startswith(".")))
    elif not path.is_file():
        content = "absent"
    else:
        content, _ = _read_file(path)
        told = _told(name, root) if path.suffix == ".py" else []
    return short([name, content, *told])[:8]


def _told(name: str, root: Path) -> list[str]:
    """What the packages around a module tell of it: the names that they have from it."""
    module = name.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
    told = []
    for folder in Path(name).parents:
        init, package = root / folder / "__init__.py", ".".join(folder.parts)
        if init.is_file() and init != root / name:
            _, homes = _read_file(init)
            told += [*homes.get(module, ()), *homes.get(module.removeprefix(f"{package}."), ())]
    return told


def _read_file(path: Path) -> tuple[str, dict[str, list[str]]]:
    state = path.stat()
    return _parts(path, state.st_mtime_ns, state.st_size)


@cache
def _parts(path: Path, _time: int, _size: int) -> tuple[str, dict[str, list[str]]]:
    """The digest of what a file says itself, and of a package its modules and the names in them."""
    data, homes = path.read_bytes(), defaultdict[str, list[str]](list)
    if path.suffix != ".py":
        return short([data]), homes
    try:
        tree = ast.parse(data)
    except SyntaxError:  # its bytes tell that it has changed
        return short([data]), homes
    if b"load_on_first_use(__name__)" in data:
        lists = [one for one in tree.body if _tells_homes(one)]
        tree.body = [one for one in tree.body if one not in lists]
        for part in (part for one in lists for part in ast.walk(one)):
            if isinstance(part, ast.ImportFrom):
                homes[part.module or ""].append(ast.unparse(part))
            elif isinstance(part, ast.Dict):
                for key, home in ast.literal_eval(part).items():
                    homes[home].append(key)
    return short([meaning(tree)]), homes


def _tells_homes(node: ast.stmt) -> bool:
    """Return whether a statement lists a package's names, or the modules that have them."""
    if isinstance(node, ast.If):
        return ast.unparse(node.test) == "TYPE_CHECKING"
    names = [ast.unparse(one) for one in node.targets] if isinstance(node, ast.Assign) else []
    return names in (["__all__"], ["HOMES"])


def meaning(tree: object) -> str:
    """Syntax tree as text, the same on every Python version, docstrings left out."""
    if isinstance(tree, list):
        return f"[{','.join(meaning(one) for one in tree if not _is_words(one))}]"
    if not isinstance(tree, ast.AST):
        return repr(tree)
    # Fields that some Python versions have and others lack are empty in the code they share.
    said = {k: v for k, v in ast.iter_fields(tree) if v is not None and v != []}
    said = {k: meaning(v) for k, v in said.items() if k not in ("ctx", "kind")}
    return f"{type(tree).__name__}({','.join(f'{k}={v}' for k, v in said.items())})"


def _is_words(node: object) -> bool:
    """Return whether a statement is a bare string: a docstring, or a comment below a constant."""
    value = node.value if isinstance(node, ast.Expr) else None
    return isinstance(value, ast.Constant) and isinstance(value.value, str)


def recorded(chapter: Chapter, path: Path = RECORD) -> Execution | None:
    """The record of a chapter's last execution, None where there is none."""
    return _read(path).get(chapter.name)


def record(chapter: Chapter, made: Execution, known: Iterable[str], path: Path = RECORD) -> None:
    """Put a chapter's execution into the file, and take out those of chapters not in `known`.

    A lock keeps executions beside each other, in threads or in processes, from losing one.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    turn = path.parent / "_build" / "executed.lock"
    turn.parent.mkdir(parents=True, exist_ok=True)
    with turn.open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        kept = {name: one for name, one in _read(path).items() if name in set(known)}
        told = _grouped({**kept, chapter.name: made})
        part = path.with_name(f".{path.name}.{os.getpid()}.part")
        part.write_text(json.dumps(told, indent=1) + "\n", encoding="utf-8")
        os.replace(part, path)


def _grouped(executions: dict[str, Execution]) -> dict[str, Any]:
    """Groups of files that the same chapters read, and each chapter with its groups."""
    readers = defaultdict[tuple[str, str], list[str]](list)
    for chapter, one in sorted(executions.items()):
        for sign, name in one.files.items():
            readers[name, sign].append(chapter)
    groups = defaultdict[tuple[str, ...], dict[str, str]](dict)
    for (name, sign), chapters in sorted(readers.items()):
        groups[tuple(chapters)][name] = sign
    keys = {chapters: _key(files) for chapters, files in groups.items()}
    return {
        "groups": {keys[chapters]: files for chapters, files in groups.items()},
        "chapters": {
            chapter: {
                "code": one.code,
                "pins": one.pins,
                "groups": " ".join(key for chapters, key in keys.items() if chapter in chapters),
            }
            for chapter, one in sorted(executions.items())
        },
    }


def _key(files: dict[str, str]) -> str:
    return short(files.values())[:6]


def _read(path: Path) -> dict[str, Execution]:
    """Executions by chapter; none where the file is absent or damaged, as by the marks of a merge.

    A group that a merge has put together does not fit its key, and counts as a changed file.
    """
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        groups = {key: files for key, files in found["groups"].items() if key == _key(files)}
        return {
            name: Execution(
                code=one["code"],
                pins=one["pins"],
                files={
                    sign: file
                    for key in one["groups"].split()
                    for file, sign in groups.get(key, {f"group {key}": ""}).items()
                },
            )
            for name, one in found["chapters"].items()
        }
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return {}


def short(parts: Iterable[str | bytes]) -> str:
    """One digest of a sequence of parts; where one part ends matters."""
    total = hashlib.sha256()
    for part in parts:
        total.update(hashlib.sha256(part if isinstance(part, bytes) else part.encode()).digest())
    return total.hexdigest()[:16]


def pins_digest(root: Path = ROOT) -> str:
    return short([pins.book_section((root / "pins.txt").read_text(encoding="utf-8"))])


def read_source(chapter: Chapter) -> nbformat.NotebookNode:
    """Read the chapter's Markdown as a notebook without outputs.

    Raises ValueError that names the file when it is damaged.
    """
    text = read(chapter.source)
    try:
        front_matter(text)
        return jupytext.reads(text, fmt="md:myst")
    except Exception as error:  # whatever jupytext and nbformat stumble over
        reason = (str(error).splitlines() or [type(error).__name__])[0][:120]
        raise ValueError(f"{chapter.source} is no readable chapter: {reason}.") from error


def read_notebook(path: Path) -> nbformat.NotebookNode:
    """Read a committed notebook.

    Raises ValueError that names the file when it is none: torn, or with a merge's marks in it.
    """
    try:
        return nbformat.reads(path.read_text(encoding="utf-8"), as_version=4)
    except Exception as error:  # whatever nbformat stumbles over, JSON or its schema
        reason = (str(error).splitlines() or [""])[0][:80]
        raise ValueError(
            f"{path} is no readable notebook ({type(error).__name__}: {reason}); "
            f"`make execute CHAPTER={path.stem}` writes it anew."
        ) from error


def code_cells(notebook: nbformat.NotebookNode) -> list[str]:
    return [cell.source.rstrip() for cell in notebook.cells if cell.cell_type == "code"]


def code_digest(notebook: nbformat.NotebookNode) -> str:
    return short(code_cells(notebook))


def text_digest(notebook: nbformat.NotebookNode) -> str:
    """The digest of all cells as they stand, with their tags, outputs left out.

    An empty list of tags, which an execution adds, is none; nor does the cell count that
    normalising puts first.
    """
    head = {name: notebook.metadata[name] for name in notebook.metadata if name not in OWN}
    cells = (
        (cell.cell_type, cell.source.rstrip(), {k: v for k, v in cell.metadata.items() if v != []})
        for cell in notebook.cells
        if not is_note(cell)
    )
    return short(json.dumps(part, sort_keys=True) for part in (head, *cells))
