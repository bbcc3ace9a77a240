"""Digests that decide when a committed output is older than its sources.

A clone gives every file a new time, so ages are told by digests kept in the notebook's metadata:

text     all cells of the source as they stand, with their tags
code     the code cells alone
library  the definitions of the library that those cells reach (`book.tools.imports` says how),
         without comments and docstrings
data     the files below `data/` that the code cells name, and those that the kernel opened
pins     the pins of the library and the book

A chapter whose text alone changed takes the new text and keeps its outputs; any other change
makes it stale. Beside these stand `opened`, the files below `data/` that the kernel opened and no
cell names, and `modules`, four digits for each module with something reached, which tells whose
definitions changed and decides nothing.
"""

from __future__ import annotations

import ast
import hashlib
import json
import re
import threading
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import jupytext
import nbformat

from book.tools import pins
from book.tools.chapters import ROOT, Chapter, front_matter, read
from book.tools.download_note import is_note
from book.tools.imports import library_at, module_of

KEY = "coefdyn"
DATA_PATH = re.compile(r"\bdata/[\w./-]*[\w]")
#: entries that an execution or its tools write into the head of a notebook
OWN = ("jupytext", "kernelspec", "language_info", "widgets", KEY)
WORD = re.compile(r"[\w.-]+")
#: held while code is parsed: chapters are executed by threads, and two that read the library at
#: once would read it twice, which Python 3.11 can answer with a SystemError of its parser
_ALONE = threading.RLock()


@dataclass(frozen=True, kw_only=True)
class Digest:
    """The five digests of a chapter, short hexadecimal, and what explains two of them."""

    text: str
    code: str
    library: str
    data: str
    pins: str
    modules: str = ""
    opened: tuple[str, ...] = ()

    @property
    def of_data(self) -> dict[str, Any]:
        """Parts that an execution can change: the data's digest, and the files it opened."""
        return {"data": self.data, "opened": self.opened}

    def changes(self, recorded: dict[str, Any]) -> list[str]:
        """The names of the parts that differ from a recorded digest."""
        beside = ("modules", "opened")
        parts = {name: value for name, value in asdict(self).items() if name not in beside}
        return [name for name, value in parts.items() if recorded.get(name) != value]


def short(parts: Iterable[str | bytes]) -> str:
    """One digest of a sequence of parts; where one part ends matters."""
    total = hashlib.sha256()
    for part in parts:
        total.update(hashlib.sha256(part if isinstance(part, bytes) else part.encode()).digest())
    return total.hexdigest()[:16]


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


def code_cells(notebook: nbformat.NotebookNode) -> list[str]:
    return [cell.source.rstrip() for cell in notebook.cells if cell.cell_type == "code"]


def digest(chapter: Chapter, root: Path = ROOT, opened: Iterable[Path] | None = None) -> Digest:
    """The digests of a chapter as its files stand now.

    `opened` are the files below `data/` that an execution opened; without it those that the
    committed notebook's execution did.
    """
    notebook = read_source(chapter)
    code = code_cells(notebook)
    with _ALONE:
        library, named = library_at(root).reached(code), data_files(code, root)
    if opened is None:
        known = recorded(chapter) if chapter.notebook.is_file() else None
        opened = [root / name for name in (known or {}).get("opened", ())]
    beside = sorted({path for path in opened if _counts(path, root)} - set(named))
    return Digest(
        text=text_digest(notebook),
        code=short(code),
        library=short(part for pair in library.items() for part in pair),
        data=short(part for path in [*named, *beside] for part in _content(path, root)),
        pins=short([pins.book_section((root / "pins.txt").read_text(encoding="utf-8"))]),
        modules="".join(by_module(library).values()),
        opened=tuple(_name(path, root) for path in beside),
    )


def by_module(library: dict[str, str]) -> dict[str, str]:
    """Four digits for each module, of the digests of its definitions that are reached."""
    found: dict[str, list[str]] = {}
    for name, value in library.items():
        found.setdefault(module_of(name), []).append(value)
    return {name: short(values)[:4] for name, values in sorted(found.items())}


def changed_modules(chapter: Chapter, root: Path = ROOT) -> list[str]:
    """Modules whose reached definitions have changed since the chapter was executed.

    One that is no longer reached is not named.
    """
    said = (recorded(chapter) or {}).get("modules", "")
    known = {said[i : i + 4] for i in range(0, len(said), 4)}
    with _ALONE:
        now = by_module(library_at(root).reached(code_cells(read_source(chapter))))
    return [name for name, value in now.items() if value not in known]


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


def recorded(chapter: Chapter) -> dict[str, Any] | None:
    """Digests with which the committed notebook was executed, None when there are none.

    Raises ValueError when the file is no notebook.
    """
    if not chapter.notebook.exists():
        return None
    return record_of(read_notebook(chapter.notebook))


def record_of(notebook: nbformat.NotebookNode) -> dict[str, Any]:
    """Digests in a notebook's head, empty where none can be read."""
    record = notebook.metadata.get(KEY)
    found = record.get("digest") if isinstance(record, dict) else None
    return dict(found) if isinstance(found, dict) else {}


def edited(chapter: Chapter) -> bool:
    """Return whether the cells of the committed notebook differ from its recorded source."""
    notebook = read_notebook(chapter.notebook)
    return text_digest(notebook) != record_of(notebook).get("text")


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


def _name(path: Path, root: Path) -> str:
    return path.relative_to(root).as_posix()


def _content(path: Path, root: Path) -> tuple[str, bytes]:
    return _name(path, root), path.read_bytes() if path.is_file() else b"absent"


def data_files(cells: list[str], root: Path = ROOT) -> list[Path]:
    """The files below `data/` that code cells name in a string.

    A string may hold a path (`data/results/principle-3/paper.jsonl`, a folder, or with `../`
    before it) or a single word that is the name of a file or folder below `data/`
    (`principle-3`). A path that does not exist counts too: its appearance is a change. What lies
    in `data/scratch/` does not count, nor do hidden files of a folder, such as the turns of
    processes that write one result file.
    """
    found: set[Path] = set()
    for text in _strings(cells):
        for match in DATA_PATH.findall(text):
            found |= _files(root / match)
        if WORD.fullmatch(text):
            for path in (root / "data").glob("*/*"):
                if text in (path.name, path.stem):
                    found |= _files(path)
    return sorted(path for path in found if _counts(path, root))


def _counts(path: Path, root: Path) -> bool:
    """Return whether outputs may depend on a file below `data/`, neither scratch nor hidden."""
    parts = path.relative_to(root / "data").parts
    return parts[:1] != ("scratch",) and not any(part.startswith(".") for part in parts)


def _strings(cells: list[str]) -> Iterable[str]:
    for cell in cells:
        try:
            tree = ast.parse(cell)
        except SyntaxError:
            continue
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield node.value


def _files(path: Path) -> set[Path]:
    if not path.is_dir():
        return {path}
    return {inside for inside in path.rglob("*") if inside.is_file()}
