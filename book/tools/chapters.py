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


def front_matter(text: str) -> dict:
    """The YAML head of a Markdown file, empty when there is none."""
    match = FRONT_MATTER.match(text)
    return (yaml.safe_load(match[1]) or {}) if match else {}


def find_chapters(book: Path = BOOK) -> list[Chapter]:
    """Every chapter of the book, in the order of their names.

    A Markdown file is a chapter when its head names a `kernelspec`; the others are plain pages.
    """
    skipped = {"_build", "tools", ".ipynb_checkpoints"}
    sources: list[Path] = []
    for folder, folders, files in os.walk(book):
        folders[:] = [name for name in folders if name not in skipped]
        sources += [Path(folder) / name for name in files if name.endswith(".md")]
    found = []
    for source in sorted(sources):
        if "kernelspec" in front_matter(source.read_text(encoding="utf-8")):
            name = source.relative_to(book).with_suffix("").as_posix()
            found.append(Chapter(name=name, source=source))
    return found


def select(chapters: list[Chapter], wanted: str) -> list[Chapter]:
    """The chapters named by `wanted`: names, last parts of names, or paths, between commas.

    A chapter named twice is one. Raises ValueError naming the nearest chapters when a name fits
    none or several.
    """
    found = (_one(chapters, name) for name in wanted.replace(",", " ").split())
    return list({chapter.name: chapter for chapter in found}.values())


def _one(chapters: list[Chapter], wanted: str) -> Chapter:
    plain = re.sub(r"\.(md|ipynb)$", "", wanted.removeprefix("./").removeprefix("book/"))
    exact = [c for c in chapters if c.name == plain]
    fits = exact or [c for c in chapters if c.name.rsplit("/", 1)[-1] == plain]
    if len(fits) == 1:
        return fits[0]
    names = [c.name for c in chapters]
    near = [c.name for c in fits] or difflib.get_close_matches(plain, names, n=3, cutoff=0.3)
    problem = "fits several chapters" if fits else "is no chapter"
    remedy = ", ".join(near or names) or "none: the book has no chapters yet"
    raise ValueError(f"CHAPTER={wanted} {problem}. Choose from: {remedy}.")
