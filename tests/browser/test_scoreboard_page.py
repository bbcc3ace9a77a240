"""The scoreboard: sorted by a task, filtered, and a chosen cell that says what it knows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from browser.conftest import Visit

pytestmark = pytest.mark.browser
Open = Callable[..., Visit]
PAGE = "scoreboard.html"
#: what two layers learn, and what one layer can do
BOARD, TABLE = ".cd-scoreboard:has(tfoot)", ".cd-scoreboard:not(:has(tfoot))"


def column(page: Any, task: str) -> list[float]:
    """The values of a task's column from top to bottom, of the rows that are seen."""
    return page.evaluate(
        """(task) => {
          const table = document.querySelector(".cd-scoreboard:has(tfoot) table");
          const heads = [...table.tHead.rows[0].cells].map((cell) => cell.innerText.trim());
          const lines = [...table.tBodies[0].rows].filter((line) => !line.hidden);
          return lines.map((line) => Number(line.cells[heads.indexOf(task)].dataset.value));
        }""",
        task,
    )


def test_a_task_sorts_down_and_then_up(visit: Open) -> None:
    seen = visit(PAGE)
    before = column(seen.page, "S3")
    button = seen.page.locator(f"{BOARD} thead button", has_text="S3")
    button.click()
    assert column(seen.page, "S3") == sorted(before, reverse=True) != before
    assert button.locator("..").get_attribute("aria-sort") == "descending"
    button.click()
    assert column(seen.page, "S3") == sorted(before)
    seen.whole()


def test_rows_and_forecasts_are_filtered(visit: Open) -> None:
    page = visit(PAGE).page
    every = len(column(page, "recall"))
    page.locator(f"{BOARD} select").first.select_option(index=2)  # every past token
    assert len(column(page, "recall")) == 1
    page.locator(f"{BOARD} select").first.select_option(index=0)
    assert len(column(page, "recall")) == every
    page.locator(f"{BOARD} select").last.select_option("wrong")
    bright = page.locator(f"{BOARD} tbody td:not([data-faint]):not(:last-child)")
    assert 0 < bright.count() == page.locator("td[data-came=wrong]").count()


def test_a_chosen_cell_shows_curves_reason_and_the_way_to_the_explorer(visit: Open) -> None:
    page = visit(PAGE).page
    chosen = page.locator(f"{BOARD} .cd-chosen")
    assert "Choose a cell" in chosen.inner_text()
    gated = page.locator(f"{BOARD} tbody tr", has_text="Gated DeltaNet")
    gated.locator("summary").nth(1).click()
    assert "overwrite, Gated DeltaNet" in chosen.inner_text()
    assert "The principles foretold: learns." in chosen.inner_text()
    assert chosen.locator("polyline").count() >= 4 and chosen.locator("svg").is_visible()
    gated.locator("summary").nth(0).press("Enter")
    assert "recall, Gated DeltaNet" in chosen.inner_text()
    chosen.get_by_role("link", name="Gated DeltaNet in the explorer").click()
    page.locator("[data-cd=explorer]").first.wait_for()
    assert "preset=gated_deltanet" in page.url


def test_a_chosen_cell_of_one_layer_shows_its_reason_and_its_curves(visit: Open) -> None:
    page = visit(PAGE).page
    chosen = page.locator(f"{TABLE} .cd-chosen")
    cell = page.locator(f"{TABLE} tbody tr", has_text="softmax attention").locator("summary").nth(0)
    assert "4 of 4" in cell.inner_text()
    cell.click()
    assert "recall, softmax attention: to a length" in chosen.inner_text()
    assert "4 of 4 seeds solved it" in chosen.inner_text() and chosen.locator("svg").is_visible()


@pytest.mark.parametrize("board", [BOARD, TABLE])
@pytest.mark.parametrize("size", [(360, 740), (1280, 720)])
def test_the_answer_of_a_cell_is_in_sight_beside_it(
    size: tuple[int, int], board: str, visit: Open
) -> None:
    page = visit(PAGE, width=size[0]).page
    page.set_viewport_size({"width": size[0], "height": size[1]})
    page.emulate_media(reduced_motion="reduce")
    below = page.locator(f"{board} ~ *, .bd-article section").last
    before = below.evaluate("(e) => e.getBoundingClientRect().bottom + scrollY")
    chosen = page.locator(f"{board} .cd-chosen")
    for row in ("softmax attention", "Gated DeltaNet"):
        line = page.locator(f"{board} tbody tr", has_text=row).first
        cell = line.locator("summary").first
        cell.click()
        seen, answer = cell.bounding_box(), chosen.bounding_box()
        assert seen["y"] > 0 and seen["y"] + seen["height"] <= answer["y"] + 1
        assert answer["y"] + answer["height"] <= size[1] + 1
    assert below.evaluate("(e) => e.getBoundingClientRect().bottom + scrollY") == before
    cell.click()
    assert page.locator(".cd-scoreboard[data-chosen]").count() == 0


def test_the_board_fits_its_column_and_scrolls_alone_on_a_phone(visit: Open) -> None:
    page = visit(PAGE).page
    box = page.locator(f"{BOARD} .cd-scroll")
    assert box.evaluate("(box) => box.scrollWidth <= box.clientWidth")
    page = visit(PAGE, width=360).page
    assert page.evaluate("() => document.documentElement.scrollWidth") <= 360


def test_without_scripts_cells_unfold_in_place(browser: Any, address: str) -> None:
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(address + PAGE)
    summary = page.locator(f"{BOARD} summary").first
    more = summary.locator("xpath=following-sibling::div")
    summary.click()
    assert more.is_visible() and "The principles foretold" in more.inner_text()
    context.close()
