"""Sentences that a page quotes from a chapter, word for word, with the place where they stand."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from docutils.nodes import make_id

from book.tools.chapters import BOOK

__all__ = ["Quote", "plain", "quote", "source", "title_of", "unlinked"]

RECORD = re.compile(r"^\s*%.*$", re.MULTILINE)
CODE = re.compile(r"^```\{code-cell\}.*?^```$", re.DOTALL | re.MULTILINE)
HEADING = re.compile(r"^#{1,3} (.+)$", re.MULTILINE)
LINK = re.compile(r"\[([^\]]*)\]\([^)]*\)")
ROLE = re.compile(r"\s*\{[a-z:]+\}`[^`]*`")
COLOUR = re.compile(r"\\(?:Evo|Sca|Rea|Nor)(?=[\s{\\])")


@dataclass(frozen=True, kw_only=True)
class Quote:
    """A sentence of a chapter.

    Args:
        text: as it stands there, in Markdown, on one line.
        address: of its section, from the top of the book.
        place: title of the chapter, and of the section where it is another.
    """

    text: str
    address: str
    place: str


@cache
def source(chapter: str) -> str:
    """The Markdown of a chapter such as ``architectures/gla``, without its code and its records.

    Raises:
        ValueError: for a chapter that the book lacks.
    """
    path = BOOK / f"{chapter}.md"
    if not path.exists():
        raise ValueError(f"{chapter}: the book has no such chapter; was it renamed?")
    return RECORD.sub("", CODE.sub("", Path(path).read_text(encoding="utf-8")))


def title_of(chapter: str) -> str:
    """The title of a chapter."""
    return HEADING.findall(source(chapter))[0]


def quote(chapter: str, words: str) -> Quote:
    """A sentence, or a part of one, with the section of the chapter that it stands in.

    Raises:
        ValueError: for words that the chapter does not contain, however its lines are broken.
    """
    text = source(chapter)
    spread = r"\s+".join(map(re.escape, words.split()))
    found = re.search(spread, text)
    if found is None:
        raise ValueError(f"{chapter} no longer says: {words}")
    title, *sections = HEADING.findall(text[: found.start()])
    page = f"{chapter}.html"
    if not sections:
        return Quote(text=words, address=page, place=title)
    address = f"{page}#{make_id(plain(sections[-1]))}"
    return Quote(text=words, address=address, place=f"{title}: {sections[-1]}")


def unlinked(text: str) -> str:
    """Markdown whose links are their words: an address does not hold on another page."""
    return LINK.sub(r"\1", text)


def plain(text: str) -> str:
    """A sentence without the book's links, roles, emphasis and colours; formulas stay TeX."""
    text = COLOUR.sub("", ROLE.sub("", unlinked(text))).replace("\\R^", "\\mathbb{R}^")
    return re.sub(r"(?<!\w)\*([^*]+)\*", r"\1", text).replace("`", "")
