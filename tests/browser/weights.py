"""Size of each page of the built book, read from its files: no browser is needed.

A page loads itself, the style sheets and scripts that its HTML names, and fonts. Every face of a
font that has the letter "a" is loaded, because a page asks for its fonts before it is drawn; any
other (Greek) where the page's text has a letter of it, or where it has figures, whose labels stand
in scripts: that is 19 kB too much for a page whose figures have no such label. Pictures do not
count. Sizes are those of the files, so nothing is compressed on the way.
`test_still.py` holds this against what a browser loads.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

__all__ = ["MOST_KILOBYTES", "Weight", "pages_below", "weigh"]

#: The book's limit for a page without its pictures, uncompressed.
MOST_KILOBYTES = 1200

FACE = re.compile(r"@font-face\s*\{([^}]*)\}")
FAMILY = re.compile(r"""font-family:\s*["']?([^"';]+)""")
ADDRESS = re.compile(r"""url\(["']?(?!data:)([^"')]+)""")
RANGE = re.compile(r"U\+([0-9A-F]+)(?:-([0-9A-F]+))?", re.IGNORECASE)
MONOSPACED = "JetBrains Mono"
FIGURE = "application/vnd.jupyter.widget-view+json"
#: Elements whose text is drawn with a font of its own, or not at all.
ELSEWHERE = ("math", "script", "style", "title", "noscript", "svg")
CODE = ("code", "pre", "kbd", "samp")


@dataclass(frozen=True)
class Weight:
    """Kilobytes (1000 bytes) of a page by kind."""

    html: float
    styles: float
    scripts: float
    fonts: float

    @property
    def kB(self) -> float:
        """All together."""
        return self.html + self.styles + self.scripts + self.fonts


class _Page(HTMLParser):
    """The files that a page names, and its letters by where they stand."""

    def __init__(self) -> None:
        super().__init__()
        self.styles: list[str] = []
        self.scripts: list[str] = []
        self.letters: dict[str, set[int]] = {"text": set(), "code": set()}
        self.figures = False
        self._inside: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if tag == "link" and given.get("rel") == "stylesheet":
            self.styles.append(given["href"] or "")
        if tag == "script" and given.get("src"):
            self.scripts.append(given["src"] or "")
        self.figures |= tag == "script" and given.get("type") == FIGURE
        if tag in (*ELSEWHERE, *CODE):
            self._inside.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if self._inside and tag == self._inside[-1]:
            self._inside.pop()

    def handle_data(self, data: str) -> None:
        if not any(tag in ELSEWHERE for tag in self._inside):
            self.letters["code" if self._inside else "text"] |= set(map(ord, data))


def pages_below(site: Path) -> list[Path]:
    """Every page of a built site, sorted."""
    return [path for path in sorted(site.rglob("*.html")) if "_static" not in path.parts]


def weigh(page: Path) -> Weight:
    """Size of everything that a page loads on its own, pictures aside.

    Args:
        page: its file in the built site.

    Raises:
        FileNotFoundError: if it names a file that is not there.
    """
    text = page.read_text(encoding="utf-8")
    read = _Page()
    read.feed(text)
    styles = {_file(page, address) for address in read.styles}
    scripts = {_file(page, address) for address in read.scripts}
    fonts = {font for sheet in styles for font in _fonts(sheet, read)}
    return Weight(*(_kilobytes(files) for files in ({page}, styles, scripts, fonts)))


def _file(base: Path, address: str) -> Path:
    return (base.parent / unquote(urlsplit(address).path)).resolve()


def _kilobytes(files: set[Path]) -> float:
    return sum(file.stat().st_size for file in files) / 1000


def _fonts(sheet: Path, read: _Page) -> Iterator[Path]:
    """The faces of a sheet that the page loads."""
    for face in FACE.findall(sheet.read_text(encoding="utf-8")):
        family, address = FAMILY.search(face), ADDRESS.search(face)
        if not family or not address:
            continue  # it travels in the sheet, or is the machine's own
        letters = read.letters["code" if family[1] == MONOSPACED else "text"]
        ranges = [(int(a, 16), int(b or a, 16)) for a, b in RANGE.findall(face)]

        def has(letter: int, among: list[tuple[int, int]] = ranges) -> bool:
            return not among or any(low <= letter <= high for low, high in among)

        labels = read.figures and family[1] != MONOSPACED
        if has(ord("a")) or labels or any(map(has, letters)):
            yield _file(sheet, address[1])
