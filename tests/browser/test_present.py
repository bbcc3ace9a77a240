"""Present: one figure as a slide, and the demonstrations as a deck that needs no mouse."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from browser.explorer_pages import ASSETS, heard, hold_time, page_html, settle, text
from browser.test_promises import holds, read

from book.tools.deck import demonstrations, with_deck
from book.tools.promises import Promise, promises
from coefdyn.lab.train import PageTraining
from coefdyn.widgets import Explorer

pytestmark = pytest.mark.browser

SIZES = [(1280, 720), (1366, 768), (1920, 1080)]
QUESTION = {"id": "q", "question": "?", "number": "weight", "control": "beta"}
DEMONSTRATIONS = [one for one in promises() if one.page == "demonstrations" and not one.exempt]
BOXES = """() => [...document.querySelectorAll(
    ".cdx-slide-head > *, .cdx-slide-body figure, .cdx-slide-number, .cdx-equation, " +
    ".cdx-slide-foot > *, .cd-slide[data-on] :is(h2, .cd-slide-place, .cd-slide-said, footer > *)")]
  .filter((n) => n.checkVisibility()).map((n) => { const b = n.getBoundingClientRect();
    return [n.className, b.left, b.top, b.right, b.bottom]; })"""
#: Side of the matrix without its words, and pixels drawn for each pixel shown.
DRAWN = """() => {
  const canvas = document.querySelector("[data-cd=matrix]");
  const { top, bottom } = canvas.margin;
  const zoom = parseFloat(getComputedStyle(document.querySelector(".cdx")).fontSize) / 13;
  return [canvas.clientHeight - (top + bottom) * zoom, canvas.width / canvas.clientWidth];
}"""
Show = Callable[..., Any]


@pytest.fixture
def show(browser: Any, tmp_path: Path) -> Iterator[Show]:
    """Opens a figure's page with the button, the script and the slides of the book."""
    contexts, wrong = [], []

    def opener(
        figure: Any,
        fragment: str = "",
        *others: Any,
        size: tuple[int, int] = (1280, 720),
        theme: str = "light",
        motion: str = "reduce",
        ready: str = "explorer",
    ) -> Any:
        context = browser.new_context(
            viewport={"width": size[0], "height": size[1]}, reduced_motion=motion
        )
        contexts.append(context)
        page = context.new_page()
        page.on("pageerror", lambda error: wrong.append(str(error)))
        script = (ASSETS / "present.js").read_text(encoding="utf-8")
        button = '<button data-cd="present">Present</button><p class="cd-lead"></p>'
        built = page_html(figure, *others, theme=theme).replace("<main>", f"{button}<main>")
        file = tmp_path / "page.html"
        style = (ASSETS / "coefdyn.css").read_text(encoding="utf-8")
        built = built.replace("</head>", f"<style>{style}</style></head>")
        built = with_deck(built, "index").replace("</body>", f"<script>{script}</script></body>")
        file.write_text(built, encoding="utf-8")
        page.goto(file.as_uri() + fragment)
        page.wait_for_selector(f"[data-cd={ready}]:not(.cdx-unready)")
        if fragment.startswith("#deck"):
            page.wait_for_selector(".cd-slide[data-on]")
        settle(page)
        page.shown, page.path = figure, []
        return page

    yield opener
    for context in contexts:
        context.close()
    assert wrong == []


def present(page: Any) -> None:
    page.click("[data-cd=present]")
    page.wait_for_selector("[data-cd=slide-keys]")
    settle(page)


def key(page: Any, name: str) -> None:
    page.keyboard.press(name)
    settle(page)
    page.path = []


def shown(page: Any, hook: str) -> str:
    """Words of the slide of a deck that is on show."""
    return str(page.inner_text(f".cd-slide[data-on] [data-cd={hook}]"))


def design(page: Any) -> str:
    return str(page.inner_text(".cdx-slide .cdx-chip[aria-current=step]"))


def whole(page: Any, size: tuple[int, int]) -> None:
    """All of the slide is in the window, and nothing lies over anything else."""
    boxes = page.evaluate(BOXES)
    for name, left, top, right, bottom in boxes:
        assert left >= 0 and top >= 0 and right <= size[0] and bottom <= size[1], (name, boxes)
    for m, (name, left, top, right, bottom) in enumerate(boxes):
        for other, x, y, x_end, y_end in boxes[m + 1 :]:
            apart = x >= right - 1 or x_end <= left + 1 or y >= bottom - 1 or y_end <= top + 1
            assert apart, (name, other, boxes)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("view", ["first", None])
def test_a_slide_fills_the_window(size: tuple[int, int], view: str | None, show: Show) -> None:
    page = show(Explorer("deltanet", view=view, predict=QUESTION), size=size)
    present(page)
    box = page.locator("[data-cd=explorer]").bounding_box()
    assert (box["x"], box["y"], box["width"], box["height"]) == (0, 0, *size)
    whole(page, size)
    drawn = page.evaluate(DRAWN)
    assert drawn[0] >= 0.6 * size[1]
    assert drawn[1] == pytest.approx(1, abs=0.01), "drawn at the size it is shown"
    letters = "n => parseFloat(getComputedStyle(n).fontSize)"
    assert page.locator(".cdx-answer").first.evaluate(letters) >= 32
    assert page.locator(".cdx-card, [data-cd=predict], [inert], :disabled").count() == 0
    assert page.locator("[data-cd=equation]").is_visible()


def test_letters_of_a_slide_keep_their_size_beside_other_figures(show: Show) -> None:
    """Whichever figure of the page reads its sizes last."""
    page = show(Explorer("gla", view="first"), "", Explorer("mamba2", view="first"))
    present(page)
    zoom = """() => [...document.querySelectorAll("[data-cd=matrix]")].map((canvas) => {
      const letters = getComputedStyle(canvas.closest(".cdx")).fontSize;
      return [canvas.getContext("2d").getTransform().d, parseFloat(letters) / 13];
    })"""
    for theme in ("dark", "light"):
        page.evaluate("theme => document.documentElement.dataset.theme = theme", theme)
        settle(page)
        (slide, large), (other, small) = page.evaluate(zoom)
        assert large > 1.2 and slide == pytest.approx(large, rel=0.01)
        assert small == 1 == pytest.approx(other, rel=0.01)


def test_keys_step_move_and_leave(show: Show) -> None:
    page = show(Explorer("gated_deltanet", view="first"))
    present(page)
    assert page.evaluate("() => document.activeElement.dataset.cd") == "explorer"
    first = design(page)
    key(page, "ArrowRight")
    assert design(page) == "Softmax" != first
    key(page, "PageUp")
    assert design(page) == first
    told = text(page, "slide-keys")
    assert "↑ ↓ Keep per step" in told and "shift ↑ ↓ Erase" in told
    before = heard(page)["white"]
    key(page, "ArrowUp")
    assert heard(page)["white"] > before
    key(page, "Shift+ArrowDown")
    assert heard(page)["black"] > 0.02
    hash_before = page.evaluate("location.hash")
    key(page, " ")
    assert design(page) == "Softmax", "space plays the path"
    key(page, " ")
    assert page.evaluate("location.hash") == hash_before
    key(page, "Escape")
    page.wait_for_selector("[data-cd=all-controls]")
    assert page.evaluate("() => document.activeElement.dataset.cd") == "present"
    assert not page.evaluate("() => document.documentElement.hasAttribute('data-present')")
    assert "softmax" in page.evaluate("location.hash"), "what is on show is in the address"
    key(page, "ArrowRight")
    assert page.get_attribute("[data-cd=stop-softmax_attention]", "aria-current") == "step"


def test_what_lies_behind_a_slide_is_out_of_reach(show: Show) -> None:
    page = show(Explorer("deltanet", view="first"))
    present(page)
    for _ in range(6):
        page.keyboard.press("Tab")
        inside = "() => document.activeElement === document.body || "
        inside += "!!document.activeElement.closest('.cdx')"
        assert page.evaluate(inside)


@pytest.mark.parametrize("at", range(1, len(DEMONSTRATIONS) + 1))
def test_a_slide_of_the_deck_does_what_its_record_says(at: int, show: Show) -> None:
    promise: Promise = DEMONSTRATIONS[at - 1]
    page = show(Explorer("gated_deltanet", view="first"), f"#deck={at}")
    told = demonstrations()[at - 1]
    assert shown(page, "slide-title") == told.title
    assert shown(page, "slide-caption") == told.said
    whole(page, (1280, 720))
    broken, seen = [], 0
    for number, step in enumerate(promise.steps):
        before = {one.quantity: reading(page, one.quantity) for one in step.seen}
        if number:
            assert shown(page, "slide-keys").startswith("→")
            key(page, "ArrowRight")
            whole(page, (1280, 720))
        for one in step.seen:
            if readable(page, one.quantity):
                seen += 1
                kept, words = holds(page, one, before[one.quantity])
                broken += [] if kept else [words]
    assert broken == []
    assert seen > 0, "something of the record is on the slide"


def readable(page: Any, quantity: str) -> bool:
    """What a slide shows: answers, shares, the colour bar and eigenvalues; no state by state."""
    return quantity.partition("(")[0] in (
        "answer", "near-zero-fraction", "largest", "eigenvalue", "largest-eigenvalue", "length",
        "shortest", "longest", "places",
    )  # fmt: skip


def reading(page: Any, quantity: str) -> float | str | None:
    return read(page, quantity) if readable(page, quantity) else None


def test_arrows_go_through_the_whole_deck_and_back(show: Show) -> None:
    page = show(Explorer("gated_deltanet", view="first"), "#deck=1")
    places = [shown(page, "slide-place")]
    for _ in range(sum(len(slide.states) for slide in demonstrations()) - 1):
        key(page, "ArrowRight")
        places.append(shown(page, "slide-place"))
    assert places[-1] == f"{len(demonstrations())} of {len(demonstrations())}"
    assert shown(page, "slide-keys").startswith("the last slide")
    assert page.evaluate("location.hash") == f"#deck={len(demonstrations())}"
    assert [*dict.fromkeys(places)] == [f"{n} of 8" for n in range(1, 9)]
    key(page, "ArrowRight")
    for wanted in reversed(places[:-1]):
        key(page, "ArrowLeft")
        assert shown(page, "slide-place") == wanted
    assert page.get_attribute(".cd-slide[data-on]", "aria-live") == "polite"
    key(page, "Escape")
    assert page.locator("[data-cd=present]").is_visible()
    assert page.evaluate("location.hash").startswith("#cd?")


def test_what_is_done_is_seen_on_its_way(show: Show) -> None:
    page = show(Explorer("gated_deltanet", view="first"), "#deck=2", motion="no-preference")
    assert heard(page)["black"] == pytest.approx(0.134, abs=0.01)
    hold_time(page)
    page.keyboard.press("ArrowRight")
    page.clock.run_for(400)
    assert 0.2 < heard(page)["black"] < 0.9
    page.clock.run_for(600)
    assert heard(page)["black"] == 1


def test_training_has_a_slide_of_two_matrices(show: Show) -> None:
    figure = PageTraining({"evolution": "constant", "constant": 0.85}, "softmax_attention")
    page = show(figure, ready="trainer")
    page.click("[data-cd=present]")
    settle(page)
    whole(page, (1280, 720))
    shown = page.locator("[data-cd^=train-matrix]")
    assert shown.count() == 2
    for m in range(2):
        assert shown.nth(m).bounding_box()["height"] >= 0.5 * 720
    visible = (
        "() => [...document.querySelectorAll('.cdx button')].filter((b) => b.checkVisibility())"
    )
    assert page.evaluate(visible + ".map((b) => b.dataset.cd)") == ["train-start", "slide-leave"]
    page.keyboard.press(" ")
    page.wait_for_function("() => document.querySelector('[data-cd=train-step]').dataset.value > 0")
    page.keyboard.press(" ")
    page.wait_for_selector("[data-cd=train-start][aria-pressed=false]")
    key(page, "ArrowRight")
    label = "document.querySelector('[data-cd=train-matrix]').ariaLabel"
    page.wait_for_function(f"() => {label}.includes('layer 1, head 2')")
    key(page, "Escape")
    assert page.locator("[data-cd=train-compare]").is_visible()
    assert page.evaluate("() => document.activeElement.dataset.cd") == "present"


def test_given_coefficients_have_a_slide_too(show: Show) -> None:
    figure = Explorer.from_dynamics(Explorer("gla").dynamics())
    page = show(figure)
    present(page)
    whole(page, (1280, 720))
    row = "Number(document.querySelector('[data-cd=control-row]').value)"
    before = page.evaluate(row)
    key(page, "ArrowLeft")
    assert page.evaluate(row) == before - 1
    assert "outputs" in text(page, "slide-keys")
