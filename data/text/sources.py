"""The sources of the public prose: Debian packages whose texts are in the public domain.

Each source reads the files of an installed package and yields documents, each a name and its
paragraphs. What is no prose is left out: program text, tables, menus, notes and headings.
"""

from __future__ import annotations

import gzip
import re
import struct
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from html.parser import HTMLParser
from pathlib import Path

#: a document's name and its paragraphs
Document = tuple[str, list[str]]
#: typographic signs and the ASCII that replaces them
PLAIN = str.maketrans(
    {"“": '"', "”": '"', "‘": "'", "’": "'", "–": "-", "—": "--", "…": "...", "\u00a0": " "}
)


@dataclass(frozen=True, kw_only=True)
class Source:
    """A package, the one version that is read, and how.

    Args:
        package, version: of Debian 12.
        read: from the root of the file system to its documents.
    """

    package: str
    version: str
    read: Callable[[Path], Iterator[Document]]

    def check(self, root: Path) -> None:
        """Refuse another version than the one named.

        Raises:
            SystemExit: with what is needed, what is there, and the remedy.
        """
        remedy = (
            f"install {self.package}={self.version}, or unpack it with `dpkg -x` and name --root"
        )
        changelog = root / "usr/share/doc" / self.package / "changelog.Debian.gz"
        if not changelog.is_file():
            raise SystemExit(f"{self.package} is needed and {changelog} does not exist; {remedy}.")
        first = gzip.decompress(changelog.read_bytes()).decode(errors="replace").split("\n")[0]
        found = first.partition("(")[2].partition(")")[0]
        if found != self.version:
            raise SystemExit(
                f"the committed text is that of {self.package} {self.version}; {root} has {found}: "
                f"{remedy}."
            )


def clean(text: str) -> str:
    """One line, single spaces, plain quotes."""
    return " ".join(text.translate(PLAIN).split())


def is_prose(paragraph: str) -> bool:
    """At least eight words, nine signs in ten letters or spaces, and an end like a sentence's."""
    letters = sum(sign.isalpha() or sign == " " for sign in paragraph)
    ends = paragraph.rstrip("\"')]}")[-1:] in (*".!?:;,",)
    return len(paragraph.split()) >= 8 and letters >= 0.9 * len(paragraph) and ends


def bible(root: Path) -> Iterator[Document]:
    """The World English Bible: a document per chapter, its paragraphs and lines of verse.

    Every second chapter, so that no source is most of the text.

    A SWORD "zText" module: ``*.bzs`` lists place and packed size of each block, a book in OSIS, in
    ``*.bzz``; ``*.bzv`` lists block, place and size of each verse. All are little-endian.
    """
    folder = root / "usr/share/sword/modules/texts/ztext/engWEB2015eb"
    for part in ("ot", "nt"):
        packed = (folder / f"{part}.bzz").read_bytes()
        places = struct.iter_unpack("<III", (folder / f"{part}.bzs").read_bytes())
        books = [zlib.decompress(packed[at : at + size]) if size else b"" for at, size, _ in places]
        verses = struct.iter_unpack("<IIH", (folder / f"{part}.bzv").read_bytes())
        text = " ".join(books[book][at : at + size].decode() for book, at, size in verses if size)
        text = re.sub(r"<(note|title)\b.*?</\1>", "", text, flags=re.DOTALL)
        chapters = re.split(r'<chapter [^>]*osisID="([^"]*)" sID=[^>]*>', text)
        for name, chapter in zip(chapters[1::4], chapters[2::4], strict=True):
            blocks = re.sub(r'<(div [^>]*sID="[^"]*"[^>]*type="x-p"|lg?\b)[^>]*>', "\n", chapter)
            lines = re.sub(r"<[^>]*>", "", blocks).split("\n")
            yield name, [clean(line) for line in lines if line.strip()]


def jargon(root: Path) -> Iterator[Document]:
    """The Jargon File 4.4.7: a document per entry of the glossary, and per chapter around it."""
    path = root / "usr/share/doc/jargon-text/jargon.txt.gz"
    text = gzip.decompress(path.read_bytes()).decode().translate(PLAIN)
    text = text[text.index("Chapter 1. Hacker Slang") :]
    pieces = re.split(
        r"^(?=   :[^\n]+:|Chapter \d+\. |Appendix [A-Z]\. )", text, flags=re.MULTILINE
    )
    for piece in pieces:
        if not piece.strip():
            continue
        head, *rest = [clean(paragraph) for paragraph in re.split(r"\n\s*\n", piece)]
        told = [one for one in rest if is_prose(one)]
        yield head, [head, *told] if told else []


class _Paragraphs(HTMLParser):
    """The paragraphs of a page: what stands between the tags of blocks, outside of ``SKIPPED``."""

    BLOCKS = frozenset(
        [
            "p",
            "li",
            "ul",
            "ol",
            "dl",
            "dt",
            "dd",
            "h1",
            "h2",
            "h3",
            "h4",
            "div",
            "blockquote",
            "td",
            "tr",
            "br",
            "hr",
        ]
    )
    SKIPPED = frozenset(["script", "style", "pre", "table", "svg", "title"])

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []
        self.now: list[str] = []
        self.depth = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.depth += tag in self.SKIPPED
        self.cut(tag)

    def handle_endtag(self, tag: str) -> None:
        self.depth -= tag in self.SKIPPED and self.depth > 0
        self.cut(tag)

    def handle_data(self, data: str) -> None:
        if not self.depth:
            self.now.append(data)

    def cut(self, tag: str) -> None:
        if tag in self.BLOCKS | self.SKIPPED:
            self.found.append("".join(self.now))
            self.now = []


def sqlite(root: Path) -> Iterator[Document]:
    """The SQLite documentation: a document per page; release notes and indexes are left out."""
    folder = root / "usr/share/doc/sqlite3"
    for path in sorted(folder.rglob("*.html")):
        name = path.relative_to(folder).as_posix()
        if name.startswith(("releaselog/", "syntax/", "doc_", "toc")):
            continue
        page = _Paragraphs()
        page.feed(path.read_text(encoding="utf-8", errors="replace"))
        page.close()
        page.cut("p")
        yield name, [one for one in map(clean, page.found) if is_prose(one)]


SOURCES = (
    Source(package="sword-text-web", version="426.0-1", read=bible),
    Source(package="jargon-text", version="4.4.7-4.1", read=jargon),
    Source(package="sqlite3-doc", version="3.40.1-2+deb12u2", read=sqlite),
)
