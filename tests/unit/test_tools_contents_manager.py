"""JupyterLab is lent macros and citations, and no file ever holds them."""

from __future__ import annotations

import re

import jupytext
import nbformat
import pytest

pytest.importorskip("jupyter_server")

from book.tools.chapters import BOOK
from book.tools.contents_manager import CITATION, ChapterContents, lend, macros, take_back
from book.tools.download_note import is_note
from book.tools.normalize import normalize
from book.tools.programs import carried, models_of
from coefdyn.widgets import Explorer

CHAPTERS = sorted(BOOK.glob("*/*.md"))


def sources(notebook):
    return [cell["source"] for cell in notebook["cells"]]


def test_every_macro_that_a_chapter_uses_is_lent():
    known = macros()
    used = set()
    for path in CHAPTERS:
        used |= set(re.findall(r"\\(?:sym[A-Z]|Evo|Sca|Rea|Nor|softplus|diag)\b", path.read_text()))
    assert len(used) > 8
    assert used <= set(known)
    assert not any("class" in text for text in known.values())


@pytest.mark.parametrize("path", CHAPTERS, ids=lambda path: path.stem)
def test_what_is_lent_comes_back_unchanged(path):
    notebook = jupytext.read(path)
    before = sources(notebook)
    lend(notebook)
    front, *lent = sources(notebook)
    assert front.startswith("---\nmath: ")
    assert len(lent) == len(before)
    assert not any(CITATION.search(text) for text in lent)
    take_back(notebook)
    assert sources(notebook) == before


def test_a_figure_is_alive_when_opened_and_named_when_saved(tmp_path):
    chapter = BOOK / "since" / "many_heads.ipynb"
    committed = chapter.read_text(encoding="utf-8")
    (tmp_path / "book").mkdir()
    path = tmp_path / "book" / "many_heads.ipynb"
    path.write_text(committed, encoding="utf-8")
    contents = ChapterContents(root_dir=str(tmp_path))
    opened = contents.get("book/many_heads.ipynb")["content"]
    state = {
        key: value
        for record in models_of(opened).values()
        for key, value in record["state"].items()
        if key in ("_esm", "_css", "_anywidget_id")
    }
    assert state["_anywidget_id"] == "coefdyn.widgets.explorer.Explorer"
    assert (state["_esm"], state["_css"]) == (Explorer._esm, Explorer._css)
    assert not any(map(is_note, opened["cells"]))
    contents.save(
        {"type": "notebook", "format": "json", "content": opened}, "book/many_heads.ipynb"
    )
    saved = nbformat.read(path, as_version=4)
    assert not carried(saved)
    before = nbformat.reads(committed, as_version=4)
    assert normalize(saved).cells == before.cells
    assert saved.metadata.widgets == before.metadata.widgets
