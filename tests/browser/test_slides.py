"""Slides of the chapters: every deck stepped through at 1280 x 720, as files, without a network.

A slide's figure does what the record of its sentence says. What it sees is read as in
`test_promises.py`, with the page's other figures away meanwhile, whose hooks are the same.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

import pytest
from browser.explorer_pages import settle
from browser.kept import Kept, Visit
from browser.test_promises import holds, read
from passed import of_page

from book.tools import deck, questions
from book.tools.chapters import BOOK
from book.tools.promises import Step, promise_of
from book.tools.prose import page_at, widget
from book.tools.quotes import quote as deck_quote

pytestmark = pytest.mark.browser

CHAPTERS = [item.chapter for item in questions.items()]
#: a chapter with slides of every kind
MANY = "architectures/deltanet"
SIZE = (1280, 720)
HELD = '.cdx[data-layout="slide"]:not(.cd-deck *)'
SLIDE = ".cd-slide[data-on]"
#: Texts below 20 pixels, what leaves the window, what is cut off, small or covered pictures.
FAULTS = """([slide, held]) => {
  const boxes = [document.querySelector(slide), document.querySelector(held)].filter(Boolean);
  const faults = [];
  const raised = "sub, sup, math, .cdx-formula"; // of letters that are large enough
  for (const box of boxes) {
    for (const node of box.querySelectorAll("*")) {
      const own = [...node.childNodes].filter((one) => one.nodeType === 3);
      if (!own.some((one) => one.textContent.trim()) || node.closest(".cdx-sr")) continue;
      if (!node.checkVisibility({ visibilityProperty: true })) continue;
      const { width, height, right, bottom, left, top } = node.getBoundingClientRect();
      if (width < 2 || height < 2) continue;
      const pixels = parseFloat(getComputedStyle(node).fontSize) * node.currentCSSZoom;
      if (pixels < 20 && !node.closest(raised)) faults.push(["small", node.textContent, pixels]);
      if (left < -1 || top < -1 || right > innerWidth + 1 || bottom > innerHeight + 1) {
        faults.push(["outside", node.textContent]);
      }
    }
    const whole = ".cd-slide-body, .cd-slide-keys, .cdx-slide-body, .cdx-slide-side";
    for (const node of [box, ...box.querySelectorAll(whole)]) {
      const over = [node.scrollWidth - node.clientWidth, node.scrollHeight - node.clientHeight];
      if (Math.max(...over) > 1) faults.push(["cut off", node.className, ...over]);
    }
  }
  for (const canvas of boxes[1]?.querySelectorAll("canvas") ?? []) {
    if (!canvas.checkVisibility()) continue;
    const { left, top, width, height } = canvas.getBoundingClientRect();
    if (Math.min(width, height) < 100) faults.push(["small", canvas.dataset.cd, width, height]);
    const there = document.elementFromPoint(left + width / 2, top + height / 2);
    if (!boxes[1].contains(there)) faults.push(["covered", canvas.dataset.cd]);
  }
  return faults;
}"""
#: Takes every figure but the one on the slide out of the page, and puts them back.
AWAY = """(held) => {
  const others = document.querySelectorAll(`.cdx:not(.cd-deck *, ${held})`);
  window.away = [...others].map((one) => {
    const place = new Comment();
    one.replaceWith(place);
    return [place, one];
  });
}"""
BACK = "() => { for (const [place, one] of window.away) place.replaceWith(one); }"
#: What every figure of the page shows.
SHOWN = """() => [...document.querySelectorAll(".cdx:not(.cd-deck *, .cdx-train) canvas")]
  .map((one) => one.ariaLabel)"""
PLACE = "() => [scrollY, location.href, document.activeElement.dataset.cd]"


@pytest.fixture
def opened(stages: Kept, site: Path) -> Callable[..., Visit]:
    """Opens a chapter as a file."""

    def opener(chapter: str, scheme: str = "light") -> Visit:
        home = site.as_uri()
        address = f"{home}/{chapter}.html"
        visit = stages.open(address, home=home, size=SIZE, scheme=scheme).settle()
        visit.page.emulate_media(reduced_motion="reduce")
        return visit

    return opener


def present(page: Any) -> None:
    page.evaluate("() => document.querySelector('[data-cd=present]').click()")  # no scrolling
    page.wait_for_selector(SLIDE)
    settle(page)


def shown(page: Any, hook: str) -> str:
    return str(page.inner_text(f"{SLIDE} [data-cd={hook}]"))


def slide_of(page: Any, chapter: str) -> deck.Slide:
    """The slide on show: of its kind, and with its sentence."""
    kind, record = (page.get_attribute(SLIDE, f"data-{one}") for one in ("kind", "record"))
    fits = [one for one in deck.slides(chapter) if one.kind == kind]
    return next(one for one in fits if kind != "figure" or str(one.record) == record)


def steps_of(slide: deck.Slide, chapter: str) -> tuple[Step, ...]:
    return promise_of(deck.recorded(chapter)[slide.record], chapter).steps


class Figure:
    """The figure of a slide, which the readings take for a page."""

    def __init__(self, page: Any, slide: deck.Slide, chapter: str) -> None:
        self.page, self.path = page, []
        self.shown = widget(page_at(BOOK / f"{chapter}.md").figures[slide.figure])
        self.is_explorer = "all" in self.shown.settings

    def at(self, state: str) -> None:
        """Remember the settings of a step that no control of the slide tells."""
        self.path = []
        told = {key: text for key, text in parse_qsl(state) if key in ("row", "column")}
        self.shown.settings = {**self.shown.settings, **{k: int(x) for k, x in told.items()}}

    def sees(self, quantity: str) -> bool:
        return not self.is_explorer or bool(deck.SHOWN.match(quantity))

    def __getattr__(self, name: str) -> Any:
        return getattr(self.page, name)


def promised(page: Any, slide: deck.Slide, chapter: str, look: Callable[[], None]) -> list[str]:
    """Go through the moves of a slide; return what is otherwise than its record says."""
    figure = Figure(page, slide, chapter)
    broken, seen = [], 0
    for number, step in enumerate(steps_of(slide, chapter)):
        listed = [one for one in step.seen if figure.sees(one.quantity)]
        turns = [one.quantity for one in listed if one.relation in ("rises", "falls", "stays")]
        page.evaluate(AWAY, HELD)
        before = {quantity: read(figure, quantity) for quantity in turns}
        page.evaluate(BACK)
        if number:
            assert shown(page, "slide-keys").startswith("→ ")
            page.keyboard.press("ArrowRight")
            settle(page)
        look()
        figure.at(slide.states[number])
        page.evaluate(AWAY, HELD)
        for one in listed:
            kept, told = holds(figure, one, before.get(one.quantity))
            broken += [] if kept else [f"{one.quantity} {one.relation} {one.value}: {told}"]
            seen += 1
        page.evaluate(BACK)
    return broken if seen else ["nothing of the record is on the slide"]


@pytest.mark.dear("every slide and every move of a chapter")
@pytest.mark.parametrize(
    "chapter", [pytest.param(one, marks=pytest.mark.reads(of_page(one))) for one in CHAPTERS]
)
def test_a_deck_is_stepped_through(chapter: str, opened: Callable[..., Visit]) -> None:
    scheme = ["light", "dark"][CHAPTERS.index(chapter) % 2]
    visit = opened(chapter, scheme)
    page = visit.page
    page.evaluate("() => scrollTo({ top: 40, behavior: 'instant' })")
    before, pictures = page.evaluate(PLACE), page.evaluate(SHOWN)
    present(page)
    wrong: list[str] = []
    kinds: list[str] = []

    def look() -> None:
        faults = page.evaluate(FAULTS, [SLIDE, HELD])
        wrong.extend(f"{shown(page, 'slide-place')}: {one}" for one in faults)

    total = len(deck.slides(chapter))
    assert 5 <= total <= 12
    for number in range(1, total + 1):
        assert shown(page, "slide-place") == f"{number} of {total}"
        slide = slide_of(page, chapter)
        kinds.append(slide.kind)
        assert len(page.inner_text(f"{SLIDE} h2")) > 2
        if slide.kind == "figure":
            wrong += promised(page, slide, chapter, look)
        else:
            assert page.locator(f"{SLIDE} .cd-slide-body > *").count() > 0, slide.kind
            look()
        page.keyboard.press("ArrowRight")
        settle(page)
    assert wrong == []
    assert kinds[0] == "question" and kinds[-1] == "answer"
    assert "MIT License" in page.inner_text(SLIDE)
    page.keyboard.press("Escape")
    settle(page)
    assert page.evaluate(SHOWN) == pictures
    assert page.evaluate(PLACE) == [*before[:2], "present"]
    assert page.locator(".cd-deck").count() == 0
    visit.whole()


def test_keys_lead_to_either_end_and_back(opened: Callable[..., Visit]) -> None:
    page = opened(MANY).page
    page.evaluate("() => { location.hash = '#deck=4'; }")
    page.wait_for_selector(SLIDE)
    settle(page)
    total = len(deck.slides(MANY))
    for key, number in (
        ("End", total),
        ("ArrowLeft", total - 1),
        ("Home", 1),
        (" ", 2),
        ("PageDown", 3),
    ):
        page.keyboard.press(key)
        assert shown(page, "slide-place") == f"{number} of {total}"
        assert page.evaluate("location.hash") == f"#deck={number}"
    page.click("[data-on] [data-cd=slide-leave]")
    assert page.evaluate("location.hash") == ""
    assert page.evaluate("() => document.activeElement.dataset.cd") == "present"


def test_moves_that_are_seen_end_where_their_records_say(opened: Callable[..., Visit]) -> None:
    """A slider walks there; another question has its answer at once, and nothing complains."""
    page = opened("architectures/gated_deltanet").page
    page.emulate_media(reduced_motion="no-preference")
    page.evaluate("() => { location.hash = '#deck=4'; }")
    page.wait_for_selector(f"{HELD} canvas")
    for answer in ("dog", "dog", "cat"):  # of the record: ask for the dog, decay, ask for the cat
        page.keyboard.press("ArrowRight")
        page.wait_for_timeout(1000)  # longer than a slider walks
        assert f"“{answer}”" in page.inner_text(HELD)
        assert page.locator(f"{HELD} [data-cd=note]").is_hidden()


def test_a_finger_turns_the_slides(opened: Callable[..., Visit]) -> None:
    page = opened(MANY).page
    present(page)
    swipe = """(to) => {
      const target = document.querySelector(".cd-slide[data-on] .cd-slide-body");
      for (const [type, x] of [["touchstart", 600], ["touchend", 600 + to]]) {
        const touch = new Touch({ identifier: 1, target, clientX: x, clientY: 300 });
        const touches = type === "touchstart" ? [touch] : [];
        const told = { bubbles: true, touches, changedTouches: [touch] };
        target.dispatchEvent(new TouchEvent(type, told));
      }
    }"""
    for way, place in ((-200, "2"), (20, "2"), (200, "1")):
        page.evaluate(swipe, way)
        assert shown(page, "slide-place").partition(" ")[0] == place


def test_the_speaker_has_notes_in_a_window_of_their_own(opened: Callable[..., Visit]) -> None:
    page = opened(MANY).page
    opening = page.inner_text(".goal + p")
    present(page)
    with page.expect_popup() as found:
        page.keyboard.press("n")
    notes = found.value
    assert opening in notes.inner_text("article")
    assert notes.inner_text("h2").startswith(f"1 of {len(deck.slides(MANY))}")
    page.keyboard.press("End")
    notes.wait_for_selector(".selfcheck")
    assert page.locator(SLIDE).is_visible(), "the window of the notes leaves the slide where it is"


@pytest.mark.dear("every slide of a chapter is printed")
def test_paper_has_a_page_for_every_slide(opened: Callable[..., Visit], tmp_path: Path) -> None:
    page = opened(MANY, "dark").page
    present(page)
    page.keyboard.press("ArrowRight")
    target = tmp_path / "slides.pdf"
    page.pdf(path=target, prefer_css_page_size=True)
    pages = re.findall(rb"/MediaBox \[0 0 ([\d.]+) ([\d.]+)\]", target.read_bytes())
    assert [[float(x) for x in one] for one in pages] == [[960, 540]] * len(deck.slides(MANY))
    assert shown(page, "slide-place").startswith("2 of"), "the room sees the slide that it saw"
    assert page.locator(f"{SLIDE} details[open]").count() == 0


def test_a_chapter_that_lost_a_part_stops_the_build(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match="0 sentences are marked"):
        deck.with_deck("<html><body><p>Reworded.</p></body></html>", MANY)
    monkeypatch.setattr(deck, "quote", lambda chapter, words: deck_quote(chapter, f"{words} Not."))
    deck.slides.cache_clear()
    with pytest.raises(ValueError, match="no longer says"):
        deck.slides(MANY)
    deck.slides.cache_clear()
