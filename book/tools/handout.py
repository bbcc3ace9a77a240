"""The handout: four pages of A4, made of what the built chapters show.

    python -m book.tools.handout

prints them to `book/_build/pdf/handout.pdf`. `book/teaching/handout.yml` says which equation,
table, picture and questions a page has; the build puts the pages into `handout.html`, too. A
section, a sentence or a question that the book no longer has stops the build.
"""

from __future__ import annotations

import argparse
import posixpath
import re
import sys
from collections.abc import Mapping, Sequence
from copy import copy
from functools import cache
from pathlib import Path
from typing import Any

import yaml
from bs4 import BeautifulSoup, Tag

from book.tools import html as pages
from book.tools.chapters import BOOK, BUILD
from book.tools.pdf import printed
from book.tools.questions import items
from book.tools.quotes import plain, quote, title_of

__all__ = ["PDF", "printable", "setup", "sheets"]

TABLE = BOOK / "teaching" / "handout.yml"
PAGE = "handout.html"
PLACE = '<div data-cd="handout"></div>'
FOLDER = BUILD / "pdf"
PDF = FOLDER / "handout.pdf"
#: what each kind of thing on a sheet is in a page
KINDS = {"equation": "div.math", "table": "table", "picture": ".cell_output img"}
FOOT = "Coefficient Dynamics, the book. MIT licence."
PAPER = """<style>@page { size: A4; margin: 0; }
html, body { margin: 0; padding: 0; background: #fff; }
.cd-sheet { box-sizing: border-box; width: 210mm; height: 297mm; margin: 0; padding: 12mm 15mm;
  border: 0; }
</style>"""


def sheets(site: Path) -> str:
    """The four sheets, with addresses as a page at the top of `site` has them.

    Raises:
        ValueError: for what a page, or a chapter, does not have.
    """
    rows = yaml.safe_load(TABLE.read_text(encoding="utf-8"))
    return "\n".join(_sheet(site, row) for row in rows)


def _sheet(site: Path, row: Mapping[str, Any]) -> str:
    ((chapter, words),) = row["says"].items()
    said = quote(chapter, words)
    link = f'<a href="{said.address}">{plain(title_of(chapter))}</a>'
    equation, table, picture = (_found(site, row[kind], kind) for kind in KINDS)
    asked = "".join(_question(site, one) for one in row["questions"])
    return (
        f'<section class="cd-sheet"><h2>{row["title"]}</h2>'
        f"<p>{row['parts']}. {plain(said.text)} ({link})</p>{equation}"
        f'<div class="pst-scrollable-table-container">{table}</div>'
        f"<figure>{picture}<figcaption>{picture['alt']}</figcaption></figure>"
        f"<ol>{asked}</ol><footer>{FOOT}</footer></section>"
    )


def _found(site: Path, address: str, kind: str) -> Tag:
    """A copy of the first thing of a kind at an address, ``architectures/table1#the-table``."""
    page, _, name = address.partition("#")
    place = _page(site / f"{page}.html").find(id=name)
    chosen = KINDS[kind]
    if place is None:
        raise ValueError(f"handout: {page} has no section {name}")
    named = f'{chosen}[id="{name}"]'
    found = place.parent.select_one(named) if place.parent else None
    found = found or place.select_one(chosen)
    if found is None:
        raise ValueError(f"handout: {address} has no {kind}")
    return _moved(found, page)


def _question(site: Path, chapter: str) -> str:
    """What is asked and what may be answered, as a part of a list."""
    (number,) = [one.number for one in items() if one.chapter == chapter] or [0]
    page, name = ("concept_test", f"question-{number}") if number else (chapter, "exercises")
    place = _page(site / f"{page}.html").find(id=name)
    found = place and place.find_next("div", class_="selfcheck")
    if found is None:
        raise ValueError(f"handout: {page} asks nothing in {name}")
    box = _moved(found, page)
    asked = "".join(one.decode_contents() for one in box.find_all("p", recursive=False)[1:])
    listed = "".join(
        f"<li>{one.decode_contents()}</li>" for one in box.select("span.sd-summary-text")
    )
    return f"<li>{asked}<ol>{listed}</ol></li>"


def _moved(found: Tag, page: str) -> Tag:
    """A copy without names and what a screen alone has, with addresses from the top of the site."""
    out = copy(found)
    for gone in out.select("a.headerlink, .eqno, script, button"):
        gone.decompose()
    for one in [out, *out.find_all(True)]:
        one.attrs.pop("id", None)
        for part in {"href", "src"} & one.attrs.keys():
            one[part] = _from_top(page, str(one[part]))
    return out


def _from_top(page: str, address: str) -> str:
    if re.match(r"[a-z]+:", address):
        return address
    if address.startswith("#"):
        return f"{page}.html{address}"
    return posixpath.normpath(posixpath.join(posixpath.dirname(page), address))


@cache
def _page(path: Path) -> BeautifulSoup:
    return BeautifulSoup(path.read_text(encoding="utf-8"), "html.parser")


def add_handout(app: Any, error: Exception | None) -> None:
    """Put the sheets into their page, once Sphinx has written all pages."""
    page = Path(app.outdir) / PAGE
    if error is None and page.exists():
        text = page.read_text(encoding="utf-8")
        page.write_text(text.replace(PLACE, sheets(page.parent)), encoding="utf-8")


def setup(app: Any) -> dict[str, bool]:
    """Register with Sphinx."""
    app.connect("build-finished", add_handout)
    return {"parallel_read_safe": True}


def printable(site: Path) -> str:
    """The sheets alone, one a side, as a page that may lie anywhere on this machine."""
    page = _page(site / PAGE)
    styles = "".join(str(one) for one in page.select('link[rel="stylesheet"]'))
    body = "".join(str(one) for one in page.select("section.cd-sheet"))
    return (
        '<!DOCTYPE html><html lang="en" data-theme="light"><head><meta charset="utf-8">'
        f'<base href="{site.as_uri()}/"><title>Handout</title>{styles}{PAPER}</head>'
        f'<body><article class="bd-article">{body}</article></body></html>'
    )


def main(arguments: Sequence[str] | None = None) -> int:
    argparse.ArgumentParser(description="Print the four pages of the handout.").parse_args(
        arguments
    )
    if status := pages.main([]):
        return status
    FOLDER.mkdir(parents=True, exist_ok=True)
    single = PDF.with_suffix(".html")
    single.write_text(printable(pages.HTML), encoding="utf-8")
    if not printed(single, PDF):
        return 1
    print(f"the handout: {PDF.as_uri()}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
