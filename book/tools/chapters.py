"""Chapters: MyST Markdown notebooks under `book/`, each paired with an executed `.ipynb`."""

from __future__ import annotations

import difflib
import os
import re
from dataclasses import dataclass
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[2]
BOOK = ROOT / "book"
BUILD = BOOK / "_build"

FRONT_MATTER = re.compile(r"\A---\s*\n(.*?)\n---\s*(?:\n|\Z)", re.DOTALL)


@dataclass(frozen=True, kw_only=True)
class Chapter:
    """One chapter: its name is its path below the book without a suffix."""

    name: str
    source: Path

    @property
    def notebook(self) -> Path:
        """The committed, executed notebook beside the source."""
        return self.source.with_suffix(".ipynb")

    @property
    def folder(self) -> Path:
        """The folder that the chapter's kernel runs in."""
        return self.source.parent


def read(source: Path) -> str:
    """Read a Markdown file. Raises ValueError that names it when it is not UTF-8."""
    try:
        return source.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(
            f"{source} is not UTF-8 ({error.reason} at byte {error.start}); "
            "save it in that encoding, or restore it."
        ) from None


def front_matter(text: str) -> dict:
    """Parse the YAML head of a Markdown file, empty when there is none.

    Raises ValueError that says in which line its YAML is broken.
    """
    match = FRONT_MATTER.match(text)
    if not match:
        return {}
    try:
        head = yaml.safe_load(match[1])
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f" in line {mark.line + 2}" if mark else ""
        what = getattr(error, "problem", None) or "not readable"
        raise ValueError(f"its head is no YAML{line}: {what}") from None
    return head if isinstance(head, dict) else {}


def find_chapters(book: Path = BOOK) -> list[Chapter]:
    """Every chapter of the book, in the order of their names.

    A Markdown file is a chapter when its head names a `kernelspec`; the others are plain pages. One
    that cannot be read counts as a chapter: whoever reads it says what is wrong with it.
    """
    skipped = {"_build", "tools", ".ipynb_checkpoints"}
    sources: list[Path] = []
    for folder, folders, files in os.walk(book):
        folders[:] = [name for name in folders if name not in skipped]
        sources += [Path(folder) / name for name in files if name.endswith(".md")]
    found = []
    for source in sorted(sources):
        try:
            is_chapter = "kernelspec" in front_matter(read(source))
        except ValueError:
            is_chapter = True
        if is_chapter:
            name = source.relative_to(book).with_suffix("").as_posix()
            found.append(Chapter(name=name, source=source))
    return found


def select(chapters: list[Chapter], wanted: str) -> list[Chapter]:
    """The chapters named by `wanted`: names, their last parts, or paths, between commas or blanks.

    What stands between two commas may be a name with blanks in it. A chapter named twice is one.
    Raises ValueError naming the nearest chapters when a name fits none or several.
    """
    found = []
    for part in filter(None, map(str.strip, wanted.split(","))):
        whole = _fitting(chapters, part)
        found += whole if len(whole) == 1 else [_one(chapters, name) for name in part.split()]
    return list({chapter.name: chapter for chapter in found}.values())


def _fitting(chapters: list[Chapter], wanted: str) -> list[Chapter]:
    plain = _plain(wanted)
    exact = [c for c in chapters if c.name == plain]
    return exact or [c for c in chapters if c.name.rsplit("/", 1)[-1] == plain]


def _plain(wanted: str) -> str:
    return re.sub(r"\.(md|ipynb)$", "", wanted.removeprefix("./").removeprefix("book/"))


def _one(chapters: list[Chapter], wanted: str) -> Chapter:
    fits = _fitting(chapters, wanted)
    if len(fits) == 1:
        return fits[0]
    if fits:
        several = ", ".join(c.name for c in fits)
        raise ValueError(f"CHAPTER={wanted} fits several chapters. Choose from: {several}.")
    names = [c.name for c in chapters]
    near = difflib.get_close_matches(_plain(wanted), names, n=3, cutoff=0.5)
    some = f"Did you mean {' or '.join(near)}? " if near else ""
    every = f"The chapters are: {', '.join(names)}." if names else "The book has no chapters."
    raise ValueError(f"CHAPTER={wanted} is no chapter. {some}{every}")
