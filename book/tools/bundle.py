"""Joined style sheets and scripts: one of each for every page instead of a dozen.

Every file is a request of its own, and nothing is drawn before the last style sheet is there: on a
phone a second of waiting. The files of a page are joined in their order, equal lists into one file,
so that the next page finds it in the browser's cache.

Left alone: what has attributes of its own (a script may read them), and scripts that do not wait
for the page.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from book.tools.digest import short
from book.tools.postprocess import rewrite

__all__ = ["bundle", "bundled"]

STYLE = re.compile(
    r'[ \t]*<link (?=[^>]*\brel="stylesheet")(?:rel="stylesheet" |type="text/css" )*'
    r'href="((?:\.\./)*_static/[^"?]+\.css)[^"]*"(?: rel="stylesheet")? ?/>\n?'
)
SCRIPT = re.compile(
    r'[ \t]*<script defer="defer" src="((?:\.\./)*_static/[^"?]+)[^"]*"></script>\n?'
)
#: An address in a style sheet, relative to its folder.
ADDRESS = re.compile(r"""url\((["']?)(?!data:|#|[a-z]+:)([^)"']+)\1\)""")
#: A style sheet that another one begins with.
IMPORT = re.compile(r'@import "([^"]+)";')
CHARSET = re.compile(r'@charset "[^"]*";')


def bundle(site: Path) -> None:
    """Join the style sheets and the waiting scripts of every page below `site`."""
    rewrite(site, bundled)


def bundled(page: Path, site: Path) -> str:
    """The text of one page with its files joined; writes the joined files."""
    text = page.read_text(encoding="utf-8")
    for kind, pattern, tag in (
        ("css", STYLE, '<link rel="stylesheet" type="text/css" href="{}" />\n'),
        ("js", SCRIPT, '<script defer="defer" src="{}"></script>\n'),
    ):
        found = list(pattern.finditer(text))
        if len(found) < 2:
            continue
        files = [(page.parent / one[1]).resolve().relative_to(site.resolve()) for one in found]
        address = posixpath.join(found[0][1].partition("_static/")[0], _written(files, site, kind))
        for one in reversed(found[1:]):
            text = text[: one.start()] + text[one.end() :]
        text = text[: found[0].start()] + tag.format(address) + text[found[0].end() :]
    return text


def _written(files: Sequence[Path], site: Path, kind: str) -> str:
    """Address of the joined file in the site; its name contains a digest of its content."""
    joined = "\n".join(_parts(files, site))
    place = f"_static/joined-{short([joined])}.{kind}"
    (site / place).write_text(joined, encoding="utf-8")
    return place


def _parts(files: Sequence[Path], site: Path) -> Iterator[str]:
    for file in files:
        yield _sheet(file, site) if file.suffix == ".css" else f"{_read(file, site)};"


def _sheet(file: Path, site: Path) -> str:
    """Style sheet as it would stand in `_static`, with imports, and addresses relative to it."""
    folder = posixpath.relpath(file.parent.as_posix(), "_static")
    text = ADDRESS.sub(rf"url(\1{folder}/\2\1)", CHARSET.sub("", _read(file, site)))

    def imported(found: re.Match[str]) -> str:
        return _sheet(Path(posixpath.normpath(posixpath.join(file.parent, found[1]))), site)

    return IMPORT.sub(imported, text)


def _read(file: Path, site: Path) -> str:
    return (site / file).read_text(encoding="utf-8")
