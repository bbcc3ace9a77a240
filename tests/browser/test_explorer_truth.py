"""Statements of the explorer about itself hold: between designs, under a question, after Back."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from browser.explorer_pages import Open, number, open_page, press, settle, slide, text  # noqa: F401

from coefdyn import CoefficientDynamics, evolution, normalizer, readout
from coefdyn.plots.explorer_still import explorer_still, root_norm
from coefdyn.widgets import Explorer
from coefdyn.widgets.settings import schema

pytestmark = pytest.mark.browser

QUESTION = {
    "id": "keep",
    "question": "Keep less per step. Which way does the near-zero share move?",
    "number": "near-zero-fraction",
    "control": "decay",
    "direction": "down",
}


def _morph(page: Any, towards: str, share: float) -> None:
    page.select_option("[data-cd=path-to]", towards)
    slide(page, "morph", share)


@pytest.mark.parametrize("then", ["panel-inspect", "panel-stability"])
def test_a_morph_says_what_it_is_also_when_a_panel_is_open(then: str, open_page: Open) -> None:
    page = open_page(Explorer("gated_deltanet"))
    _morph(page, "softmax_attention", 0.6)
    press(page, then)
    assert text(page, "design-words") == "Gated DeltaNet, 60 % towards Softmax attention"
    assert text(page, "preset-gated_deltanet") == "Gated DeltaNet 40 %"
    assert text(page, "preset-softmax_attention") == "Softmax 60 %"
    assert text(page, "mix-normalizer") == "now 40 % none, 60 % row sum"
    assert text(page, "mix-readout") == "now 40 % identity, 60 % exponential"
    pressed = "n => n.map(x => x.getAttribute('aria-pressed')).filter(x => x !== 'false')"
    assert page.eval_on_selector_all(".cdx-chip", pressed) == ["mixed", "mixed"]


def test_a_morph_at_its_end_is_named_after_it_and_ends_by_a_cross(open_page: Open) -> None:
    page = open_page(Explorer("gated_deltanet"))
    before = number(page, "row-sum")
    _morph(page, "softmax_attention", 1)
    assert page.get_attribute("[data-cd=preset-softmax_attention]", "aria-pressed") == "true"
    assert page.get_attribute("[data-cd=preset-gated_deltanet]", "aria-pressed") == "false"
    press(page, "morph-end")
    assert text(page, "design-words") == "Gated DeltaNet"
    assert page.is_hidden("[data-cd=morph-end]")
    assert page.is_hidden("[data-cd=mix-normalizer]")
    assert number(page, "row-sum") == before


def test_only_the_named_control_moved_as_asked_is_judged(open_page: Open) -> None:
    page = open_page(Explorer("gated_deltanet", length=32, predict=QUESTION))
    press(page, "predict-rises")
    slide(page, "decay", 1.05)
    assert "this is the other way" in text(page, "predict-outcome")
    slide(page, "decay", 0.9)
    assert "it rises. As you said." in text(page, "predict-outcome")
    for key, value in (("beta", 1.2), ("epsilon", -1.0), ("length", 20)):
        slide(page, key, value)
        outcome = text(page, "predict-outcome")
        assert "changed too" in outcome, key
        assert "It is now" not in outcome, key
        press(page, "predict-back")
        assert "Now lower “Keep per step, a” and watch" in text(page, "predict-outcome")
    press(page, "preset-softmax_attention")
    assert "changed too" in text(page, "predict-outcome")


def test_the_asked_slider_stands_in_the_box(open_page: Open) -> None:
    page = open_page(Explorer("gated_deltanet", length=32, predict=QUESTION), width=360)
    assert page.is_disabled("[data-cd=asked-decay]")
    press(page, "predict-rises")
    box, slider = (
        page.locator(f"[data-cd={h}]").bounding_box() for h in ("predict", "asked-decay")
    )
    assert box["y"] < slider["y"] < box["y"] + box["height"]
    page.focus("[data-cd=asked-decay]")
    page.keyboard.press("ArrowLeft")
    page.wait_for_selector("[data-cd=value-decay]:text-is('0.975')")


def test_a_waiting_question_locks_everything_that_could_answer_it(open_page: Open) -> None:
    page = open_page(Explorer("gated_deltanet", length=32, predict=QUESTION))
    before = number(page, "near-zero-fraction"), number(page, "row-sum")
    for hook in ("preset-gla", "control-length", "control-beta"):
        page.evaluate("h => document.querySelector(`[data-cd=${h}]`).click()", hook)
        page.evaluate(
            """h => { const e = document.querySelector(`[data-cd=${h}]`);
                if (e.type !== "range") return;
                e.value = e.max; e.dispatchEvent(new Event("input")); }""",
            hook,
        )
        settle(page)
        assert (number(page, "near-zero-fraction"), number(page, "row-sum")) == before, hook
        waits = "h => document.querySelector(`[data-cd=${h}]`).matches(':disabled, [inert] *')"
        assert page.evaluate(waits, hook), hook


CUT_CHOICES = """() => {
  const ink = document.createElement("canvas").getContext("2d");
  const selects = [...document.querySelectorAll(".cdx select")];
  return selects.filter((e) => e.checkVisibility()).flatMap((e) => {
    ink.font = getComputedStyle(e).font;
    const room = e.clientWidth - 30; // its arrow and its padding
    return [...e.options].filter((o) => ink.measureText(o.text).width > room).map((o) => o.text);
  });
}"""


@pytest.mark.parametrize("width", [360, 720, 1140])
def test_no_choice_is_cut_in_its_box(width: int, open_page: Open) -> None:
    page = open_page(Explorer("gated_deltanet"), width=width)
    assert page.evaluate(CUT_CHOICES) == []


def test_text_alone_can_be_enlarged(open_page: Open) -> None:
    page = open_page(Explorer("gated_deltanet"))
    ink = "document.querySelector('[data-cd=impulse]').getContext('2d').getTransform().a"
    size = "e => parseFloat(getComputedStyle(e).fontSize)"
    hooks = ("value-decay", "reading", "preset-gla", "row-sum", "control-readout")
    before = [page.eval_on_selector(f"[data-cd={hook}]", size) for hook in hooks]
    small = page.evaluate(ink)
    page.evaluate("document.documentElement.style.fontSize = '200%'")
    settle(page)
    settle(page)
    after = [page.eval_on_selector(f"[data-cd={hook}]", size) for hook in hooks]
    assert after == [2 * value for value in before]
    assert page.evaluate(ink) == pytest.approx(2 * small, rel=0.01), (
        "the letters of the pictures grow, too"
    )
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_still_and_live_matrix_share_one_scale(open_page: Open) -> None:
    """A quarter of the largest coefficient has half of the colour, in both."""
    norm = root_norm(2.0)
    assert [norm(x) for x in (-2.0, -0.5, 0.0, 0.5, 2.0)] == pytest.approx([0, 0.25, 0.5, 0.75, 1])
    figure = explorer_still(Explorer("gated_deltanet", length=8))
    still = figure.axes[0].images[0].norm
    assert still(0.25 * still.vmax) == pytest.approx(0.75)
    page = open_page(Explorer("gated_deltanet", length=8))
    assert "√" in text(page, "scale-words")


@pytest.mark.dear("a figure is asked with each readout and each normalizer")
def test_a_sink_without_effect_says_so(open_page: Open) -> None:
    """Exactly where another sink changes no number of the library."""
    options = {key: schema()["choices"][key]["options"] for key in ("readout", "normalizer")}
    page = open_page(Explorer("softmax_sink"))
    for phi in options["readout"]:
        page.select_option("[data-cd=control-readout]", phi)
        for eta in options["normalizer"]:
            page.select_option("[data-cd=control-normalizer]", eta)
            settle(page)
            chosen = {"readout": phi, "normalizer": eta}
            low, high = (Explorer("softmax_sink", sink=s, **chosen) for s in (-1.0, 2.0))
            idle = torch.equal(low.coefficients(True), high.coefficients(True))
            assert page.is_visible("[data-cd=idle-sink]") == idle, chosen
            assert text(page, "idle-sink").startswith("No effect") == idle, chosen


def test_a_given_design_offers_nothing_beside_phi(open_page: Open) -> None:
    """Only the readout and the normalizer of given arrays may be changed."""
    q = torch.eye(3, dtype=torch.float64)
    design = CoefficientDynamics(
        q=q,
        k=q,
        evolution=evolution.Identity(),
        scaling=1.0,
        readout=readout.exp,
        normalizer=normalizer.RowSum(sink=0.5),
    )
    page = open_page(Explorer.from_dynamics(design))
    assert page.query_selector("[data-cd=control-readout]")
    assert page.query_selector("[data-cd=control-beside]") is None
