"""The explorer under a finger at 360 pixels, without a mouse, in forced colours, and enlarged."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from browser.explorer_pages import PHONE, number, phone, text, write_page  # noqa: F401

from coefdyn.lab.films import TrainingFilm
from coefdyn.widgets import ChunkView, Explorer

pytestmark = pytest.mark.browser

PANELS = ("inspect", "stability", "positions", "geometry")
FRAME = "() => new Promise((done) => requestAnimationFrame(() => setTimeout(done)))"
Phone = Callable[[Explorer], Any]


def swipe(page: Any, hook: str, start: tuple[float, float], by: tuple[float, float]) -> None:
    """A finger lands on a part, ``start`` as shares of its size, and slides by so many pixels."""
    place = page.locator(f"[data-cd={hook}]").first
    place.scroll_into_view_if_needed()
    box = place.bounding_box()
    x, y = box["x"] + start[0] * box["width"], box["y"] + start[1] * box["height"]
    finger = page.context.new_cdp_session(page)
    for m in range(9):
        points = [{"x": x + by[0] * m / 8, "y": y + by[1] * m / 8}]
        kind = "touchMove" if m else "touchStart"
        finger.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})
        page.evaluate(FRAME)
    finger.send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})
    page.evaluate(FRAME)


def test_scrolling_over_the_matrix_chooses_nothing(phone: Phone) -> None:
    page = phone(Explorer("gla", length=8))
    before = text(page, "reading")
    swipe(page, "matrix", (0.3, 0.9), (0, -200))
    assert page.evaluate("scrollY") > 50
    assert text(page, "reading") == before
    page.locator("[data-cd=matrix]").tap(position={"x": 40, "y": 110})
    page.evaluate(FRAME)
    assert text(page, "reading") != before


@pytest.mark.parametrize("kind", ["k", "q"])
def test_a_finger_drags_key_and_query(kind: str, phone: Phone) -> None:
    page = phone(Explorer("mamba2", panel="geometry"))
    handle = page.locator(f"[data-cd=handle-{kind}]")
    was, box = number(page, "row-sum"), handle.bounding_box()
    swipe(page, f"handle-{kind}", (0.5, 0.5), (30, -20))
    moved = handle.bounding_box()
    page_moved = page.evaluate("scrollY")
    assert moved["x"] - box["x"] == pytest.approx(30, abs=2)
    assert number(page, "row-sum") != was
    assert page.evaluate("location.hash").count(f"{kind}{'4' if kind == 'k' else '13'}=") == 1
    assert page.evaluate("scrollY") == page_moved


PICTURE = "document.querySelector('[data-cd=geometry]').toDataURL()"


def test_space_is_turned_by_a_finger_and_by_keys(phone: Phone) -> None:
    page = phone(Explorer("gla", panel="geometry", width=3))
    start = page.evaluate(PICTURE)
    swipe(page, "geometry", (0.3, 0.5), (90, 0))
    turned = page.evaluate(PICTURE)
    assert turned != start
    page.focus("[data-cd=geometry]")
    for _ in range(9):
        page.keyboard.press("ArrowLeft")
    page.evaluate(FRAME)
    assert page.evaluate(PICTURE) != turned
    assert page.get_attribute("[data-cd=geometry]", "aria-label").endswith("Arrow keys turn it.")


@pytest.mark.parametrize("points", [{"k4": [8.0, 8.0]}, {"q13": [-8.0, -8.0]}])
def test_a_handle_stays_on_its_figure(points: dict[str, list[float]], phone: Phone) -> None:
    page = phone(Explorer("gla", panel="geometry", points=points))
    field = page.locator("[data-cd=geometry]").bounding_box()
    for kind in ("k", "q"):
        box = page.locator(f"[data-cd=handle-{kind}]").bounding_box()
        x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
        assert field["x"] - 1 <= x <= field["x"] + field["width"] + 1
        assert field["y"] - 1 <= y <= field["y"] + field["height"] + 1
    assert page.evaluate("document.documentElement.scrollWidth") == PHONE[0]


SMALL = """() => [...document.querySelectorAll(".cdx :is(button, select, input)")].filter((e) => {
  const { width, height } = e.getBoundingClientRect();
  return e.checkVisibility() && e.type !== "checkbox" && Math.min(width, height) < 24;
}).map((e) => e.dataset.cd)"""


@pytest.mark.parametrize("panel", PANELS)
def test_every_button_of_a_panel_takes_a_finger(panel: str, phone: Phone) -> None:
    page = phone(Explorer("deltanet", tokens="random"))
    page.locator(f"[data-cd=panel-{panel}]").tap()
    page.wait_for_selector(f".cdx-panel-{panel} .cdx-control, .cdx-panel-{panel} canvas")
    assert page.evaluate(SMALL) == []
    inside = page.locator(f".cdx-panel-{panel} button:not(.cdx-handle)")
    for m in range(inside.count()):
        before = page.evaluate("location.hash")
        inside.nth(m).tap()
        page.evaluate(FRAME)
        assert page.evaluate("location.hash") != before


GROUND = "e => getComputedStyle(e.closest('.cdx-figure')).backgroundColor"
PANEL_COLOR = "rgb(246, 248, 250)"


def test_forced_colours_keep_pictures_readable_and_choices_visible(
    browser: Any, tmp_path: Path
) -> None:
    context = browser.new_context(forced_colors="active", color_scheme="dark")
    page = context.new_page()
    explorer = Explorer("gla", panel="inspect", morph_to="mlstm")
    page.goto(write_page(tmp_path, explorer))
    page.wait_for_selector("[data-cd=explorer]")
    assert page.eval_on_selector("[data-cd=matrix]", GROUND) == PANEL_COLOR
    paint = "e => getComputedStyle(e).backgroundColor"
    for chosen, other in (("preset-gla", "preset-mlstm"), ("panel-inspect", "panel-stability")):
        pair = [page.eval_on_selector(f"[data-cd={name}]", paint) for name in (chosen, other)]
        assert pair[0] != pair[1], chosen
    context.close()


#: A canvas has as many points as pixels; one that was just shown is drawn a few frames later.
SHARP = """([hook, scale]) => {
  const e = document.querySelector(hook);
  const off = (points, pixels) => Math.abs(points / pixels - scale);
  return off(e.width, e.clientWidth) < 0.05 && off(e.height, e.clientHeight) < 0.05;
}"""
FITS = "() => document.documentElement.scrollWidth - document.documentElement.clientWidth"


@pytest.mark.parametrize("scale", [2, 4])
def test_enlarged_pages_need_no_sideways_scrolling(
    scale: int, browser: Any, tmp_path: Path
) -> None:
    """1280 pixels at 200 and 400 per cent: what browser zoom makes of a page."""
    view = {"width": 1280 // scale, "height": 900 // scale}
    context = browser.new_context(viewport=view, device_scale_factor=scale)
    page = context.new_page()
    explorer = Explorer("mlstm", tokens="random", morph_to="gla", morph=0.3, duplicate=8)
    page.goto(write_page(tmp_path, explorer, ChunkView(), TrainingFilm.load("principle-3")))
    page.wait_for_selector("[data-cd=film]")
    for panel in PANELS:
        page.click(f"[data-cd=panel-{panel}]")
        page.evaluate(FRAME)
        assert page.evaluate(FITS) == 0, panel
    for hook in ("matrix", "geometry", "impulse", "film"):
        if hook == "impulse":  # the panel stands in its place
            page.click("[data-cd=panel-geometry]")
        page.wait_for_function(SHARP, arg=[f"[data-cd={hook}]", scale])
    context.close()
