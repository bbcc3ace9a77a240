"""The explorer of the built landing page, moved with the mouse and compared with the library."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from browser.conftest import Visit

from coefdyn.analysis.selectivity import selectivity
from coefdyn.widgets import Explorer
from coefdyn.widgets.settings import validate

pytestmark = pytest.mark.browser
Open = Callable[..., Visit]
NEXT_FRAME = """() => new Promise((done) =>
  requestAnimationFrame(() => requestAnimationFrame(done)))"""


def drag(page: Any, control: str, share: float) -> float:
    """Drag a slider's thumb with the mouse to a share of its track; returns its new value."""
    slider = page.locator(f"[data-cd=control-{control}]").first  # of the page's first explorer
    slider.scroll_into_view_if_needed()
    low, high, value = (
        float(slider.evaluate(f"e => e.{name}")) for name in ("min", "max", "value")
    )
    box = slider.bounding_box()
    thumb = 16  # pixels: the centre of the thumb stays half of this from either end
    track = box["width"] - thumb
    middle = box["y"] + box["height"] / 2
    page.mouse.move(box["x"] + thumb / 2 + track * (value - low) / (high - low), middle)
    page.mouse.down()
    page.mouse.move(box["x"] + thumb / 2 + track * share, middle, steps=8)
    page.mouse.up()
    page.evaluate(NEXT_FRAME)
    return float(slider.input_value())


def shown(page: Any, hook: str) -> float:
    return float(page.get_attribute(f"[data-cd={hook}]", "data-value"))


def settings_with(preset: str, **changes: float) -> dict[str, Any]:
    return validate({"preset": preset, **changes})


def test_dragging_a_slider_gives_the_library_s_numbers(visit: Open) -> None:
    page = visit("index.html").page
    page.click("[data-cd=all-controls]")
    page.click("[data-cd=preset-mamba2]")
    page.wait_for_selector("[data-cd=preset-mamba2][aria-pressed=true]")
    before = shown(page, "near-zero-fraction"), shown(page, "row-sum")
    decay = drag(page, "decay", 0.3)
    settings = settings_with("mamba2", decay=decay)
    assert decay != settings_with("mamba2")["decay"]
    dynamics = Explorer(**settings).dynamics()
    found = selectivity(dynamics, settings["epsilon"], normalized=settings["view"] == "normalized")
    row_sum = dynamics.coefficients()[settings["row"] - 1].sum().item()
    after = shown(page, "near-zero-fraction"), shown(page, "row-sum")
    assert after == (found.near_zero_fraction, pytest.approx(row_sum, rel=1e-9))
    assert after != before


def test_dragging_works_on_a_phone_in_the_dark(visit: Open) -> None:
    page = visit("index.html", width=360, scheme="dark").page
    page.click("[data-cd=all-controls]")
    page.click("[data-cd=preset-gla]")
    page.wait_for_selector("[data-cd=preset-gla][aria-pressed=true]")
    decay = drag(page, "decay", 0.5)
    settings = settings_with("gla", decay=decay)
    row_sum = Explorer(**settings).dynamics().coefficients()[settings["row"] - 1].sum().item()
    assert shown(page, "row-sum") == pytest.approx(row_sum, rel=1e-9)
