"""Links of the chapters that set the explorer name settings that exist and are in range."""

from __future__ import annotations

import html
import re
from pathlib import Path
from urllib.parse import parse_qsl

import pytest

from coefdyn.widgets import settings as rules

BOOK = Path(__file__).resolve().parents[2] / "book"
#: the figure that trains (#cd-train) has settings of its own, held to them in a browser
LINK = re.compile(r'href="#cd(?!-train\?)(?:-[\w-]+)?\?([^"{}]*)"')


def links() -> list[tuple[str, str]]:
    """(chapter, query) of every link, chapters by their path below the book."""
    found = []
    for path in sorted(BOOK.glob("*/*.md")):
        name = path.relative_to(BOOK).with_suffix("").as_posix()
        found += [(name, html.unescape(query)) for query in LINK.findall(path.read_text("utf-8"))]
    return found


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


@pytest.mark.parametrize(("chapter", "query"), links())
def test_link_names_settings_that_exist(chapter: str, query: str) -> None:
    asked = settings_of(query)
    complete = rules.validate(asked)
    kept = {key: complete[key] for key in asked if key not in ("preset", "column", "row")}
    assert kept == {key: value for key, value in asked.items() if key in kept}, chapter
