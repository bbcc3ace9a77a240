"""The book in other places: a folder on a disk, another site's frame, an address without a page."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from browser.conftest import Visit
from browser.test_pages import BOOK, FOUND, LISTED

pytestmark = pytest.mark.browser
Open = Callable[..., Visit]


def test_the_book_in_a_folder_is_searched_and_shown(visit: Open, site: Path) -> None:
    """As one folder, opened from a disk, where no excerpt can be fetched."""
    home = site.as_uri() + "/"
    page = visit("search.html?q=delta+rule", base=home).page
    page.wait_for_function(LISTED)
    assert page.evaluate(FOUND)[0].endswith("architectures/deltanet")
    page = visit("demonstrations.html", base=home).page
    page.click("a[href='index.html#deck=1']")
    page.wait_for_selector("[data-cd=slide-place]:text-is('1 of 8')")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    page.wait_for_selector("[data-cd=slide-place]:text-is('2 of 8')")


def test_figures_work_in_a_frame_without_storage(visit: Open, address: str) -> None:
    """As course platforms embed a page: asking for storage throws there."""
    page = visit("start.html").page
    page.set_content(
        f'<iframe sandbox="allow-scripts" src="{address}index.html" width=1200 height=800></iframe>'
    )
    frame = page.frame_locator("iframe")
    stop = frame.locator("[data-cd=stop-softmax_attention]").first
    stop.click()
    frame.locator("[data-cd=stop-softmax_attention][aria-current=step]").first.wait_for()


def test_a_missing_page_leads_back(visit: Open, address: str) -> None:
    """A server shows the page under any address."""
    page = visit("start.html").page
    text = (BOOK / "assets" / "extra" / "404.html").read_text(encoding="utf-8")
    page.route("**/lost.html", lambda route: route.fulfill(body=text, content_type="text/html"))
    for path in ("lost.html", "principles/lost.html"):
        page.goto(address + path)
        links = page.eval_on_selector_all("a", "all => all.map((a) => a.href)")
        assert links == [f"{address}index.html", f"{address}genindex.html"]
        assert page.locator("form").evaluate("(form) => form.action") == f"{address}search.html"
