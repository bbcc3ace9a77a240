"""The joined page that `make pdf` prints: every chapter, every link, nothing that needs scripts."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from book.tools import handout, pdf

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def text(site: Path) -> str:
    return pdf.joined(site)


def test_every_page_of_the_contents_is_there_once(text: str) -> None:
    pages = [page for _, listed in pdf.reading_order() for page in listed]
    assert text.count('<article class="bd-article bd-content"') == len(pages)
    assert "<script" not in text


def test_links_between_pages_lead_within(text: str, site: Path) -> None:
    ids = Counter(re.findall(r'\sid="([^"]+)"', text))
    assert [name for name, count in ids.items() if count > 1] == []
    inner = set(re.findall(r'href="#([^"]*)"', text))
    assert sorted(inner - set(ids)) == []
    assert len(inner) > 100


def test_pictures_and_styles_are_found(text: str, site: Path) -> None:
    paths = set(re.findall(r'(?:src|href)="\.\./html/([^"?#]+)', text))
    assert [path for path in paths if not (site / path).exists()] == []
    assert sum(path.endswith(".png") for path in paths) > 50


def test_folds_are_open_and_explorers_have_their_stills(text: str) -> None:
    assert re.findall(r"<details(?! open)", text) == []
    assert text.count('class="cd-still"') > 20
    assert "widget-view" not in text


def test_a_browser_prints_it(site: Path, tmp_path: Path) -> None:
    try:
        pdf.find_chromium()
    except FileNotFoundError as error:
        pytest.skip(str(error))
    few = tmp_path / "few.html"
    few.write_text("<h1>Coefficient Dynamics</h1><p style='break-before:page'>2", encoding="utf-8")
    target = tmp_path / "few.pdf"
    pdf.print_to_pdf(few, target)
    assert target.read_bytes().startswith(b"%PDF-")
    assert len(re.findall(rb"/Type /Page\b", target.read_bytes())) == 2


#: how far below and beside a sheet's own margins its last thing ends, in pixels
CUT_OFF = """(sheet) => {
  const box = sheet.getBoundingClientRect();
  const inner = parseFloat(getComputedStyle(sheet).paddingBottom);
  const parts = [...sheet.querySelectorAll("*")].map((one) => one.getBoundingClientRect());
  return Math.max(...parts.map((one) => Math.max(one.bottom - box.bottom, one.right - box.right)))
    + inner;
}"""


def test_the_handout_is_four_pages_of_which_nothing_is_cut_off(
    site: Path, tmp_path: Path, browser: Any
) -> None:
    single, target = tmp_path / "handout.html", tmp_path / "handout.pdf"
    single.write_text(handout.printable(site), encoding="utf-8")
    page = browser.new_page()
    page.emulate_media(media="print")
    page.goto(single.as_uri())
    for picture in page.locator(".cd-sheet img").element_handles():
        page.wait_for_function("(e) => e.complete && e.naturalWidth > 0", arg=picture)
    sheets = page.locator(".cd-sheet")
    assert sheets.count() == 4
    assert [one for one in (sheets.nth(n).evaluate(CUT_OFF) for n in range(4)) if one > 0] == []
    for part, number in (("math", 4), ("table", 4), ("figure img", 4), ("ol ol", 12)):
        assert page.locator(f".cd-sheet {part}").count() >= number, part
    page.close()
    pdf.print_to_pdf(single, target)
    printed = target.read_bytes()
    assert len(re.findall(rb"/Type /Page\b", printed)) == 4
    assert {*re.findall(rb"/MediaBox \[0 0 (\d+)[\d.]* (\d+)", printed)} <= {
        (b"595", b"842"),
        (b"594", b"841"),
    }
