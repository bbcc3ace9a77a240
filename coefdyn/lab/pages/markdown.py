"""Markdown that the book's generated pages are written in."""

from __future__ import annotations

import html
import re
from collections.abc import Sequence

__all__ = ["folded", "plain", "table"]

#: what Markdown would obey; an underscore inside a word is none of it
MARKUP = re.compile(r"([\\`*{}\[\]$]|(?<!\w)_|_(?!\w))")


def plain(words: str) -> str:
    """Words from a file as Markdown that shows them as they are: no HTML, no markup."""
    return MARKUP.sub(r"\\\1", html.escape(words, quote=False))


def table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table; a bar inside a cell is written out, so that it ends no column."""

    def line(cells: Sequence[str]) -> str:
        return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"

    return "\n".join([line(heads), "|---" * len(heads) + "|", *map(line, rows)])


def folded(title: str, body: str) -> str:
    """Markdown that a page shows closed, behind its title."""
    return f":::{{dropdown}} {title}\n{body}\n:::"
