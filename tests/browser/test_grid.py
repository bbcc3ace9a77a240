"""The grid of A_t and phi in "Rows since Table 1", clicked cell by cell."""

from __future__ import annotations

import html
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

import pytest
from passed import of_page

from coefdyn.mixers import MIXERS, ROWS_SINCE
from coefdyn.widgets import Explorer

pytestmark = pytest.mark.browser

PAGE = "design/rows.html"
CELLS = ".cd-grid td a"
NAMED = f"{CELLS}:not([href^='#cd'])"
EMPTY = f"{CELLS}[href^='#cd']"
LINKS = "links => links.map(a => [a.textContent, a.href])"
#: what a chapter calls a row whose title it does not use word for word
CALLED = {
    "Sliding-window attention": "sliding window",
    "Attention with sinks": "sink",
    "Gated DeltaProduct": "DeltaProduct",
}
KINDS = ("structure", "scaling", "readout", "normalizer")
#: whether the explorer shows these kinds and this sum of the chosen row
AT_DESIGN = """([kinds, sum]) => {
  const find = (hook) => document.querySelector(`[data-cd=${hook}]`);
  const shown = Number(find("row-sum").dataset.value);
  return Object.entries(kinds).every(([key, kind]) => find(`control-${key}`).value === kind)
    && Math.abs(shown - sum) <= 1e-9 * Math.max(1, Math.abs(sum));
}"""
IN_SIGHT = """() => {
  const box = document.querySelector("[data-cd=explorer]").getBoundingClientRect();
  return box.top < innerHeight && box.bottom > 0;
}"""

Open = Callable[..., Any]


def test_every_filled_cell_leads_to_its_row(browser: Any, address: str, site: Path) -> None:
    """To the chapter that tells of it, or where there is none to its paper: links, which need no
    script. One is clicked; what the others lead to is read from its file."""
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(address + PAGE)
    links = page.eval_on_selector_all(NAMED, LINKS)
    titles = [form.symbols.title for form in (MIXERS | ROWS_SINCE).values()]
    assert sorted(name for name, _ in links) == sorted(titles)
    papers = [href for _, href in links if not href.startswith(address)]
    assert all(re.fullmatch(r"https://arxiv\.org/abs/\d{4}\.\d{5}", href) for href in papers)
    chapters = list(dict.fromkeys(href for _, href in links if href.startswith(address)))
    assert len(chapters) >= 10
    page.locator(f"{NAMED}[href$='{chapters[0].rpartition('/')[2]}']").first.click()
    page.wait_for_url(chapters[0])
    context.close()
    for href in chapters:
        text = (site / href.removeprefix(address).partition("#")[0]).read_text(encoding="utf-8")
        words = html.unescape(re.sub(r"<[^>]+>", "", text.partition("<article")[2])).lower()
        names = [CALLED.get(name, name.split(" (")[0]) for name, there in links if there == href]
        assert [name for name in names if name.lower() not in words] == [], href


NIGHTLY = pytest.mark.nightly("every fourth cell on a phone")


@pytest.mark.reads(of_page(PAGE.removesuffix(".html")))
@pytest.mark.dear("empty cells are clicked, and the explorer moves to their designs")
@pytest.mark.parametrize(("width", "one_in"), [(390, 4), pytest.param(1280, 1, marks=NIGHTLY)])
def test_an_empty_cell_opens_the_explorer_at_its_design(
    width: int, one_in: int, visit: Open
) -> None:
    """A design that no row of the tables has, with the library's numbers, and in sight."""
    page = visit(PAGE, width=width).page
    hrefs = [href for _, href in page.eval_on_selector_all(EMPTY, LINKS)]
    assert len(hrefs) == len(set(hrefs)) > 10
    for at, href in enumerate(hrefs):
        if at % one_in:
            continue
        wanted = dict(parse_qsl(href.partition("?")[2]))
        page.locator(EMPTY).nth(at).click()
        kinds = {key: wanted[key] for key in KINDS}
        page.wait_for_function(AT_DESIGN, arg=[kinds, Explorer(**wanted).shown().row_sum])
        assert page.inner_text("[data-cd=design-words]").startswith("Own design"), href
        page.wait_for_function(IN_SIGHT)  # the way there takes a moment
