"""No committed output is older than its source, and every committed notebook is normalised."""

from __future__ import annotations

import nbformat

from book.tools.chapters import find_chapters
from book.tools.execute import changed_parts
from book.tools.normalize import normalize, to_text


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
