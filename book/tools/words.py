"""Words of each chapter and the minutes that they take: `make words`.

Words are those of the source without code cells, formulas and comments; tables, folds and exercises
count. A chapter's reading time is that of its text before the exercises, at 230 words a minute, and
of the code that stands open, at 20 lines a minute.
"""

from __future__ import annotations

import argparse
import re
import sys
from dataclasses import dataclass
from pathlib import Path

from book.tools.chapters import BOOK, read

__all__ = ["Reading", "pages", "reading"]

WORDS_A_MINUTE, LINES_A_MINUTE = 230, 20
#: words of the book at most, and of a page by the beginning of its name
MOST = 75_000
MOST_OF = {"principles/principle_4": 2800, "architectures/": 2000, "principles/": 2100,
           "second_view/spectra": 3000, "evidence": 2500}  # fmt: skip

HEAD = re.compile(r"\A---\n.*?^---\n", re.DOTALL | re.MULTILINE)
CELL = re.compile(r"^(`{3,})\{code-cell\}[^\n]*\n(.*?)^\1$", re.DOTALL | re.MULTILINE)
OPTIONS = re.compile(r"\A(?:---\n.*?^---\n|(?::[^\n]*\n)+)", re.DOTALL | re.MULTILINE)
FOLDED = re.compile(r"\b(?:hide|remove)-(?:cell|input)\b")
NO_WORDS = re.compile(
    r"\$\$.*?\$\$|\$[^$\n]*\$|^(`{3,})\{math\}.*?^\1$|^%[^\n]*$", re.DOTALL | re.MULTILINE
)
EXERCISES = re.compile(r"^## Exercises$", re.MULTILINE)
TIME = re.compile(r"\*\*Reading\s+time\.\*\*\s+(\d+)\s+minutes")


@dataclass(frozen=True, kw_only=True)
class Reading:
    """A page's words, the minutes they take before its exercises, and the minutes it names."""

    name: str
    words: int
    minutes: int
    named: int | None

    @property
    def most(self) -> int | None:
        """Words that the page may have."""
        return next((most for start, most in MOST_OF.items() if self.name.startswith(start)), None)


def count(text: str) -> int:
    """Words of Markdown without code cells, formulas and comments."""
    return len(NO_WORDS.sub(" ", CELL.sub("", text)).split())


def reading(name: str, text: str) -> Reading:
    """What a page's source says and takes."""
    text = HEAD.sub("", text, count=1)
    before = EXERCISES.split(text)[0]
    cells = [cell for _, cell in CELL.findall(before) if not FOLDED.search(cell)]
    lines = sum(len(OPTIONS.sub("", cell, count=1).split("\n")) - 1 for cell in cells)
    named = TIME.search(text)
    return Reading(
        name=name,
        words=count(text),
        minutes=max(1, round(count(before) / WORDS_A_MINUTE + lines / LINES_A_MINUTE)),
        named=int(named[1]) if named else None,
    )


def pages(book: Path = BOOK) -> list[Reading]:
    """Every page of the book but those of the reference."""
    paths = (path for path in sorted(book.rglob("*.md")) if "_build" not in path.parts)
    named = ((path.relative_to(book).with_suffix("").as_posix(), path) for path in paths)
    return [
        reading(name, read(path))
        for name, path in named
        if not name.startswith(("api/", "assets/", "tools/"))
    ]


def main(arguments: list[str] | None = None) -> int:
    """Print the words; 1 if a page or the book has more than it may."""
    argparse.ArgumentParser(description="Words and reading times.").parse_args(arguments)
    found = pages()
    over = 0
    for one in found:
        beyond = one.most is not None and one.words > one.most
        over += beyond
        told = f"  (says {one.named})" if one.named not in (None, one.minutes) else ""
        limit = f"  more than {one.most}" if beyond else ""
        print(f"{one.name:40}{one.words:7}{one.minutes:5} min{told}{limit}")
    total = sum(one.words for one in found)
    print(f"{'the book':40}{total:7}{sum(one.minutes for one in found):5} min")
    if total > MOST:
        print(f"more than {MOST} words")
    return 1 if over or total > MOST else 0


if __name__ == "__main__":
    sys.exit(main())
