"""The joined page that `make pdf` prints: every chapter, every link, nothing that needs scripts."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

from book.tools import pdf

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
