"""Style sheets of the built pages without unused rules, and Inter within the book's own.

The sheets of the theme and of Sphinx's extensions style hundreds of classes that no page has:
Bootstrap's parts, a terminal's 256 colours. A rule stays if every class it names stands on some
page or in some script; so nothing a script adds loses its look.
Inter's Latin letters travel inside `coefdyn.css`, so that the first paint has them and no line
moves when they arrive; and the icon font, which no page loads, is left out of the site.
"""

from __future__ import annotations

import base64
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

__all__ = ["lighten", "without_unused"]

WORD = re.compile(r"[\w-]+")
CLASSES = re.compile(r'class="([^"]*)"')
COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
#: Parts of a selector that need not be present for it to match: negated, or one of several.
OPTIONAL = re.compile(r":(?:not|is|where|has)\((?:[^()]|\([^()]*\))*\)")
CLASS_NAME = re.compile(r"\.(-?[A-Za-z_][\w-]*)")
SHEETS = (
    "basic.css",
    "copybutton.css",
    "mystnb.*.css",
    "proof.css",
    "pygments.css",
    "sphinx-design.min.css",
    "styles/bootstrap.css",
    "styles/pydata-sphinx-theme.css",
    "styles/sphinx-book-theme.css",
    "togglebutton.css",
)
#: Groups of rules that are searched; every other at-rule stays unchanged.
NESTED = ("@media", "@supports", "@layer", "@container")
LETTERS = "inter-latin-wght-normal.woff2"


def lighten(site: Path) -> None:
    """Rewrite the sheets of a built site; the second time there is nothing left to do."""
    static = site / "_static"
    used = frozenset(_words(site))
    for sheet in (found for name in SHEETS for found in sorted(static.glob(name))):
        sheet.write_text(without_unused(sheet.read_text(encoding="utf-8"), used), encoding="utf-8")
    own = static / "coefdyn.css"
    data = base64.b64encode((static / "fonts" / LETTERS).read_bytes()).decode("ascii")
    text = COMMENT.sub("", own.read_text(encoding="utf-8"))
    address = f'url("data:font/woff2;base64,{data}")'
    own.write_text(text.replace(f'url("fonts/{LETTERS}")', address), encoding="utf-8")
    shutil.rmtree(static / "vendor" / "fontawesome", ignore_errors=True)


def _words(site: Path) -> Iterator[str]:
    """Every class of a page, and every word of a script, which may be a class it adds."""
    for page in site.rglob("*.html"):
        text = page.read_text(encoding="utf-8")
        for found in CLASSES.findall(text):
            yield from found.split()
        for script in re.findall(r"<script\b[^>]*>(.*?)</script>", text, re.DOTALL):
            yield from WORD.findall(script)
    for script in (site / "_static").rglob("*.js"):
        if "vendor" not in script.parts:
            yield from WORD.findall(script.read_text(encoding="utf-8"))


def without_unused(text: str, used: frozenset[str]) -> str:
    """A style sheet without the rules that name a class which is not in `used`."""
    out = []
    for head, body in _rules(COMMENT.sub("", text)):
        if body is None or (head.startswith("@") and not head.startswith(NESTED)):
            out.append(head + ("" if body is None else f"{{{body}}}"))
        elif head.startswith("@"):
            kept = without_unused(body, used)
            out += [f"{head}{{{kept}}}"] if kept else []
        else:
            kept = ",".join(one for one in _selectors(head) if _is_used(one, used))
            out += [f"{kept}{{{body}}}"] if kept else []
    return "\n".join(out)


def _is_used(selector: str, used: frozenset[str]) -> bool:
    return all(name in used for name in CLASS_NAME.findall(OPTIONAL.sub("", selector)))


def _rules(text: str) -> Iterator[tuple[str, str | None]]:
    """The top-level rules of a sheet: what stands before the brace, and between the braces."""
    at, depth, start, head = 0, 0, 0, ""
    for match in re.finditer(r"\"(?:[^\"\\]|\\.)*\"|'(?:[^'\\]|\\.)*'|url\([^)\"']*\)|[{};]", text):
        sign = match[0]
        if sign == "{":
            if depth == 0:
                head, start = text[at : match.start()].strip(), match.end()
            depth += 1
        elif sign == "}":
            depth -= 1
            if depth == 0:
                yield head, text[start : match.start()].strip()
                at = match.end()
        elif sign == ";" and depth == 0:
            yield text[at : match.end()].strip(), None
            at = match.end()


def _selectors(head: str) -> Iterator[str]:
    """The selectors of a rule, split at the commas that stand in no brackets."""
    depth, start = 0, 0
    for place, sign in enumerate(head):
        depth += (sign in "([") - (sign in ")]")
        if sign == "," and depth == 0:
            yield head[start:place].strip()
            start = place + 1
    yield head[start:].strip()
