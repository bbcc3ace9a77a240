"""The explorer in a static page: it starts, shows the library's numbers, and can be operated."""

from __future__ import annotations

from typing import Any

import pytest
from browser.axe import findings
from browser.explorer_pages import Open, heard, number, open_page, press, slide  # noqa: F401
from passed import FIGURES

from coefdyn.analysis.selectivity import selectivity
from coefdyn.widgets import Explorer
from coefdyn.widgets.settings import validate

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
