"""No page is heavy; what a page weighs is read from its files."""

from __future__ import annotations

from pathlib import Path

import pytest
from browser.weights import MOST_KILOBYTES, pages_below, weigh

pytestmark = pytest.mark.browser


def test_no_page_is_heavier_than_the_book_allows(site: Path) -> None:
    weights = {page.relative_to(site).as_posix(): weigh(page).kB for page in pages_below(site)}
    assert len(weights) > 40
    assert {page: kB for page, kB in weights.items() if kB > MOST_KILOBYTES} == {}
