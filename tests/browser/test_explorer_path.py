"""The path from row to row, the equation that follows it, words of controls, pinning, pointing."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import Any

import pytest
from browser.explorer_pages import (  # noqa: F401
    Open,
    hold_time,
    number,
    open_page,
    press,
    settle,
    text,
)

from coefdyn.widgets import Explorer
from coefdyn.widgets.settings import schema

pytestmark = pytest.mark.browser

PARTS = ("structure", "scaling", "readout", "normalizer")
KINDS = """(parts) => Object.fromEntries(parts.map((key) =>
  [key, document.querySelector(`[data-cd=control-${key}]`).value]))"""


def test_each_step_changes_one_ingredient_and_says_which(open_page: Open) -> None:
    page = open_page(Explorer("softmax_attention"), width=1122)
    named = ["softmax_attention", "linear_attention", "mamba2", "deltanet", "gated_deltanet"]
    rows = schema()["rows"]
    kinds = [page.evaluate(KINDS, PARTS)]
    captions = [text(page, "path-caption")]
    while page.get_attribute("[data-cd=stop-gated_deltanet]", "aria-current") != "step":
        press(page, "path-next")
        kinds.append(page.evaluate(KINDS, PARTS))
        captions.append(text(page, "path-caption"))
    assert len(kinds) == 9
    for before, after in pairwise(kinds):
        assert sum(before[key] != after[key] for key in PARTS) == 1
    assert len(set(captions)) == 9
    reached = [n for k in kinds for n in named if all(rows[n]["kinds"][p] == k[p] for p in PARTS)]
    assert reached == named
    assert number(page, "row-sum") == pytest.approx(Explorer("gated_deltanet").shown().row_sum)
    page.go_back()
    settle(page)


def test_any_two_rows_have_a_path(open_page: Open) -> None:
    page = open_page(Explorer("mlstm"), width=1122)
    page.select_option("[data-cd=path-from]", "mlstm")
    page.select_option("[data-cd=path-to]", "gla")
    settle(page)
    stops = page.eval_on_selector_all(".cdx-stop", "n => n.map(e => e.dataset.cd)")
    assert stops == ["stop-mlstm", "stop-gla-normalizer", "stop-gla-structure", "stop-gla"]
    page.focus("[data-cd=stop-mlstm]")
    for _ in range(3):
        page.keyboard.press("ArrowRight")
        settle(page)
    assert page.evaluate("document.activeElement.dataset.cd") == "stop-gla"
    assert page.get_attribute("[data-cd=preset-gla]", "aria-pressed") == "true"


def test_the_equation_has_the_chosen_ingredients(open_page: Open) -> None:
    page = open_page(Explorer("gated_deltanet"), width=1122)
    names = ("evolution", "scaling", "readout", "normalizer")

    def parts() -> list[str]:
        return [text(page, f"symbol-{name}") for name in names]

    assert parts() == ["∏ at (I − βt ztztᵀ)", "βj/√n", "id", "1"]
    press(page, "preset-softmax_attention")
    assert parts() == ["I", "1/√n", "exp", "Σj αij"]
    page.hover("[data-cd=symbol-readout]")
    settle(page)
    lit = "n => n.map(e => e.className).filter(c => c.includes('cdx-lit')).length"
    assert page.eval_on_selector_all(".cdx-card-readout, .cdx-figure-readout", lit) == 2
    page.mouse.move(2, 2)
    settle(page)
    assert page.eval_on_selector_all(".cdx-card, .cdx-figure", lit) == 0


def test_every_control_has_its_sentence(open_page: Open) -> None:
    page = open_page(Explorer("gated_deltanet"), width=1122)
    assert page.is_hidden(".cdx-card-evolution .cdx-help-text")
    press(page, "help-decay")
    assert "share of the state that is left" in page.inner_text(".cdx-card-evolution")
    assert text(page, "half-life") == "half is left after 34 tokens"
    unexplained = """() => [...document.querySelectorAll(".cdx-card .cdx-control, .cdx-tokens "
      + "> .cdx-control")].filter((e) => e.checkVisibility() && !e.querySelector(".cdx-help"))
      .map((e) => e.textContent)"""
    assert [words for words in page.evaluate(unexplained) if "Tell it" not in words] == []


def test_a_pinned_design_stands_beside_the_next_and_its_difference(open_page: Open) -> None:
    page = open_page(Explorer("deltanet"), width=1122)
    press(page, "pin")
    press(page, "preset-softmax_attention")
    words = text(page, "pinned-words")
    assert words == "Pinned: DeltaNet. In the chosen cell α was 0, α/η is 0.499."
    picture = "document.querySelector('[data-cd=pinned]').toDataURL()"
    before = page.evaluate(picture)
    press(page, "pin-difference")
    assert text(page, "pinned-words").startswith("Now minus pinned: DeltaNet.")
    assert page.evaluate(picture) != before
    press(page, "pin-end")
    assert page.is_hidden("[data-cd=pinned]")


def _point(page: Any, hook: str, x: float, y: float) -> None:
    box = page.locator(f"[data-cd={hook}]").bounding_box()
    page.mouse.move(box["x"] + x * box["width"], box["y"] + y * box["height"])
    settle(page)


def test_the_cell_under_the_pointer_drives_every_picture(open_page: Open) -> None:
    page = open_page(Explorer("gla", length=8), width=1122)
    labels = "['impulse', 'plane'].map(h => document.querySelector(`[data-cd=${h}]`).ariaLabel)"
    before = page.evaluate(labels)
    _point(page, "matrix", 0.15, 0.8)
    after = page.evaluate(labels)
    assert after[0] != before[0]
    assert "State of token 1 at output" in after[1]
    assert text(page, "value-column") == "4", "what was chosen stays chosen"
    page.mouse.move(2, 2)
    settle(page)
    assert page.evaluate(labels) == before


def test_dragging_along_the_bars_moves_the_output(open_page: Open) -> None:
    page = open_page(Explorer("gla", length=10), width=1122)
    _point(page, "impulse", 0.95, 0.5)
    page.mouse.down()
    assert text(page, "value-row") == "10"
    _point(page, "impulse", 0.55, 0.5)
    assert text(page, "value-row") == "6"
    page.mouse.up()
    settle(page)
    assert "row=6" in page.evaluate("location.hash")


def test_dragging_in_the_plane_turns_the_query(open_page: Open) -> None:
    page = open_page(Explorer("gla"), width=1122)
    before = number(page, "row-sum")
    _point(page, "plane", 0.5, 0.9)
    page.mouse.down()
    _point(page, "plane", 0.5, 0.1)
    page.mouse.up()
    settle(page)
    x, y = re.search(r"q13=(-?[\d.]+),(-?[\d.]+)", page.evaluate("location.hash")).groups()
    assert abs(float(x)) <= 0.02 and abs(float(y) - 2**0.5) <= 0.01, "straight up, to the pixel"
    assert number(page, "row-sum") != before


@pytest.mark.parametrize("preset", ["gla", "gated_deltanet"])
def test_a_state_taken_at_its_tip_goes_with_the_hand(open_page: Open, preset: str) -> None:
    explorer = Explorer(preset, tokens="random", length=10, row=7, column=4, beta=0.3)
    page = open_page(explorer, width=1122)
    path = explorer.shown().path[:4]
    box = page.locator("[data-cd=plane]").bounding_box()
    reach = 1.15 * path.norm(dim=-1).max().item()
    scale = (min(box["width"], box["height"]) / 2 - 8) / reach
    middle = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    x, y = path[3].tolist()
    page.mouse.move(middle[0] + scale * x, middle[1] - scale * y)
    page.mouse.down()
    page.mouse.move(middle[0] + 20, middle[1] - 30, steps=4)
    page.mouse.up()
    settle(page)
    assert "k4=" in page.evaluate("location.hash")
    told = page.get_attribute("[data-cd=plane]", "aria-label").replace("\u2212", "-")
    found = [float(part) for part in told.rstrip(".").partition("output 7: ")[2].split(", ")]
    assert found == pytest.approx([20 / scale, 30 / scale], abs=0.02)
