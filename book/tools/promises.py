"""Promises: the sentences of a page that say what a figure does, and the record of each.

    python -m book.tools.promises          lists them, and what is wrong with them

A record stands in comments right below its paragraph or item, so that the sentence, its link and what a
browser does to check them are written once, in one place (`tests/browser/test_promises.py` performs it):

    - <a href="#cd?preset=deltanet&amp;beta=2">Set the strength to 2</a>: states keep their length.
      % see: shortest = 1
      % do: beta = 1
      % see: shortest falls

The lines are performed in order, after the first link has been opened:

    open   the words of another link of the paragraph, which is opened here
    do     CONTROL = VALUE, press HOOK, or drag HANDLE = X, Y, between semicolons
    see    QUANTITY > NUMBER (or <, >=, <=, = to the digits written, != ), QUANTITY rises (falls, stays)
           after what was done last, or another quantity in place of the number, between semicolons
    at     where the figure of a sentence without a link stands: "above" or "below" (from which the
           default departs: the next figure of its section, else the last one before it)
    exempt why a sentence with one of the verbs, or a link, is no promise about a figure

Links that a cell writes into a table open a design and promise nothing more; `tests/unit/test_chapter_links.py`
holds their settings. A quantity is the hook of a number on show (`near-zero-fraction`), the value of a control, or one that the
test reads off the figure (`answer(white)`, `alpha(5, 4)`, `shortest`; its table names them all).
"""

from __future__ import annotations

import ast
import html
import json
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Literal

from book.tools.chapters import BOOK

__all__ = ["Figure", "Link", "Promise", "Seen", "Step", "figure_of", "figures", "problems", "promises"]

#: a sentence beside a figure that tells the reader to do something to it
VERBS = re.compile(
    r"\b(?:Move|Drag|Press|Watch|Set|Switch)\b"
    r"|(?:\b(?:then|and|or)|,) (?:move|drag|press|watch|set|switch)\b"
)
LINK = re.compile(r'<a\s+href="([^"#]*)(#cd[^"?]*)\?([^"]*)"[^>]*>(.*?)</a>', re.DOTALL)
RAW = re.compile(r"""href=["'][^"']*#cd|\]\([^)]*#cd""")
LINE = re.compile(r"^\s*%\s*(open|do|see|at|exempt):\s*(.*?)\s*$")
SEE = re.compile(r"^([a-z][\w-]*(?:\([^)]*\))?)\s*(rises|falls|stays|>=|<=|!=|[><=])\s*(.*)$")
DO = re.compile(r"^(?:(drag|press)\s+)?([\w-]+)(?:\s*=\s*(.+))?$")
FENCE = re.compile(r"^\s*(`{3,}|~{3,})\s*(.*)$")
NEW_BLOCK = re.compile(r"^\s*(?:[-*+]|\d+\.)\s|^\s*:{3,}|^\s*#{1,6}\s|^\s*\+\+\+")
HEADING = re.compile(r"^#{1,6}\s")
IMPORT = re.compile(r"^from coefdyn[\w.]* import (?:\([^)]*\)|.*)$", re.MULTILINE)
MAKES = re.compile(r"\b(?:Explorer|FactsView|\w+View|ScoreVariance|TrainingFilm|PageTraining)\b[.(]")


@dataclass(frozen=True, kw_only=True)
class Link:
    """A link to a figure's state: the page it leads to ("" for its own), its address, its words."""

    page: str
    prefix: str
    query: str
    words: str

    @property
    def address(self) -> str:
        """The fragment of the page's address."""
        return f"{self.prefix}?{html.unescape(self.query)}"


@dataclass(frozen=True, kw_only=True)
class Seen:
    """Observation after a step: a quantity, its relation, and the value it is compared with."""

    quantity: str
    relation: str
    value: str


@dataclass(frozen=True, kw_only=True)
class Step:
    """One thing that a reader does ("open", "set", "press" or "drag"), and what is seen then."""

    kind: Literal["start", "open", "set", "press", "drag"]
    what: str = ""
    value: str = ""
    seen: tuple[Seen, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Promise:
    """A sentence about a figure, and what is done and seen.

    Args:
        page: name of the page, such as "architectures/deltanet".
        line: where the sentence begins, from 1.
        words: the sentence as it is written.
        links: the links of the sentence to states of figures.
        steps: what is done and seen, in order.
        at: "", "above" or "below".
        exempt: why there is nothing to perform; empty where there is.
    """

    page: str
    line: int
    words: str
    links: tuple[Link, ...]
    steps: tuple[Step, ...]
    at: str = ""
    exempt: str = ""

    @property
    def name(self) -> str:
        """Its place."""
        return f"{self.page}.md:{self.line}"


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
class _Block:
    """A paragraph or an item with the comments below it."""

    line: int
    section: int
    lines: list[str] = field(default_factory=list)
    record: list[tuple[str, str]] = field(default_factory=list)
    unread: list[str] = field(default_factory=list)


@dataclass
class _Page:
    name: str
    blocks: list[_Block] = field(default_factory=list)
    figures: list[Figure] = field(default_factory=list)
    imports: list[str] = field(default_factory=list)


def pages(book: Path = BOOK) -> Iterator[Path]:
    """The Markdown sources of the book's pages, the reference aside."""
    for path in sorted(book.rglob("*.md")):
        if path.relative_to(book).parts[0] not in ("_build", "tools", "api", "assets"):
            yield path


def parse(text: str, name: str) -> _Page:
    """The blocks of prose and the figures of a page."""
    page = _Page(name)
    section, fence, code, start = 0, "", [], 0
    block: _Block | None = None
    for number, line in enumerate(text.splitlines(), 1):
        opened = FENCE.match(line)
        if fence:
            if line.strip() == fence:
                _end_of_cell(page, code, start, section)
                fence, block = "", None
            else:
                code.append(line)
            continue
        if opened:
            fence, code, start = opened[1], [], number
            continue
        if not line.strip() or (NEW_BLOCK.match(line) and not line.lstrip().startswith("%")):
            block = None
        if HEADING.match(line):
            section += 1
        if not line.strip():
            continue
        said = LINE.match(line)
        if line.lstrip().startswith("%"):
            target = block or (page.blocks[-1] if page.blocks else None)
            if target is not None and said:
                target.record.append((said[1], said[2]))
            elif target is not None:
                target.unread.append(line.strip())
            continue
        if block is None:
            block = _Block(number, section)
            page.blocks.append(block)
        block.lines.append(line)
    return page


def _end_of_cell(page: _Page, code: list[str], line: int, section: int) -> None:
    """Keeps a cell that ends if it makes a figure, and what it imports of the library for later ones."""
    made = "\n".join(x for x in code if not x.startswith(":"))
    page.imports += IMPORT.findall(made)
    if MAKES.search(made):
        before = "\n".join(page.imports)
        page.figures.append(
            Figure(page=page.name, line=line, section=section, code=made, before=before)
        )


@cache
def _page(path: Path) -> _Page:
    return parse(path.read_text(encoding="utf-8"), path.relative_to(BOOK).with_suffix("").as_posix())


def promise_of(block: _Block, page: str) -> Promise:
    """The record below a block of prose.

    Raises:
        ValueError: for a line of it that cannot be read.
    """
    words = "\n".join(block.lines)
    links = tuple(
        Link(page=before.removesuffix(".html"), prefix=prefix, query=query, words=_plain(text))
        for before, prefix, query, text in LINK.findall(words)
    )
    if block.unread:
        raise ValueError(f"{block.unread[0]!r} begins with none of open, do, see, at and exempt")
    told = {key: value for key, value in block.record if key in ("at", "exempt")}
    if told.get("at", "above") not in ("above", "below"):
        raise ValueError(f"at: {told['at']} is neither above nor below")
    return Promise(
        page=page,
        line=block.line,
        words=words,
        links=links,
        steps=tuple(_steps(block.record, links)),
        at=told.get("at", ""),
        exempt=told.get("exempt", ""),
    )


def _plain(text: str) -> str:
    return " ".join(re.sub(r"<[^>]*>", "", html.unescape(text)).split())


def _steps(record: list[tuple[str, str]], links: tuple[Link, ...]) -> list[Step]:
    steps = [Step(kind="open", what=links[0].address)] if links else [Step(kind="start")]
    for key, value in record:
        if key == "open":
            found = [link for link in links if link.words == value]
            if len(found) != 1:
                raise ValueError(f"open: {value!r} is none of {[link.words for link in links]}")
            opened = Step(kind="open", what=found[0].address)
            if opened.what != steps[-1].what:
                steps.append(opened)
        elif key == "do":
            steps += [_done(one.strip()) for one in value.split(";")]
        elif key == "see":
            seen = tuple(_seen(one.strip()) for one in value.split(";"))
            last = steps.pop()
            steps.append(Step(kind=last.kind, what=last.what, value=last.value, seen=last.seen + seen))
    return steps


def _done(text: str) -> Step:
    found = DO.match(text)
    if not found or (found[1] != "press") == (found[3] is None):
        raise ValueError(f"do: {text!r} is none of CONTROL = VALUE, press HOOK, drag HANDLE = X, Y")
    kind: Any = found[1] or "set"
    return Step(kind=kind, what=found[2], value=found[3] or "")


def _seen(text: str) -> Seen:
    found = SEE.match(text)
    if not found or (found[2] in ("rises", "falls", "stays")) != (not found[3]):
        raise ValueError(f"see: {text!r} is not QUANTITY RELATION NUMBER")
    return Seen(quantity=found[1], relation=found[2], value=found[3])


def promises(book: Path = BOOK) -> list[Promise]:
    """Every record of the book, exempt ones included.

    Raises:
        ValueError: for one that cannot be read.
    """
    found = []
    for path in pages(book):
        page = _page(path)
        found += [promise_of(block, page.name) for block in page.blocks if block.record or block.unread]
    return found


def problems(book: Path = BOOK) -> list[str]:
    """Faults of the book's promises, a line each; empty where every one has its record."""
    found = []
    for path in pages(book):
        page = parse(path.read_text(encoding="utf-8"), path.relative_to(book).with_suffix("").as_posix())
        shown = {figure.section for figure in page.figures}
        found += [f"{page.name}.md:{b.line}: {p}" for b in page.blocks for p in _amiss(b, shown)]
    return found


def _amiss(block: _Block, shown: set[int]) -> Iterator[str]:
    words = "\n".join(block.lines)
    try:
        promise = promise_of(block, "")
    except ValueError as error:
        yield f"its record cannot be read: {error}"
        return
    seen = any(step.seen for step in promise.steps)
    if promise.exempt and seen:
        yield "it is exempt and has a record, too"
    if seen or promise.exempt:
        opened = {step.what for step in promise.steps if step.kind == "open"}
        missed = [link.words for link in promise.links if link.address not in opened]
        if missed and not promise.exempt:
            yield f"its record opens no link {missed[0]!r}; write a line % open: {missed[0]}"
    elif RAW.search(words):
        yield "a link to a figure's state without a record; write % see: lines below it"
    elif block.section in shown and (verb := VERBS.search(words)):
        yield f"“{verb[0]}” beside a figure without a record; write % see: lines below it"
    if len(LINK.findall(words)) != len(RAW.findall(words)):
        yield 'a link to a figure\'s state is not of the form <a href="...#cd?...">words</a>'


def figures(page: str, book: Path = BOOK) -> list[Figure]:
    """The interactive figures of a page, in its order."""
    path = book / f"{page}.md"
    return _page(path).figures if path.is_file() else []


def figure_of(promise: Promise) -> Figure:
    """The figure that a promise is about.

    Raises:
        ValueError: where the page has no such figure.
    """
    link = promise.links[0] if promise.links else None
    page = (link.page if link else "") or promise.page
    shown = figures(page)
    if link is not None:
        return _addressed(link, shown)
    path = BOOK / f"{promise.page}.md"
    section = next(b.section for b in _page(path).blocks if b.line == promise.line)
    after = [f for f in shown if f.line > promise.line]
    before = [f for f in shown if f.line < promise.line]
    near = [f for f in after if f.section == section]
    if promise.at == "above" or (not promise.at and not near):
        chosen = before[-1:]
    else:
        chosen = (near or after)[:1]
    if not chosen:
        raise ValueError(f"{promise.name} has no figure {promise.at or 'in its section'}")
    return chosen[0]


def _addressed(link: Link, shown: list[Figure]) -> Figure:
    """Figure addressed by `#cd?` (the first explorer), `#cd-NAME?` or `#cd-train?`."""
    name = link.prefix.removeprefix("#cd").removeprefix("-")
    kind = "PageTraining" if name == "train" else "Explorer"
    fits = [f for f in shown if re.search(rf"\b{kind}\b[.(]", f.code)]
    if name and name != "train":
        fits = [f for f in fits if f'name="{name}"' in f.code]
    if not fits:
        raise ValueError(f"no figure of the page hears {link.prefix}")
    return fits[0]


def widget(figure: Figure, book: Path = BOOK) -> Any:
    """The figure itself: its cell run alone, or, where it needs the cells before, as it was saved."""
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
    """The state in the notebook beside the page, for figures that only the whole chapter can make."""
    from importlib import import_module

    from book.tools.programs import VIEW, models_of

    notebook = json.loads((book / f"{figure.page}.ipynb").read_text(encoding="utf-8"))
    wanted = figure.code.strip()
    for cell in notebook["cells"]:
        if "".join(cell["source"]).strip() == wanted:
            views = [o["data"][VIEW] for o in cell["outputs"] if VIEW in o.get("data", {})]
            state = models_of(notebook)[views[-1]["model_id"]]["state"]
            home, _, name = state["_anywidget_id"].rpartition(".")
            return getattr(import_module(home), name).from_state(state)
    raise ValueError(f"{figure.page}.ipynb has no cell like that in line {figure.line}")


def main() -> int:
    wrong = problems()
    kept = promises() if not any("cannot be read" in line for line in wrong) else []
    for promise in kept:
        print(f"{promise.name}: {'exempt: ' + promise.exempt if promise.exempt else 'performed'}")
    performed = sum(not promise.exempt for promise in kept)
    print(f"{performed} records, {len(kept) - performed} exempt, {len(wrong)} without or wrong")
    print("\n".join(wrong), file=sys.stderr)
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
