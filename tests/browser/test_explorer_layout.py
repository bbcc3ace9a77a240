"""Control beside picture: one view on a desktop, the picture in sight on a phone, no shift."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from browser.explorer_pages import (  # noqa: F401
    Open,
    open_page,
    phone,
    press,
    settle,
    slide,
    text,
    write_page,
)

from coefdyn.widgets import Explorer

pytestmark = pytest.mark.browser

VIEW = 852  # pixels of a 1440 x 900 window that the book's header leaves
BOXES = """(hooks) => {
  const top = document.querySelector(".cdx").getBoundingClientRect().top;
  return hooks.map((hook) => {
    const { top: y, bottom, left, right } = document.querySelector(hook).getBoundingClientRect();
    return [y - top, bottom - top, left, right];
  });
}"""
CARDS = [f".cdx-card-{name}" for name in ("evolution", "scaling", "readout", "normalizer")]
PICTURES = ["[data-cd=matrix]", "[data-cd=answer]", "[data-cd=plane]", "[data-cd=readout]"]


@pytest.mark.parametrize("row", ["gated_deltanet", "softmax_attention", "gla", "mlstm"])
def test_pictures_and_all_four_cards_are_in_one_view(row: str, open_page: Open) -> None:
    page = open_page(Explorer(row), width=1122)
    boxes = page.evaluate(BOXES, [*PICTURES, *CARDS])
    assert max(bottom for _, bottom, *_ in boxes) <= VIEW
    assert min(left for _, _, left, _ in boxes[4:]) > max(right for *_, right in boxes[:4])


@pytest.mark.parametrize("panel", ["inspect", "stability", "positions", "geometry"])
def test_a_panel_takes_the_place_of_small_figures(panel: str, open_page: Open) -> None:
    page = open_page(Explorer("mlstm", morph_to="gla", tokens="random"), width=1122)
    hooks = ["[data-cd=matrix]", "[data-cd=answer]", *CARDS]
    before = page.evaluate(BOXES, hooks)
    press(page, f"panel-{panel}")
    assert page.is_hidden("[data-cd=plane]")
    assert page.locator(f".cdx-panel-{panel}").is_visible()
    assert page.evaluate(BOXES, hooks) == before
    press(page, f"panel-{panel}")
    assert page.is_visible("[data-cd=plane]")


SMALL_TARGETS = """() => [...document.querySelectorAll(
    ".cdx-card :is(select, input, button, summary), .cdx-tab, .cdx-chip, .cdx-button, .cdx-stop")]
  .filter((e) => e.checkVisibility() && e.type !== "checkbox")
  .filter((e) => e.getBoundingClientRect().height < 44).map((e) => e.dataset.cd || e.className)"""


@pytest.mark.parametrize("card", ["evolution", "scaling", "readout", "normalizer"])
def test_on_a_phone_the_picture_stays_while_a_card_is_used(card: str, phone: Any) -> None:
    page = phone(Explorer("mlstm"))
    page.locator(f"[data-cd=tab-{card}]").tap()
    settle(page)
    shown = "n => n.filter(e => e.checkVisibility()).map(e => e.dataset.ingredient)"
    assert page.eval_on_selector_all("fieldset.cdx-card", shown) == [card]
    assert page.evaluate(SMALL_TARGETS) == []
    last = page.locator(f".cdx-card-{card} .cdx-control:visible").last
    page.evaluate("scrollTo(0, document.querySelector('[data-cd=seen]').offsetTop + 60)")
    settle(page)
    seen = page.locator("[data-cd=seen]").bounding_box()
    assert -1 <= seen["y"] <= 1
    assert 120 <= seen["height"] <= 200
    for hook in ("matrix", "answer-words"):
        box = page.locator(f"[data-cd={hook}]").bounding_box()
        assert box["y"] >= 0
        assert box["y"] + box["height"] <= seen["height"] + 1
    assert last.bounding_box()["y"] > seen["height"]


def test_nothing_shifts_while_a_slider_moves(open_page: Open) -> None:
    page = open_page(Explorer("gated_deltanet"), width=1122)
    tops = "() => [...document.querySelectorAll('.cdx-figure, .cdx-card')].map(e => e.offsetTop)"
    before = page.evaluate(tops)
    for value in (0.5, 1.1, 0.31):
        slide(page, "decay", value)
        assert page.evaluate(tops) == before, value


@pytest.mark.parametrize(("window", "widest"), [(1440, 1090), (1024, 760), (360, 328)])
def test_in_a_chapter_s_column_it_takes_the_room_on_the_right(
    window: int, widest: int, browser: Any, tmp_path: Path
) -> None:
    page = browser.new_page(viewport={"width": window, "height": 900})
    address = write_page(tmp_path, Explorer("gla"))
    file = tmp_path / "page.html"
    column = "main{width:min(688px,100%);margin-left:min(300px,calc(100vw - 328px - 32px))}"
    if window < 700:
        column = ""
    html = file.read_text(encoding="utf-8").replace("</head>", f"<style>{column}</style></head>")
    file.write_text(html, encoding="utf-8")
    page.goto(address)
    page.wait_for_selector("[data-cd=explorer]")
    settle(page)
    width = page.evaluate("document.querySelector('.coefdyn-widget').getBoundingClientRect().width")
    assert width <= widest
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    wide = page.get_attribute(".coefdyn-widget", "data-cd-breakout") == "true"
    assert wide is (window == 1440)
    assert page.evaluate("document.documentElement.hasAttribute('data-cd-wide')") is wide
    page.close()


@pytest.mark.parametrize("width", [1122, 760])
def test_the_box_shows_all_that_was_told_and_asked(width: int, open_page: Open) -> None:
    page = open_page(Explorer("gla"), width=width)
    sizes = "e => [e.scrollWidth, e.clientWidth]"
    needed, shown = page.eval_on_selector("[data-cd=control-text]", sizes)
    assert needed <= shown
