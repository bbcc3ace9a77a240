"""The first figure: few targets, one view, sentences that hold, and the lab behind one button."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from browser.explorer_pages import (  # noqa: F401
    Open,
    heard,
    hold_time,
    open_page,
    press,
    settle,
    slide,
    text,
    write_page,
)

from coefdyn.widgets import Explorer
from coefdyn.widgets.settings import ROWS

pytestmark = pytest.mark.browser

LANDING = {"view": "first", "choices": ["readout", "normalizer"]}
CHAPTERS = ROWS[:8]
NIGHTLY = pytest.mark.nightly("the rows of Table 1")
#: what of the windows 1280 x 720 and 360 x 740 the book's bar leaves
LAPTOP, PHONE = (1280, 672), (360, 692)
TARGETS = """() => [...document.querySelectorAll(".cdx button, .cdx select, .cdx input, "
    + ".cdx textarea, .cdx a, .cdx summary, .cdx [tabindex='0']")]
  .filter((e) => e.checkVisibility({ visibilityProperty: true }) && !e.disabled)
  .map((e) => e.dataset.cd)"""
SPAN = """(hooks) => {
  const boxes = hooks.map((hook) => document.querySelector(hook).getBoundingClientRect());
  return Math.max(...boxes.map((box) => box.bottom)) - Math.min(...boxes.map((box) => box.top));
}"""
TOPS = """() => ["matrix", "answer", "see-equation", "path-caption"].map((hook) =>
  document.querySelector(`[data-cd=${hook}]`).getBoundingClientRect().top)"""


def first(row: str = "gated_deltanet", **settings: Any) -> Explorer:
    return Explorer(row, **{"view": "first", **settings})


def few_targets(page: Any, row: str) -> None:
    targets = page.evaluate(TARGETS)
    assert len(targets) <= 16, targets
    assert {"matrix", "control-text", f"stop-{row}", "all-controls", "copy-link"} <= set(targets)


@pytest.mark.parametrize(
    "row", [*CHAPTERS, *(pytest.param(row, marks=NIGHTLY) for row in ROWS if row not in CHAPTERS)]
)
def test_it_fits_one_view_and_has_at_most_sixteen_targets(row: str, open_page: Open) -> None:
    (wide, high), (narrow, tall) = LAPTOP, PHONE
    figure = first(row, **(LANDING if row == "gated_deltanet" else {}))
    page = open_page(figure, width=wide)
    few_targets(page, row)
    assert row not in CHAPTERS or page.locator(".cdx").bounding_box()["height"] <= high
    page = open_page(figure, width=narrow)
    few_targets(page, row)
    if row not in CHAPTERS:
        return
    needed = [".cdx-chip", "[data-cd=answer]", "[data-cd=matrix]", ".cdx-first .cdx-slider"]
    assert page.evaluate(SPAN, needed) <= tall
    assert page.evaluate("document.documentElement.scrollWidth") <= narrow


def test_nothing_jumps_along_the_path(open_page: Open) -> None:
    for width in (360, 1280):
        page = open_page(first(**LANDING), width=width)
        before = page.evaluate(TOPS)
        for name in ("softmax_attention", "linear_attention", "mamba2", "deltanet"):
            press(page, f"stop-{name}")
            assert page.evaluate(TOPS) == before, (width, name)


def test_chips_are_the_stops_of_the_path_and_one_stop_of_the_tab_key(open_page: Open) -> None:
    page = open_page(first("gla"))
    stops = page.eval_on_selector_all("[data-cd^=stop-]", "n => n.map(e => e.dataset.cd.slice(5))")
    assert stops == [
        "softmax_attention",
        "linear_attention",
        "gla",
        "mamba2",
        "deltanet",
        "gated_deltanet",
    ]
    page.focus("[data-cd=control-asked]")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.dataset.cd") == "stop-gla"
    page.keyboard.press("ArrowRight")
    settle(page)
    assert page.get_attribute("[data-cd=stop-mamba2]", "aria-current") == "step"
    assert page.evaluate("document.activeElement.dataset.cd") == "stop-mamba2"
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.dataset.cd") == "path-play"


def test_the_path_is_played_and_can_be_stopped(open_page: Open) -> None:
    page = open_page(first(), clock=True)
    hold_time(page)
    page.click("[data-cd=path-play]")
    page.clock.run_for(100)
    assert page.get_attribute("[data-cd=stop-softmax_attention]", "aria-current") == "step"
    page.clock.run_for(3300)
    assert page.get_attribute("[data-cd=stop-linear_attention]", "aria-current") == "step"
    page.click("[data-cd=path-play]")
    page.clock.run_for(7000)
    assert page.get_attribute("[data-cd=stop-linear_attention]", "aria-current") == "step"


def test_bars_share_one_axis_and_keep_a_mark_where_they_were(open_page: Open) -> None:
    page = open_page(first("softmax_attention"))
    bar = "[data-cd=answer-black] i"
    ghost = "[data-cd=answer-black] s"
    width = "e => parseFloat(e.style.width)"
    assert page.eval_on_selector(bar, width) == pytest.approx(50, abs=0.2)
    assert page.is_hidden(ghost)
    press(page, "stop-linear_attention")
    assert page.eval_on_selector(bar, width) == pytest.approx(10.6, abs=0.1)
    assert page.eval_on_selector(ghost, "e => parseFloat(e.style.left)") == pytest.approx(50, abs=1)
    press(page, "stop-mamba2")
    assert page.eval_on_selector(ghost, "e => parseFloat(e.style.left)") == pytest.approx(
        10.6, abs=0.1
    )
    page.select_option("[data-cd=control-asked]", "dog")
    settle(page)
    assert page.is_hidden(ghost), "another question has no answer before"


def test_a_sentence_of_one_s_own_is_read_and_asked_about(open_page: Open) -> None:
    page = open_page(first("deltanet"))
    assert (
        page.input_value("[data-cd=control-text]")
        == "The cat is black. The dog is brown. The cat is white."
    )
    page.select_option("[data-cd=control-asked]", "dog")
    settle(page)
    assert heard(page)["brown"] == 1
    page.fill("[data-cd=control-text]", "The moon is full. The dog is old. The moon is new.")
    settle(page)
    assert heard(page) == {"full": 0, "old": 1, "new": 0}, "the question stays the dog's"
    page.select_option("[data-cd=control-asked]", "moon")
    settle(page)
    assert heard(page) == {"full": 0, "old": 0, "new": 1}
    page.press("[data-cd=control-text]", "Enter")
    settle(page)
    assert (
        page.input_value("[data-cd=control-text]")
        == "The moon is full. The dog is old. The moon is new."
    )
    page.reload()
    page.wait_for_selector("[data-cd=matrix]")
    assert heard(page) == {"full": 0, "old": 0, "new": 1}
    page.fill("[data-cd=control-text]", "the sky is blue. grass is green. what colour is the sky?")
    settle(page)
    assert page.input_value("[data-cd=control-asked]") == "sky"
    page.fill("[data-cd=control-text]", "")
    settle(page)
    assert "white" in heard(page), "without a word the book's example stands in"


def test_the_state_goes_to_the_lab_and_back_and_is_in_the_address(open_page: Open) -> None:
    page = open_page(first("mamba2"))
    slide(page, "decay", 0.7)
    page.select_option("[data-cd=control-scaling]", "exponential")
    settle(page)
    said = heard(page)
    assert text(page, "path-caption").startswith("A design of your own")
    press(page, "all-controls")
    assert page.evaluate("document.activeElement.dataset.cd") == "fewer-controls"
    assert heard(page) == said
    assert page.input_value("[data-cd=control-decay]") == "0.7"
    assert page.locator("[data-cd=panel-inspect]").is_visible()
    assert "all=true" in page.evaluate("location.hash")
    page.reload()
    page.wait_for_selector("[data-cd=fewer-controls]")
    assert heard(page) == said
    press(page, "reset")
    assert page.locator("[data-cd=fewer-controls]").is_visible(), "Reset leaves the lab open"
    page.go_back()
    settle(page)
    press(page, "fewer-controls")
    assert heard(page) == said
    assert page.locator("[data-cd=panel-inspect]").count() == 0
    assert "all=true" not in page.evaluate("location.hash")
    press(page, "reset")
    assert heard(page) != said
    assert page.evaluate("document.activeElement.dataset.cd") == "stop-mamba2"


@pytest.mark.parametrize(
    "fragment", ["preset=gla&tokens=repeating&length=8", "preset=gla&panel=stability"]
)
def test_a_link_to_what_it_does_not_show_opens_the_lab(fragment: str, open_page: Open) -> None:
    page = open_page(first(), fragment=f"#cd?{fragment}")
    page.wait_for_selector("[data-cd=fewer-controls]")
    assert page.get_attribute("[data-cd=preset-gla]", "aria-pressed") == "true"
    page = open_page(first(), fragment="#cd?preset=gla&decay=0.7")
    assert page.input_value("[data-cd=control-decay]") == "0.7"
    assert page.locator("[data-cd=all-controls]").is_visible()


def test_a_link_speaks_to_the_explorer_without_a_name(open_page: Open) -> None:
    page = open_page(first(name="first"), Explorer("gla"), fragment="#cd?preset=mlstm")
    page.wait_for_selector("[data-cd=preset-mlstm][aria-pressed=true]")
    assert page.get_attribute("[data-cd=stop-gated_deltanet]", "aria-current") == "step"
    page = open_page(first(name="first"), Explorer("gla"), fragment="#cd-first?preset=deltanet")
    page.wait_for_selector("[data-cd=stop-deltanet][aria-current=step]")
    assert page.get_attribute("[data-cd=preset-gla]", "aria-pressed") == "true"


def test_a_question_waits_and_is_answered_with_its_own_slider(open_page: Open) -> None:
    question = {"id": "q", "question": "Which way?", "number": "weight", "control": "floor"}
    page = open_page(
        first("mlstm", predict={**question, "direction": "down"}, floor=2.0, column=12)
    )
    slide(page, "floor", 1)
    assert page.input_value("[data-cd=control-floor]") == "2"
    assert "0.46" in text(page, "reading"), "the figure waits"
    press(page, "predict-rises")
    slide(page, "floor", 1)
    assert text(page, "predict-outcome").startswith("It is now")
    press(page, "all-controls")
    assert text(page, "predict-outcome").startswith("It is now"), "the lab knows the answer"


def test_a_saved_page_is_one_file_that_runs_alone(browser: Any, tmp_path: Path) -> None:
    explorer = first("deltanet", beta=0.5, text="a </script> is <b>; ask: a")
    place = explorer.save(tmp_path / "page.html", title="Half & half")
    context = browser.new_context(color_scheme="dark")
    page = context.new_page()
    problems: list[str] = []
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on("request", lambda r: problems.append(r.url) if r.url.startswith("http") else None)
    page.goto(place.as_uri())
    page.wait_for_selector("[data-cd=matrix]")
    assert page.title() == "Half & half"
    assert page.get_attribute("html", "data-theme") == "dark"
    shown = explorer.shown()
    assert sum(heard(page).values()) == pytest.approx(shown.weights[-1].sum().item())
    slide(page, "beta", 0.7)
    assert "beta=0.7" in page.evaluate("location.hash")
    press(page, "all-controls")
    assert page.locator("[data-cd=panel-inspect]").is_visible()
    assert problems == []
    context.close()
