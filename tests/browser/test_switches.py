"""Ideas or Code, whose symbols, and Present."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from browser.conftest import Visit

pytestmark = pytest.mark.browser
Open = Callable[..., Visit]
CHAPTER = "architectures/mamba2.html"
PHONE = 360
CODE = ".bd-article details.cd-says .highlight"
#: Code of cells, folded by its author or not, and what cells print.
WRITTEN = ".bd-article div.cell :is(.cell_input, summary:has(~ .cell_input), .output.stream)"


def test_ideas_has_no_code_and_no_prints_and_is_remembered(visit: Open) -> None:
    page = visit(CHAPTER).page

    def written() -> int:
        shown = "(all) => all.filter((e) => e.checkVisibility()).length"
        return page.locator(WRITTEN).evaluate_all(shown)

    assert written() > 10
    before = page.evaluate("() => document.body.scrollHeight")
    page.locator("input[name=cd-reading][value=ideas]").check(force=True)
    assert written() == 0
    assert page.evaluate("() => document.body.scrollHeight") < 0.9 * before
    assert page.locator("div.cell_output img").first.is_visible()
    page.reload()
    assert page.locator("input[name=cd-reading][value=ideas]").is_checked()
    assert written() == 0


def test_code_that_only_shows_is_folded_either_way(visit: Open) -> None:
    page = visit("principles/principle_2.html").page
    shows = page.locator("details.cd-shows")
    assert shows.count() >= 2
    for number in range(shows.count()):
        assert not shows.nth(number).locator(".highlight").first.is_visible()
    code = page.locator(CODE).all_inner_texts()
    assert any("assert" in text for text in code)


def test_no_code_flashes_up_for_a_reader_of_ideas(visit: Open) -> None:
    """The choice is known before the first paint, in the head of the page."""
    page = visit(CHAPTER).page
    page.locator("input[name=cd-reading][value=ideas]").check(force=True)
    page.route("**/reading.js*", lambda route: route.abort())
    page.reload()
    assert not page.locator(CODE).first.is_visible()


def test_the_symbols_switch_says_what_it_leaves(visit: Open) -> None:
    page = visit(CHAPTER, width=PHONE).page
    assert page.get_by_text("Symbols", exact=True).is_visible()
    told = page.locator("[data-cd=left-out]")
    assert not told.is_visible()
    page.select_option("[data-cd=convention]", "mamba")
    assert told.is_visible()
    words = told.inner_text()
    rewritten, count = map(int, re.findall(r"\d+", words)[:2])
    assert 0 < rewritten < count == page.locator(".bd-article math").count()
    assert "read C for q" in words
    page.select_option("[data-cd=convention]", "paper")
    assert not told.is_visible()
