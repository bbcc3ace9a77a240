"""Questions of small figures, and the page that shows what was answered on this device."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from browser.conftest import Visit
from browser.explorer_pages import (  # noqa: F401
    Open,
    open_page,
    press,
    settle,
    slide,
    text,
)

from coefdyn.widgets import CostView, EmptyRowView, Explorer, TurningView
from coefdyn.widgets.small import SmallFigure

pytestmark = pytest.mark.browser

ROOT = Path(__file__).resolve().parents[2]
BOOK = ROOT / "book"
QUESTION = {
    "id": "turn",
    "question": "Turn faster: what happens to the half-life?",
    "number": "half-life",
    "control": "angle",
    "direction": "up",
}
#: A figure that can ask; those on given heads or on training of one's own cannot.
ASKS = re.compile(r"^(Explorer\(|\w+View\(|ScoreVariance\(|SampledSwing\()", re.MULTILINE)
CHAPTERS = sorted(
    path
    for folder in ("foundations", "architectures", "principles", "second_view", "design", "lens")
    for path in (BOOK / folder).glob("*.md")
    if ASKS.search(path.read_text(encoding="utf-8"))
)
SLIDE = """([key, value]) => {
  const input = document.querySelector(`[data-cd=asked-${key}]`);
  input.value = value;
  input.dispatchEvent(new Event("input", { bubbles: true }));
  return new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
}"""


def test_a_small_figure_waits_and_judges_its_own_control(open_page: Open) -> None:
    page = open_page(TurningView().asking(QUESTION), ready="small")
    page.evaluate(SLIDE, ["angle", 90])
    assert page.get_attribute("[data-cd=eigenvalue]", "data-value") != "0"
    assert "Say first" in text(page, "predict-outcome")
    press(page, "predict-stays")
    page.evaluate(SLIDE, ["angle", 10])
    assert "this is the other way" in text(page, "predict-outcome")
    page.evaluate(SLIDE, ["angle", 90])
    assert "it stays. As you said." in text(page, "predict-outcome")
    slide(page, "keep", 0.8)
    assert "alone, and Keep per step changed too" in text(page, "predict-outcome")
    press(page, "predict-back")
    assert "Now raise “Turn per step”" in text(page, "predict-outcome")


#: the bar at the start of its way, a quarter of a second later, and at the end
WIDTHS = """() => {
  const bar = document.querySelector("[data-cd=predict-moved] i");
  const [moving] = bar.getAnimations();
  moving.pause();
  return [0, 250, moving.effect.getComputedTiming().endTime].map((at) => {
    moving.currentTime = at;
    return bar.getBoundingClientRect().width;
  });
}"""
WHY = {
    **QUESTION,
    "number": "half-life",
    "control": "keep",
    "direction": "down",
    "why": "It fades.",
}


def test_a_judged_answer_shows_the_number_move_and_says_why(open_page: Open) -> None:
    page = open_page(TurningView(keep=0.95).asking(WHY), ready="small")
    press(page, "predict-rises")
    assert not page.locator("[data-cd=predict-moved]").is_visible()
    slid = f"async (moved) => {{ await ({SLIDE})(moved); return ({WIDTHS})(); }}"
    start, on_its_way, end = page.evaluate(slid, ["keep", 0.8])
    assert start > on_its_way > end > 0
    said = text(page, "predict-moved").splitlines()[0]
    assert "13.5" in said or "14" in said
    assert text(page, "predict-outcome").endswith("It fades.")
    assert "it falls. You said it rises" in text(page, "predict-outcome")


def test_who_skips_the_question_plays_and_may_be_asked_later(open_page: Open) -> None:
    page = open_page(TurningView().asking(QUESTION), ready="small")
    press(page, "predict-skip")
    assert page.evaluate("document.activeElement.dataset.cd") == "predict-reset"
    slide(page, "keep", 0.8)
    assert page.input_value("[data-cd=control-keep]") == "0.8"
    assert not page.locator("[data-cd=predict-rises]").is_visible()
    assert page.evaluate("localStorage.length") == 0
    press(page, "predict-reset")
    assert page.input_value("[data-cd=control-keep]") != "0.8"
    assert "Say first" in text(page, "predict-outcome")
    assert page.locator("[data-cd=predict-rises]").is_enabled()


@pytest.mark.parametrize("view", ["first", None])
def test_a_link_with_a_state_opens_unlocked_and_keeps_it(view: str | None, open_page: Open) -> None:
    asked = {**QUESTION, "number": "weight", "control": "beta", "direction": "down"}
    figure = Explorer("deltanet", view=view, predict=asked)
    page = open_page(figure, fragment="#cd?preset=deltanet&beta=1.5")
    settle(page)
    control = "control" if view else "asked"
    assert page.locator(f"[data-cd={control}-beta]").is_enabled()
    assert page.input_value(f"[data-cd={control}-beta]") == "1.5"
    assert page.locator("[inert]").count() == 0
    press(page, "predict-reset")
    assert page.input_value(f"[data-cd={control}-beta]") == "1"
    assert "Say first" in text(page, "predict-outcome")


def test_a_hand_cannot_answer_a_waiting_question(open_page: Open) -> None:
    page = open_page(TurningView().asking(QUESTION), ready="small")
    before = page.get_attribute("[data-cd=eigenvalue]", "data-value")
    page.click("[data-cd=turning]", position={"x": 60, "y": 60})
    settle(page)
    assert page.get_attribute("[data-cd=eigenvalue]", "data-value") == before


def _questions(path: Path) -> list[dict[str, str]]:
    """The literal questions of a chapter's cells."""
    source = path.read_text(encoding="utf-8")
    found = re.findall(r'\{\s*"id": ".*?\n\s*\}', source, re.DOTALL)
    return [ast.literal_eval(one) for one in found]


@pytest.mark.parametrize("path", CHAPTERS, ids=lambda path: path.stem)
def test_every_chapter_asks_about_a_number_of_its_own(path: Path) -> None:
    questions = _questions(path)
    assert questions, f"{path.stem} asks for no prediction"
    for question in questions:
        assert question["direction"] in ("up", "down")
        assert question["question"].rstrip().endswith("?")
        assert re.fullmatch(r"[A-Z].{30,160}\.", question["why"])


def test_no_two_questions_share_a_name() -> None:
    names = [question["id"] for path in CHAPTERS for question in _questions(path)]
    assert len(names) == len(set(names))


@pytest.mark.parametrize(
    ("figure", "changed", "message"),
    [
        (TurningView, {"number": "energy"}, "unknown number 'energy'"),
        (CostView, {"control": "machine", "number": "cost-ratio"}, "unknown control 'machine'"),
        (EmptyRowView, {"direction": "left"}, "unknown number|unknown direction"),
    ],
)
def test_a_question_that_cannot_be_judged_is_told(
    figure: type[SmallFigure], changed: dict[str, str], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        figure().asking({**QUESTION, **changed})


def _kept(page: Any, **answers: Any) -> None:
    for key, value in answers.items():
        page.evaluate(
            "([key, value]) => localStorage.setItem(key, value)", [f"coefdyn-predict:{key}", value]
        )


def test_what_was_answered_is_shown_and_can_be_forgotten(visit: Callable[..., Visit]) -> None:
    page = visit("predictions.html").page
    assert "No prediction is kept" in page.inner_text("[data-cd=predictions]")
    one = {"answer": "falls", "date": "2026-03-01", "question": "Where?", "page": "P 2 \u2014 Book"}
    two = {
        **one,
        "date": "2026-03-02",
        "truth": "rises",
        "question": "<img src=x onerror=alert(1)>",
    }
    kept = {"/principles/principle_2.html:a": one, "/index.html:b": two}
    _kept(page, **{key: json.dumps(value) for key, value in kept.items()})
    _kept(page, **{"/x.html:broken": "{", "javascript:alert(1):c": json.dumps(one)})
    page.reload()
    assert "3 answered, 1 tried, 0 as you said." in page.inner_text("[data-cd=predictions]")
    rows = page.locator("[data-cd=predictions] tbody tr")
    assert rows.count() == 3
    assert "2026-03-02" in rows.nth(0).inner_text()
    assert "<img" in rows.nth(0).inner_text()
    assert page.locator("[data-cd=predictions] img").count() == 0
    links = page.locator("[data-cd=predictions] a").evaluate_all(
        "all => all.map((a) => a.pathname)"
    )
    assert {*links} == {"/index.html", "/principles/principle_2.html"}
    rows.nth(0).get_by_role("button").click()
    assert rows.count() == 2
    page.get_by_role("button", name="Forget all").click()
    assert "No prediction is kept" in page.inner_text("[data-cd=predictions]")
    kept = page.evaluate("Object.keys(localStorage).filter((key) => key.startsWith('coefdyn'))")
    assert len(kept) == 1, "what is no answer stays"


LESSON = "<!doctype html><title>x</title><div data-cd=predictions></div>"


@pytest.mark.parametrize(
    ("answers", "told"),
    [
        ([("falls", "falls", "evolution")], ""),
        ([("falls", "rises", "scaling")], "One turned out otherwise. Read again: Page 0."),
        (
            [("rises", "stays", "normalizer"), ("falls", "stays", "normalizer"),
             ("rises", "falls", "readout")],
            "3 turned out otherwise: 2 of them ask about η, what a row is divided by, and 2 of "
            "them expect a change where the number stays. Read again: Page 0, Page 1, Page 2.",
        ),
        (
            [("rises", "falls", ""), ("stays", "falls", "")],
            "2 turned out otherwise, each in its own way. Read again: Page 0, Page 1.",
        ),
    ],
)  # fmt: skip
def test_the_missed_ones_say_what_they_share(
    answers: list[tuple[str, str, str]], told: str, browser: Any, tmp_path: Path
) -> None:
    file = tmp_path / "page.html"
    file.write_text(LESSON, encoding="utf-8")
    page = browser.new_page()
    page.goto(file.as_uri())
    for m, (answer, truth, about) in enumerate(answers):
        one = {"answer": answer, "truth": truth, "about": about, "date": f"2026-01-0{9 - m}"}
        _kept(page, **{f"/p{m}.html:{m}": json.dumps({**one, "page": f"Page {m} — Book"})})
    page.add_script_tag(path=BOOK / "assets" / "predictions.js")
    lesson = page.locator("[data-cd=lesson]")
    assert (lesson.inner_text() if told else "") == told
    assert lesson.count() == bool(told)
    assert len(answers) * bool(told) == 0 or lesson.locator("a").count() > 0
    page.close()
