"""The first minute of three readers: one who is new, one who designs, one who teaches."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from browser.conftest import Visit

pytestmark = pytest.mark.browser
Open = Callable[..., Visit]
NEXT_FRAME = """() => new Promise((done) =>
  requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(done))))"""
#: The size of an explorer's letters on the screen, in pixels.
LETTERS = """(e) => parseFloat(getComputedStyle(e).fontSize)
  * parseFloat(getComputedStyle(e.closest(".coefdyn-widget")).zoom)"""
EXPLORER = "[data-cd=explorer] >> nth=0"


def settle(page: Any) -> None:
    page.evaluate(NEXT_FRAME)


def said(page: Any) -> str:
    """The answer in words, of the page's first explorer."""
    settle(page)
    return page.locator("[data-cd=answer-words]").first.inner_text()


def within_the_first_screen(page: Any, selector: str, height: int = 900) -> bool:
    box = page.locator(selector).first.bounding_box()
    return box is not None and box["y"] < height


def test_someone_new_learns_that_models_keep_different_things(visit: Open) -> None:
    page = visit("index.html", width=1440).page
    assert "Attention, Mamba and DeltaNet are one equation" in page.inner_text(".cd-lead")
    for part in ("control-text", "path-play", "matrix", "answer-words"):
        assert within_the_first_screen(page, f"[data-cd={part}]"), part
    assert "white" in said(page) and "black" not in said(page)
    page.click("[data-cd=stop-softmax_attention] >> nth=0")
    assert "black 0.50" in said(page) and "white 0.50" in said(page)
    page.fill("[data-cd=control-text] >> nth=0", "the moon is full; the moon is new; ask: moon")
    assert "full 0.50" in said(page)
    page.click("[data-cd=stop-gated_deltanet] >> nth=0")
    assert said(page).startswith("Asked for “moon”, this mixer answers: new ")
    page.locator(".cd-doors .sd-card", has_text="New to this?").click()
    page.wait_for_load_state("load")
    assert "Coefficient dynamics" in page.inner_text("h1")
    page.locator("input[name=cd-reading][value=ideas]").check(force=True)
    assert not page.locator("details.cd-says").first.is_visible()


@pytest.mark.dear("a reader's whole way from a design to a kept file")
def test_a_researcher_compares_a_design_of_their_own_and_keeps_it(visit: Open) -> None:
    page = visit("index.html", width=1440).page
    page.locator(".cd-doors .sd-card", has_text="Designing a mixer?").click()
    page.wait_for_load_state("load")
    assert page.url.endswith("architectures/table1.html")
    assert page.locator("table").count() >= 3
    page.wait_for_selector("[data-cd=explorer]")
    settle(page)
    if page.locator("[data-cd=predict-rises]").count():
        page.click("[data-cd=predict-rises] >> nth=0")
        settle(page)  # until then the controls are locked
    page.click("[data-cd=preset-gated_deltanet]")
    page.click("[data-cd=pin]")
    page.select_option("[data-cd=control-readout]", "exp")
    page.select_option("[data-cd=control-normalizer]", "row_sum")
    settle(page)
    assert "Own design" in page.inner_text("[data-cd=design-words]")
    assert page.locator("[data-cd=pinned]").is_visible()
    assert page.inner_text("[data-cd=class]").strip() == "convex"
    link = page.url
    assert "readout=exp" in link and "normalizer=row_sum" in link
    weights = page.get_attribute("[data-cd=matrix]", "aria-label")
    again = page.context.new_page()
    again.goto(link)
    again.wait_for_selector("[data-cd=explorer]")
    settle(again)
    assert again.get_attribute("[data-cd=matrix]", "aria-label") == weights


def test_a_teacher_opens_a_demonstration_and_presents_it(visit: Open) -> None:
    page = visit("index.html", width=1440).page
    page.locator(".cd-doors .sd-card", has_text="Teaching?").click()
    page.wait_for_load_state("load")
    links = page.locator(".bd-article a[href*='index.html#cd?']")
    assert links.count() == 8
    assert page.locator(".bd-article blockquote").count() >= 8
    links.first.click()
    page.wait_for_selector("[data-cd=stop-softmax_attention][aria-current=step]")
    page.click("[data-cd=present]")
    page.wait_for_function("() => document.documentElement.hasAttribute('data-present')")
    page.keyboard.press("ArrowRight")
    page.wait_for_selector("[data-cd^=stop-linear_attention][aria-current=step]")
    caption = page.inner_text("[data-cd=slide-caption]")
    assert len(caption.split()) > 5
    assert page.locator(EXPLORER).evaluate(LETTERS) >= 16
    box = page.locator(EXPLORER).bounding_box()
    assert (box["x"], box["y"], box["width"]) == (0, 0, 1440)
    page.evaluate("() => document.exitFullscreen()")
    page.wait_for_function("() => !document.documentElement.hasAttribute('data-present')")
    assert page.evaluate("() => document.activeElement.dataset.cd") == "present"


TARGETS = """() => [...document.querySelector("[data-cd=explorer]").querySelectorAll(
    "button, select, input, textarea, a, summary, [tabindex='0']")]
  .filter((e) => e.checkVisibility({ visibilityProperty: true }) && !e.disabled).length"""


def test_the_landing_s_figure_is_small(visit: Open) -> None:
    assert visit("index.html", width=1280).page.evaluate(TARGETS) <= 12


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_places_of_the_map_are_opened_by_keyboard_on_a_phone(scheme: str, visit: Open) -> None:
    page = visit("start.html", width=360, scheme=scheme).page
    places = page.get_by_role("group", name="A map of the book").get_by_role("link")
    assert places.count() >= 12
    ink = places.first.evaluate("(e) => getComputedStyle(e).fill")
    assert ink != page.evaluate("getComputedStyle(document.body).backgroundColor")
    last = places.last
    last.focus()
    assert last.evaluate("(e) => e.getBoundingClientRect().right <= innerWidth")
    assert all(box["height"] >= 24 for box in (one.bounding_box() for one in places.all()))
    target = last.get_attribute("href")
    page.keyboard.press("Enter")
    page.wait_for_url(f"**/{target}")


INSIDE = """(e) => {
  const { top, bottom } = e.getBoundingClientRect();
  return Math.max(0, Math.min(bottom, innerHeight) - Math.max(top, 0)) / (bottom - top);
}"""


@pytest.mark.parametrize("size", [(1280, 720), (360, 740)])
def test_training_is_in_sight_when_it_begins(size: tuple[int, int], visit: Open) -> None:
    page = visit("design/train.html", width=size[0]).page
    page.set_viewport_size({"width": size[0], "height": size[1]})
    page.emulate_media(reduced_motion="reduce")
    page.click("[data-cd=train-start]")
    settle(page)
    for part, share in (("train-start", 1), ("train-accuracy", 1), ("train-matrix", 0.5)):
        assert page.locator(f"[data-cd={part}]").evaluate(INSIDE) >= share, part


def test_a_slide_held_upright_has_the_answer_below_its_matrix(visit: Open) -> None:
    page = visit("index.html", width=360).page
    page.set_viewport_size({"width": 360, "height": 740})
    for number in (1, 5):
        page.evaluate(f"location.hash = 'deck={number}'")
        page.wait_for_selector(f"[data-cd=slide-place]:text-is('{number} of 8')")
        settle(page)
        shown = ("[data-on] [data-cd=slide-place]", "[data-on] [data-cd=slide-leave]")
        for part in ("[data-cd=matrix]", "[data-cd=answer]", *shown):
            assert page.locator(f"{part} >> nth=0").evaluate(INSIDE) == 1, part
        assert page.evaluate("() => document.querySelector('.cdx-slide').scrollWidth") <= 360
