"""Links of chapters and of their tables name settings that exist and are in range."""

from __future__ import annotations

import html
import json
import re
from pathlib import Path
from urllib.parse import parse_qsl

import pytest

from coefdyn.widgets import settings as rules

BOOK = Path(__file__).resolve().parents[2] / "book"
#: the figure that trains (#cd-train) has settings of its own, held to them in a browser
LINK = re.compile(r'href="#cd(?!-train\?)(?:-[\w-]+)?\?([^"{}]*)"')

TABLED = re.compile(r'href=\\?"#cd\?([^"\\]*)')


def links() -> list[tuple[str, str]]:
    """(chapter, query) of every link, chapters by their path below the book."""
    found = []
    for path in sorted(BOOK.glob("*/*.md")):
        name = path.relative_to(BOOK).with_suffix("").as_posix()
        found += [(name, html.unescape(query)) for query in LINK.findall(path.read_text("utf-8"))]
    return found


def written() -> list[tuple[str, str]]:
    """The same of the links that cells write into their tables, from the executed chapters."""
    found = []
    for path in sorted(BOOK.glob("*/*.ipynb")):
        cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
        outputs = json.dumps([cell.get("outputs") for cell in cells], ensure_ascii=False)
        name = path.relative_to(BOOK).as_posix()
        found += [(name, query) for query in TABLED.findall(html.unescape(outputs))]
    return sorted(set(found))


def settings_of(query: str) -> dict[str, object]:
    """Settings in a query, with their types."""
    schema = rules.schema()

    def typed(key: str, value: str) -> object:
        if key in schema["integers"]:
            return int(value)
        if key in schema["ranges"]:
            return float(value)
        return value == "true" if key in schema["flags"] else value

    points = re.compile(r"[qk]\d+")
    pairs = parse_qsl(query, strict_parsing=True)
    return {key: typed(key, value) for key, value in pairs if not points.fullmatch(key)}


def test_there_are_links() -> None:
    assert len(links()) >= 20


def test_tables_have_links() -> None:
    assert {name for name, _ in written()} >= {"architectures/table1.ipynb", "design/rows.ipynb"}


@pytest.mark.parametrize(("chapter", "query"), [*links(), *written()])
def test_link_names_settings_that_exist(chapter: str, query: str) -> None:
    asked = settings_of(query)
    complete = rules.validate(asked)
    kept = {key: complete[key] for key in asked if key not in ("preset", "column", "row")}
    assert kept == {key: value for key, value in asked.items() if key in kept}, chapter
