"""Promises: the sentences of a page that say what a figure does, and the record of each.

    python -m book.tools.promises          lists them, and what is wrong with them

A record stands in comments right below its paragraph or item, so that the sentence, its link and
what a browser does to check them are written once (`tests/browser/test_promises.py` performs it):

    - <a href="#cd?preset=deltanet&amp;beta=2">Set the strength to 2</a>: states keep their length.
      % see: shortest = 1.00
      % do: beta = 1
      % see: shortest falls

The lines are performed in order, after the first link has been opened:

    open    the words of another link of the paragraph, which is opened here
    do      CONTROL = VALUE, press HOOK, or drag HANDLE = X, Y; several between semicolons
    see     QUANTITY RELATION NUMBER, several between semicolons. The relation is >, <, >=, <=, !=,
            = (to the digits written), or, without a number, rises, falls or stays: against what it
            was before the last thing done. A quantity or a word may stand in the number's place
    at      "above" or "below": where the figure of a sentence without a link stands. Without it,
            the next figure of the section, else the last one before the sentence
    exempt  why a sentence with a link or one of the verbs promises nothing about a figure

A quantity is the hook of a number on show (`near-zero-fraction`), the value of a control, or what
the test reads off the figure (`answer(white)`, `alpha(5, 4)`, `shortest`; its table has them all).
Links that a cell writes into a table open a design and promise no more than that it exists.
"""

from __future__ import annotations

import html
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from book.tools.chapters import BOOK
from book.tools.prose import HEADING, Block, Figure, page_at, pages, parse

__all__ = ["Link", "Promise", "Seen", "Step", "figure_of", "problems", "promise_of", "promises"]

#: a sentence beside a figure that tells the reader to do something to it
VERBS = re.compile(
    r"\b(?:Move|Drag|Press|Watch|Set|Switch|Raise|Lower|Choose|Turn)\b"
    r"|(?:\b(?:[Tt]hen|and|or)|,) (?:move|drag|press|watch|set|switch|raise|lower|choose)\b"
)
LINK = re.compile(r'<a\s+href="([^"#]*)(#cd[^"?]*)\?([^"]*)"[^>]*>(.*?)</a>', re.DOTALL)
RAW = re.compile(r"""href=["'][^"']*#cd|\]\([^)]*#cd""")
SEE = re.compile(r"^([a-z][\w-]*(?:\([^)]*\))?)\s*(rises|falls|stays|>=|<=|!=|[><=])\s*(.*)$")
DO = re.compile(r"^(?:(drag|press)\s+)?([\w-]+)(?:\s*=\s*(.+))?$")


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


def promise_of(block: Block, page: str) -> Promise:
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
            steps[-1] = replace(steps[-1], seen=steps[-1].seen + seen)
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


def promises() -> list[Promise]:
    """Every record of the book, exempt ones included.

    Raises:
        ValueError: for one that cannot be read.
    """
    found = []
    for path in pages():
        page = page_at(path)
        found += [
            promise_of(block, page.name) for block in page.blocks if block.record or block.unread
        ]
    return found


def problems(book: Path = BOOK) -> list[str]:
    """Faults of the book's promises, a line each; empty where every one has its record."""
    found = []
    for path in pages(book):
        page = parse(
            path.read_text(encoding="utf-8"), path.relative_to(book).with_suffix("").as_posix()
        )
        shown = {figure.section for figure in page.figures}
        found += [f"{page.name}.md:{b.line}: {p}" for b in page.blocks for p in _amiss(b, shown)]
    return found


def _amiss(block: Block, shown: set[int]) -> Iterator[str]:
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
    elif block.section in shown and not HEADING.match(words) and (verb := VERBS.search(words)):
        yield f"“{verb[0]}” beside a figure without a record; write % see: lines below it"
    if len(LINK.findall(words)) != len(RAW.findall(words)):
        yield 'a link to a figure\'s state is not of the form <a href="...#cd?...">words</a>'


def figure_of(promise: Promise) -> Figure:
    """The figure that a promise is about.

    Raises:
        ValueError: where the page has no such figure.
    """
    link = promise.links[0] if promise.links else None
    page = (link.page if link else "") or promise.page
    shown = page_at(BOOK / f"{page}.md").figures
    if link is not None:
        return _addressed(link, shown)
    path = BOOK / f"{promise.page}.md"
    section = next(b.section for b in page_at(path).blocks if b.line == promise.line)
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
    """Figure addressed by `#cd?` (the first without a name), `#cd-NAME?` or `#cd-train?`."""
    name = link.prefix.removeprefix("#cd").removeprefix("-")
    kind = "PageTraining" if name == "train" else "Explorer"
    fits = [f for f in shown if re.search(rf"\b{kind}\b[.(]", f.code)]
    named = [f for f in fits if f'name="{name}"' in f.code or (not name and "name=" not in f.code)]
    fits = fits if name == "train" else named
    if not fits:
        raise ValueError(f"no figure of the page hears {link.prefix}")
    return fits[0]


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
