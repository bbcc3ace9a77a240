"""Markdown elements of the book's generated pages."""

from __future__ import annotations

import html
import re
from collections.abc import Sequence

__all__ = ["plain", "table"]

#: characters that Markdown interprets; an underscore inside a word is not one of them
MARKUP = re.compile(r"([\\`*{}\[\]$]|(?<!\w)_|_(?!\w))")


def plain(words: str) -> str:
    """Escape words from a file so that Markdown shows them unchanged: no HTML, no markup."""
    return MARKUP.sub(r"\\\1", html.escape(words, quote=False))


def table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Format a Markdown table; bars inside cells are escaped."""

    def line(cells: Sequence[str]) -> str:
        return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"

    return "\n".join([line(heads), "|---" * len(heads) + "|", *map(line, rows)])
