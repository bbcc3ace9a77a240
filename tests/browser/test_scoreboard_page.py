"""The scoreboard: sorted by a task, filtered, and a chosen cell that says what it knows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from browser.conftest import Visit

pytestmark = pytest.mark.browser
Open = Callable[..., Visit]
PAGE = "scoreboard.html"


def column(page: Any, task: str) -> list[float]:
    """The values of a task's column from top to bottom, of the rows that are seen."""
    return page.evaluate(
        """(task) => {
          const table = document.querySelector(".cd-scoreboard:has(.cd-chosen) table");
          const heads = [...table.tHead.rows[0].cells].map((cell) => cell.innerText.trim());
          const lines = [...table.tBodies[0].rows].filter((line) => !line.hidden);
          return lines.map((line) => Number(line.cells[heads.indexOf(task)].dataset.value));
        }""",
        task,
    )


def test_a_task_sorts_down_and_then_up(visit: Open) -> None:
    seen = visit(PAGE)
    before = column(seen.page, "S3")
    button = seen.page.locator(".cd-scoreboard:has(.cd-chosen) thead button", has_text="S3")
    button.click()
    assert column(seen.page, "S3") == sorted(before, reverse=True) != before
    assert button.locator("..").get_attribute("aria-sort") == "descending"
    button.click()
    assert column(seen.page, "S3") == sorted(before)
    seen.whole()


def test_rows_and_forecasts_are_filtered(visit: Open) -> None:
    page = visit(PAGE).page
    every = len(column(page, "recall"))
    page.locator(".cd-scoreboard:has(.cd-chosen) select").first.select_option(
        index=2
    )  # every past token
    assert len(column(page, "recall")) == 1
    page.locator(".cd-scoreboard:has(.cd-chosen) select").first.select_option(index=0)
    assert len(column(page, "recall")) == every
    page.locator(".cd-scoreboard:has(.cd-chosen) select").last.select_option("wrong")
    bright = page.locator(
        ".cd-scoreboard:has(.cd-chosen) tbody td:not([data-faint]):not(:last-child)"
    )
    assert 0 < bright.count() == page.locator("td[data-came=wrong]").count()


def test_a_chosen_cell_shows_curves_reason_and_the_way_to_the_explorer(visit: Open) -> None:
    page = visit(PAGE).page
    chosen = page.locator(".cd-chosen")
    assert "Choose a cell" in chosen.inner_text()
    gated = page.locator(".cd-scoreboard:has(.cd-chosen) tbody tr", has_text="Gated DeltaNet")
    gated.locator("summary").nth(1).click()
    assert "overwrite, Gated DeltaNet" in chosen.inner_text()
    assert "The principles foretold: learns." in chosen.inner_text()
    assert chosen.locator("polyline").count() >= 4 and chosen.locator("svg").is_visible()
    gated.locator("summary").nth(0).press("Enter")
    assert "recall, Gated DeltaNet" in chosen.inner_text()
    chosen.get_by_role("link", name="Gated DeltaNet in the explorer").click()
    page.locator("[data-cd=explorer]").first.wait_for()
    assert "preset=gated_deltanet" in page.url


@pytest.mark.parametrize("size", [(360, 740), (1280, 720)])
def test_the_answer_of_a_cell_is_in_sight_beside_it(size: tuple[int, int], visit: Open) -> None:
    page = visit(PAGE, width=size[0]).page
    page.set_viewport_size({"width": size[0], "height": size[1]})
    page.emulate_media(reduced_motion="reduce")
    below = page.locator(".cd-scoreboard:has(.cd-chosen) ~ *, .bd-article section").last
    before = below.evaluate("(e) => e.getBoundingClientRect().bottom + scrollY")
    for row in ("softmax attention", "Gated DeltaNet"):
        cell = (
            page.locator(".cd-scoreboard:has(.cd-chosen) tbody tr", has_text=row)
            .first.locator("summary")
            .first
        )
        cell.click()
        seen, chosen = cell.bounding_box(), page.locator(".cd-chosen").bounding_box()
        assert seen["y"] > 0 and seen["y"] + seen["height"] <= chosen["y"] + 1
        assert chosen["y"] + chosen["height"] <= size[1] + 1
    assert below.evaluate("(e) => e.getBoundingClientRect().bottom + scrollY") == before
    cell.click()
    assert page.locator(".cd-scoreboard[data-chosen]").count() == 0


def test_the_board_fits_its_column_and_scrolls_alone_on_a_phone(visit: Open) -> None:
    page = visit(PAGE).page
    box = page.locator(".cd-scoreboard:has(.cd-chosen) .cd-scroll")
    assert box.evaluate("(box) => box.scrollWidth <= box.clientWidth")
    page = visit(PAGE, width=360).page
    assert page.evaluate("() => document.documentElement.scrollWidth") <= 360


def test_without_scripts_cells_unfold_in_place(browser: Any, address: str) -> None:
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(address + PAGE)
    summary = page.locator(".cd-scoreboard:has(.cd-chosen) summary").first
    more = summary.locator("xpath=following-sibling::div")
    summary.click()
    assert more.is_visible() and "The principles foretold" in more.inner_text()
    context.close()
