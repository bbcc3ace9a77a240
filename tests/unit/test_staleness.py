"""No committed output is older than its source, and every committed notebook is normalised."""

from __future__ import annotations

import re

import nbformat

from book.tools.chapters import find_chapters
from book.tools.execute import changed_parts
from book.tools.normalize import normalize, tags, to_text
from book.tools.reproduce import IGNORED

#: A number of the size of float64's rounding; "< 1e-12" and "below 1e-12" are bounds, not numbers.
ROUNDING = re.compile(r"(?<!<)(?<!below) -?\d(?:\.\d+)?e-1[3-9]\b")


def test_no_committed_output_is_older_than_its_source() -> None:
    old = {chapter.name: changed_parts(chapter) for chapter in find_chapters()}
    told = {name: f"older than its {', '.join(parts)}" for name, parts in old.items() if parts}
    assert not told, "run 'make execute' and commit the notebooks"


def test_every_committed_notebook_is_normalised() -> None:
    present = [c.notebook for c in find_chapters() if c.notebook.exists()]
    rough = [
        path.name
        for path in present
        if path.read_text() != to_text(normalize(nbformat.read(path, as_version=4)))
    ]
    assert not rough, "run 'make format' and commit the notebooks"


def test_committed_notebooks_hold_no_error() -> None:
    for chapter in find_chapters():
        cells = nbformat.read(chapter.notebook, as_version=4).cells
        wrong = [o for c in cells for o in c.get("outputs", []) if o.output_type == "error"]
        assert not wrong, f"{chapter.name} was committed with an error"


def test_no_checked_output_depends_on_rounding() -> None:
    """Rounding is another on another machine; a bound in its place holds on all."""
    for chapter in find_chapters():
        for cell in nbformat.read(chapter.notebook, as_version=4).cells:
            if cell.cell_type != "code" or IGNORED & set(tags(cell)):
                continue
            shown = [
                output.get("text", output.get("data", {}).get("text/plain", ""))
                for output in cell.outputs
            ]
            assert not ROUNDING.search("".join(shown)), f"{chapter.name}: {shown}"
