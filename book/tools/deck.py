"""Slides of a chapter and of the demonstrations: parts of a page, one at a time.

Nothing is written for them. A slide names a part of its page, and the moves of a figure are those
of the record below a sentence (`promises.py`), which the figure performs on the slide. What is
said in one sentence at the end stands in `book/teaching/slides.yml`, word for word as its chapter
has it: a chapter that no longer says so stops the build. `book/assets/present.js` shows the
slides, which stand in the page as JSON.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import cache
from typing import Any
from urllib.parse import parse_qs

import yaml
from docutils import nodes

from book.tools.chapters import BOOK, ROOT
from book.tools.promises import Promise, figure_of, promise_of
from book.tools.prose import HEADING, LINE, Block, Figure, page_at
from book.tools.quotes import plain, quote

__all__ = ["Slide", "demonstrations", "setup", "slides", "with_deck"]

TABLE = BOOK / "teaching" / "slides.yml"
PAGE = "demonstrations"
#: the page whose first figure shows the demonstrations
LANDING = "index"
DECK = re.compile(r'<script type="application/json" data-cd="deck">.*?</script>', re.DOTALL)
MARKS = re.compile(r"[*_`$]")
#: class of a sentence with a record, by which the page's script finds it
RECORD = "cd-record"
#: most figures of a deck, which then has twelve slides at most
FIGURES = 6
#: what an explorer shows on a slide; a record about anything else is for the page
SHOWN = re.compile(
    r"answer\b|near-zero-fraction|largest|eigenvalue|length|shortest|longest|places|bend"
)
#: The first of these parts that a chapter has is its equation, with the four colours where it can.
COLOURED = "".join(f":has(.cd-{one})" for one in ("evolution", "scaling", "readout", "normalizer"))
EQUATIONS = (
    f"table{COLOURED}", f"div.proof{COLOURED}", "div.lemma", "div.proposition", "div.math", "table",
)  # fmt: skip
PREDICTION = ".admonition.predict"
PICTURES = (".cell_output a.image-reference", ".cell_output img")


@dataclass(frozen=True, kw_only=True)
class Slide:
    """One slide.

    Args:
        kind: question, prediction, picture, figure, equation, resolution or answer.
        show: selectors; the first that the page has is the part that is shown.
        title: "" for the heading of the section that the part stands in.
        said: words on it, in plain text.
        record: number of the sentence with a record that stands on it; -1 for none.
        figure: number of the page's interactive figure; -1 for none.
        states: settings of that figure, as a link has them, at first and after each move.
    """

    kind: str
    show: tuple[str, ...] = ()
    title: str = ""
    said: str = ""
    record: int = -1
    figure: int = -1
    states: tuple[str, ...] = ()


def demonstrations() -> list[Slide]:
    """The demonstrations in order.

    Raises:
        ValueError: for one without a sentence, or with an action that no setting stands for.
    """
    blocks = page_at(BOOK / f"{PAGE}.md").blocks
    found, title = [], ""
    for block, after in zip(blocks, [*blocks[1:], Block(0, 0)], strict=True):
        if HEADING.match(block.lines[0]):
            title = _plain(block.lines[0].lstrip("#"))
        if block.record:
            said = _plain(" ".join(x.removeprefix(">") for x in after.lines if x.startswith(">")))
            if not said:
                raise ValueError(f"{PAGE}.md:{block.line}: no sentence to say below it")
            states = tuple(_states(promise_of(block, PAGE)))
            found.append(Slide(kind="figure", title=title, said=said, figure=0, states=states))
    return found


def _plain(text: str) -> str:
    return " ".join(MARKS.sub("", text).replace("\\ge ", "≥ ").split()).strip('"')


def _states(promise: Promise) -> list[str]:
    settings: dict[str, str] = {}
    states = []
    for step in promise.steps:
        if step.kind == "open":
            pairs = step.what.partition("?")[2].split("&")
            settings = dict(pair.split("=", 1) for pair in pairs)
        elif step.kind == "set":
            settings[step.what] = step.value
        elif step.kind == "press" and step.what.partition("-")[0] in ("view", "panel", "preset"):
            key, _, value = step.what.partition("-")
            settings[key] = value
        elif step.kind != "start":
            raise ValueError(f"{promise.name}: no setting stands for {step.kind} {step.what}")
        states.append("&".join(f"{key}={value}" for key, value in settings.items()))
    return states


@cache
def slides(chapter: str) -> tuple[Slide, ...]:
    """The slides of a chapter of the table; of another page none.

    Those between the prediction and its resolution are put into the order of the page by the
    page's script, for a cell's picture has no line of its own.

    Raises:
        ValueError: for an answer that the chapter no longer says.
    """
    table = yaml.safe_load(TABLE.read_text(encoding="utf-8"))
    if chapter not in table:
        return ()
    row: dict[str, Any] = table[chapter]
    predicts = () if "tables" in row else (PREDICTION,)
    equations = row.get("tables") or ([row["equation"]] if "equation" in row else [EQUATIONS])
    return (
        Slide(kind="question", show=(".goal",)),
        *(Slide(kind="prediction", show=(one,)) for one in predicts),
        *(Slide(kind="picture", show=PICTURES) for _ in predicts),
        *_figures(chapter),
        *(Slide(kind="equation", show=(e,) if isinstance(e, str) else e) for e in equations),
        *(Slide(kind="resolution", show=(one,)) for one in predicts),
        Slide(kind="answer", said=_plain(plain(quote(chapter, row["answer"]).text))),
    )


def _figures(chapter: str) -> list[Slide]:
    """Figures of a chapter with a record whose steps and readings a slide has."""
    page = page_at(BOOK / f"{chapter}.md")
    found = []
    for number, block in enumerate(recorded(chapter)):
        promise = promise_of(block, chapter)
        if promise.exempt:
            continue
        figure = figure_of(promise)
        if figure.page == chapter and _fits(promise, figure):
            found.append(
                Slide(
                    kind="figure",
                    record=number,
                    figure=page.figures.index(figure),
                    states=tuple(_states(promise)),
                )
            )
    return found[:FIGURES]


def recorded(chapter: str) -> list[Block]:
    """The sentences of a chapter with a record, in order, those without moves included."""
    return [one for one in page_at(BOOK / f"{chapter}.md").blocks if one.record]


def _fits(promise: Promise, figure: Figure) -> bool:
    """Whether a slide can do and show what a record says."""
    steps = promise.steps
    if "PageTraining" in figure.code or any(step.kind == "drag" for step in steps):
        return False  # a training takes a minute, and a hand is not a setting
    if "Explorer" not in figure.code:
        return True
    panels = {one for state in _states(promise) for one in parse_qs(state).get("panel", [])}
    return panels <= {"stability", "none"} and any(
        SHOWN.match(one.quantity) for step in steps for one in step.seen
    )


def with_deck(text: str, page: str) -> str:
    """A page with its slides in it, the landing's being the demonstrations; or as it is.

    Raises:
        ValueError: for a page with another number of sentences with a record than its source.
    """
    told = demonstrations() if page == LANDING else slides(page)
    if not told:
        return text
    marked = len(re.findall(rf'class="[^"]*\b{RECORD}\b', text))
    if page != LANDING and marked != len(recorded(page)):
        raise ValueError(f"{page}: {marked} sentences are marked, {len(recorded(page))} recorded")
    held = json.dumps({"slides": [_short(one) for one in told], "licence": licence()})
    held = held.replace("</", "<\\/")
    deck = f'<script type="application/json" data-cd="deck">{held}</script>'
    return DECK.sub("", text).replace("</body>", f"{deck}</body>", 1)


def _short(slide: Slide) -> dict[str, Any]:
    return {key: value for key, value in asdict(slide).items() if value not in ("", (), -1)}


@cache
def licence() -> str:
    """Name and owner of the licence, of the file LICENSE."""
    name, owner = (ROOT / "LICENSE").read_text(encoding="utf-8").split("\n\n")[:2]
    return f"{name}. {owner}."


def _mark_records(_: Any, tree: nodes.document) -> None:
    """Give the paragraph above each record its class, for a page has no comments."""
    for comment in _comments(tree):
        place = comment.parent.index(comment)
        while place and isinstance(comment.parent[place - 1], nodes.comment):
            place -= 1
        above = comment.parent[place - 1] if place else None
        if isinstance(above, nodes.Element):
            if isinstance(above, nodes.bullet_list | nodes.enumerated_list):
                above = above[-1]
            above["classes"] = [*dict.fromkeys([*above["classes"], RECORD])]


def _comments(tree: nodes.document) -> Iterator[nodes.comment]:
    for comment in tree.findall(nodes.comment):
        if LINE.match(f"% {comment.astext()}".splitlines()[0]):
            yield comment


def setup(app: Any) -> dict[str, bool]:
    """Register with Sphinx, which asks when it has read a page."""
    app.connect("doctree-read", _mark_records)
    return {"parallel_read_safe": True}
