"""A page's Markdown as blocks of prose and cells with interactive figures.

What a comment (`% see: ...`) right below a block says is kept with it; `promises.py` reads it.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

from book.tools.chapters import BOOK
from book.tools.programs import VIEW, models_of

__all__ = ["HEADING", "Block", "Figure", "Page", "page_at", "pages", "parse", "widget"]

LINE = re.compile(r"^\s*%\s*(open|do|see|at|exempt):\s*(.*?)\s*$")
FENCE = re.compile(r"^\s*(`{3,}|~{3,})\s*(.*)$")
NEW_BLOCK = re.compile(r"^\s*(?:[-*+]|\d+\.)\s|^\s*:{3,}|^\s*#{1,6}\s|^\s*\+\+\+")
HEADING = re.compile(r"^#{1,6}\s")
IMPORT = re.compile(r"^from coefdyn[\w.]* import (?:\([^)]*\)|.*)$", re.MULTILINE)
MAKES = re.compile(
    r"\b(?:Explorer|FactsView|\w+View|ScoreVariance|TrainingFilm|PageTraining)\b[.(]"
)


@dataclass(frozen=True, kw_only=True)
class Figure:
    """A cell of a page that ends in an interactive figure."""

    page: str
    line: int
    section: int
    code: str
    #: what the cells up to this one import of the library
    before: str


@dataclass
class Block:
    """A paragraph or an item with the comments below it."""

    line: int
    section: int
    lines: list[str] = field(default_factory=list)
    record: list[tuple[str, str]] = field(default_factory=list)
    unread: list[str] = field(default_factory=list)


@dataclass
class Page:
    """A page's blocks and figures, and what its cells import of the library."""

    name: str
    blocks: list[Block] = field(default_factory=list)
    figures: list[Figure] = field(default_factory=list)
    imports: list[str] = field(default_factory=list)


def pages(book: Path = BOOK) -> Iterator[Path]:
    """The Markdown sources of the book's pages, the reference aside."""
    for path in sorted(book.rglob("*.md")):
        if path.relative_to(book).parts[0] not in ("_build", "tools", "api", "assets"):
            yield path


def parse(text: str, name: str) -> Page:
    """The blocks of prose and the figures of a page."""
    page = Page(name)
    section, fence, kind, start = 0, "", "", 0
    code: list[str] = []
    block: Block | None = None
    for number, line in enumerate(text.splitlines(), 1):
        opened = FENCE.match(line)
        if fence:
            if line.strip() == fence:
                if kind.startswith("{code-cell}"):
                    _end_of_cell(page, code, start, section)
                fence, block = "", None
            else:
                code.append(line)
            continue
        if opened:
            fence, kind, code, start = opened[1], opened[2], [], number
            continue
        if not line.strip():
            block = None
            continue
        if line.lstrip().startswith("%"):
            _remember(line, block or (page.blocks[-1] if page.blocks else None))
            continue
        if NEW_BLOCK.match(line):
            block = None
        section += bool(HEADING.match(line))
        if block is None:
            block = Block(number, section)
            page.blocks.append(block)
        block.lines.append(line)
    return page


def _remember(comment: str, block: Block | None) -> None:
    if block is not None:
        said = LINE.match(comment)
        block.record += [(said[1], said[2])] if said else []
        block.unread += [] if said else [comment.strip()]


def _end_of_cell(page: Page, code: list[str], line: int, section: int) -> None:
    """Keeps a cell that makes a figure, and what cells import of the library."""
    made = "\n".join(x for x in code if not x.startswith(":"))
    page.imports += IMPORT.findall(made)
    if MAKES.search(made):
        before = "\n".join(page.imports)
        page.figures.append(
            Figure(page=page.name, line=line, section=section, code=made, before=before)
        )


@cache
def page_at(path: Path) -> Page:
    """A page of the book, read once."""
    return parse(
        path.read_text(encoding="utf-8"), path.relative_to(BOOK).with_suffix("").as_posix()
    )


def widget(figure: Figure, book: Path = BOOK) -> Any:
    """The figure itself: its cell run alone, or as saved where it needs the cells before."""
    try:
        return _made(f"{figure.before}\n{figure.code}")
    except NameError:
        return _saved(figure, book)


def _made(code: str) -> Any:
    tree = ast.parse(code)
    last = tree.body.pop()
    assert isinstance(last, ast.Expr), "a figure is the last line of its cell"
    names: dict[str, Any] = {}
    exec(compile(tree, "cell", "exec"), names)
    return eval(compile(ast.Expression(last.value), "cell", "eval"), names)


def _saved(figure: Figure, book: Path) -> Any:
    """From the notebook beside the page, for what only the whole chapter can make."""
    notebook = json.loads((book / f"{figure.page}.ipynb").read_text(encoding="utf-8"))
    wanted = figure.code.strip()
    for cell in notebook["cells"]:
        if "".join(cell["source"]).strip() == wanted:
            views = [o["data"][VIEW] for o in cell["outputs"] if VIEW in o.get("data", {})]
            state = models_of(notebook)[views[-1]["model_id"]]["state"]
            home, _, name = state["_anywidget_id"].rpartition(".")
            return getattr(import_module(home), name).from_state(state)
    raise ValueError(f"{figure.page}.ipynb has no cell like that in line {figure.line}")
