"""The explorer in a static page: it starts, shows the library's numbers, and can be operated."""

from __future__ import annotations

from typing import Any

import pytest
from browser.axe import findings
from browser.explorer_pages import Open, heard, number, open_page, press, slide  # noqa: F401
from passed import FIGURES

from coefdyn.analysis.selectivity import selectivity
from coefdyn.widgets import Explorer
from coefdyn.widgets.settings import ROWS, validate

pytestmark = pytest.mark.browser


def near_zero(settings: dict[str, Any]) -> float:
    shown = settings["view"] == "normalized"
    found = selectivity(Explorer(**settings).dynamics(), settings["epsilon"], normalized=shown)
    return found.near_zero_fraction


def test_slider_moves_the_numbers_the_library_gives(open_page: Open) -> None:
    page = open_page(Explorer("mamba2", length=24))
    before = number(page, "near-zero-fraction")
    slide(page, "decay", 0.5)
    settings = validate({"preset": "mamba2", "length": 24, "decay": 0.5})
    assert number(page, "near-zero-fraction") == near_zero(settings) != before
    alpha = Explorer(**settings).dynamics().coefficients()
    want = alpha[settings["row"] - 1].sum().item()
    assert number(page, "row-sum") == pytest.approx(want, rel=1e-12)
    assert page.inner_text("[data-cd=value-decay]") == "0.5"


@pytest.mark.dear("every row of Table 1 is chosen and drawn")
@pytest.mark.reads(FIGURES)
def test_every_row(open_page: Open) -> None:
    """Chosen one after another: its numbers, its class, its answer and the limits of its plot.

    With a straight readout the picture is drawn around the scores; its limits are Python's.
    """
    kinds = {
        "softmax_attention": "convex",
        "linear_attention": "convex",
        "wall_attention": "convex",
        "path_attention": "convex",
        "forgetting_attention": "convex",
        "alibi": "convex",
        "sliding_window": "convex",
        "softmax_sink": "conical",
    }
    page = open_page(Explorer("gated_deltanet"))
    for row in ROWS:
        press(page, f"preset-{row}")
        assert page.get_attribute(f"[data-cd=preset-{row}]", "aria-pressed") == "true", row
        explorer = Explorer(row)
        shown = explorer.shown()
        assert number(page, "near-zero-fraction") == near_zero(explorer.settings), row
        assert page.inner_text("[data-cd=class]") == kinds.get(row, "linear"), row
        assert heard(page) == pytest.approx(shown.answer, rel=1e-9, abs=1e-12), row
        limits = page.get_attribute("[data-cd=readout]", "data-range")
        first, last, *_ = shown.readout_range
        assert [float(x) for x in limits.split()] == pytest.approx([first, last]), row
        if explorer.settings["readout"] == "identity":
            assert last <= 2.8 * max(shown.alpha.abs().max().item(), 2e-3), row


def test_keyboard_moves_slider_and_cell(open_page: Open) -> None:
    page = open_page(Explorer("gla", length=32, row=5, column=3))
    page.focus("[data-cd=control-decay]")
    page.keyboard.press("ArrowLeft")
    page.wait_for_selector("[data-cd=value-decay]:text-is('0.915')")
    page.focus("[data-cd=matrix]")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowRight")
    page.wait_for_selector("[data-cd=reading]:has-text('Output 6 reads token 4')")


@pytest.mark.dear("axe looks at every element of an explorer, panel by panel")
@pytest.mark.reads(FIGURES)
def test_no_serious_accessibility_finding(open_page: Open) -> None:
    """Without a panel it stands on the landing page, which test_accessibility.py looks at."""
    for panel in ("inspect", "stability", "positions", "geometry"):
        page = open_page(Explorer("mlstm", panel=panel))
        assert findings(page) == [], panel
