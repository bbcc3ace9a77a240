"""The library's docstrings as reStructuredText that Sphinx reads without a warning.

A docstring is written for whoever reads the code: an equation is an indented paragraph, and a star
or a bar means itself. Here an indented paragraph becomes a literal block, and what Sphinx would
take for markup is escaped. Napoleon, which runs after this, turns `Args:` and `Raises:` into lists.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable
from typing import Any

__all__ = ["readable", "setup"]

SECTION = re.compile(r"(Args|Attributes|Returns|Raises|Yields|Note|Example)s?:")
NAMED = re.compile(r"(\w+(?:, *\w+)*): +\S")
LITERAL = re.compile(r"(``.*?``)")
MARKUP = re.compile(r"([*|`\\]|(?<=\w)_(?!\w))")


def readable(lines: list[str], names: Iterable[str] = ()) -> list[str]:
    """Lines with equations as literal blocks, and nothing that is markup by accident.

    names: of arguments or fields; a paragraph of lines "name: what it is" becomes a list.
    """
    found: list[str] = []
    literal = inside = listed = False
    for number, line in enumerate(lines):
        text, indent = line.strip(), len(line) - len(line.lstrip())
        first = number == 0 or not lines[number - 1].strip()
        if not text:
            listed = False
        if first and text:
            inside = inside and indent > 0
            literal = literal and indent > 0
        if indent == 0 and SECTION.fullmatch(text):
            inside = True
        elif first and indent == 0 and _named(text) & set(names):
            found.append("Args:")
            inside = listed = True
        if not inside and text and first and indent >= 2 and not literal:
            if not (found and found[-1].endswith("::")):
                found += ["::", ""]
            literal = True
        shift = "    " if listed else ""
        found.append(line if literal or not text else shift + _escaped(line))
    return found


def _named(text: str) -> set[str]:
    """The names before the colon of a line such as "first, second: what they are"."""
    match = NAMED.match(text)
    return set(re.split(r",\s*", match[1])) if match else set()


def _escaped(line: str) -> str:
    parts = LITERAL.split(line)
    return "".join(p if p.startswith("``") else MARKUP.sub(r"\\\1", p) for p in parts)


def _names(thing: object) -> set[str]:
    """Arguments of a callable, fields of a class."""
    try:
        parameters = set(inspect.signature(thing).parameters)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        parameters = set()
    return parameters | set(getattr(thing, "__annotations__", {}))


def _process(app: Any, what: str, name: str, thing: object, options: Any, lines: list[str]) -> None:
    if lines and lines[0].startswith("Alias for field number"):  # its named tuple says more
        lines.clear()
    lines[:] = readable(lines, _names(thing))


def setup(app: Any) -> dict[str, bool]:
    """Register with Sphinx before Napoleon, whose priority is 500."""
    app.setup_extension("sphinx.ext.autodoc")
    app.setup_extension("sphinx.ext.napoleon")
    app.connect("autodoc-process-docstring", _process, priority=400)
    return {"parallel_read_safe": True}
