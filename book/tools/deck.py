"""The demonstrations as slides: what each opens, what is done then, and the sentence to say.

They are read off the page of demonstrations, whose records a browser test performs, and stand in
the landing's page, whose figure shows them (`book/assets/present.js`, `js/slide.js` of the
explorer).
"""

from __future__ import annotations

import json
import re
from dataclasses import asdict, dataclass

from book.tools.chapters import BOOK
from book.tools.promises import Promise, promise_of
from book.tools.prose import HEADING, Block, page_at

__all__ = ["Slide", "slides", "with_deck"]

PAGE = "demonstrations"
#: what only the landing has
LANDING = "cd-lead"
DECK = re.compile(r'<script type="application/json" data-cd="deck">.*?</script>', re.DOTALL)
MARKS = re.compile(r"[*_`]")


@dataclass(frozen=True, kw_only=True)
class Slide:
    """One demonstration.

    Args:
        title: its heading.
        said: the sentence to say.
        states: the settings, as a link has them, at first and after each thing done.
    """

    title: str
    said: str
    states: tuple[str, ...]


def slides() -> list[Slide]:
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
            said = [line.removeprefix(">") for line in after.lines if line.startswith(">")]
            if not said:
                raise ValueError(f"{PAGE}.md:{block.line}: no sentence to say below it")
            states = tuple(_states(promise_of(block, PAGE)))
            found.append(Slide(title=title, said=_plain(" ".join(said)), states=states))
    return found


def _plain(text: str) -> str:
    return " ".join(MARKS.sub("", text).split()).strip('"')


def _states(promise: Promise) -> list[str]:
    settings: dict[str, str] = {}
    states = []
    for step in promise.steps:
        if step.kind == "open":
            pairs = step.what.partition("?")[2].split("&")
            settings = dict(pair.split("=", 1) for pair in pairs)
        elif step.kind == "set":
            settings[step.what] = step.value
        elif step.kind == "press" and step.what.startswith("view-"):
            settings["view"] = step.what.removeprefix("view-")
        else:
            raise ValueError(f"{promise.name}: no setting stands for {step.kind} {step.what}")
        states.append("&".join(f"{key}={value}" for key, value in settings.items()))
    return states


def with_deck(text: str) -> str:
    """The landing's page with the slides in it; another page as it is."""
    if LANDING not in text:
        return text
    told = json.dumps([asdict(slide) for slide in slides()], ensure_ascii=False)
    held = told.replace("</", "<\\/")
    deck = f'<script type="application/json" data-cd="deck">{held}</script>'
    return DECK.sub("", text).replace("</body>", f"{deck}</body>", 1)
