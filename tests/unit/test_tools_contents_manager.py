"""JupyterLab is lent macros and citations, and no file ever holds them."""

from __future__ import annotations

import json
import re

import jupytext
import nbformat
import pytest

pytest.importorskip("jupyter_server")

from book.tools.chapters import BOOK
from book.tools.contents_manager import CITATION, TAG, ChapterContents, lend, macros, take_back
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


def test_a_citation_reads_as_on_the_page():
    text = "{cite:t}`sieber2025coefficient` and {cite}`press2022alibi,gu2023mamba`; {cite}`nobody`"
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_markdown_cell(text)])
    lend(notebook)
    shown = notebook.cells[1].source
    assert shown.startswith("[Sieber et al. (2025)](https://arxiv.org/abs/2510.09389 ")
    assert "[(Press et al., 2022; Gu and Dao, 2023)](https://arxiv.org/abs/2108.12409 " in shown
    assert shown.endswith("{cite}`nobody`")


def test_a_link_of_the_readers_own_stays_a_link():
    text = '[mine](https://x.org "cite x"), [also](https://x.org "cite gu2023mamba")'
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_markdown_cell(text)])
    lend(notebook)
    take_back(notebook)
    assert sources(notebook) == [text]


def test_the_server_lends_and_the_file_stays_free(tmp_path):
    (tmp_path / "book").mkdir()
    path = tmp_path / "book" / "x.ipynb"
    cell = nbformat.v4.new_markdown_cell("See {cite:t}`gu2023mamba`: $\\symA{t}$.")
    nbformat.write(nbformat.v4.new_notebook(cells=[cell]), path)
    contents = ChapterContents(root_dir=str(tmp_path))
    model = contents.get("book/x.ipynb")
    assert model["content"]["cells"][0]["metadata"]["tags"] == [TAG]
    model["content"]["cells"][1]["source"] += " Edited."
    contents.save(
        {"type": "notebook", "format": "json", "content": model["content"]}, "book/x.ipynb"
    )
    saved = json.loads(path.read_text())["cells"]
    assert ["".join(cell["source"]) for cell in saved] == [
        "See {cite:t}`gu2023mamba`: $\\symA{t}$. Edited."
    ]


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


def test_a_figure_of_a_class_that_is_gone_keeps_its_line(tmp_path):
    (tmp_path / "book").mkdir()
    path = tmp_path / "book" / "x.ipynb"
    text = (BOOK / "since" / "many_heads.ipynb").read_text(encoding="utf-8")
    path.write_text(text.replace("coefdyn.widgets.explorer.", "coefdyn.widgets.gone."))
    opened = ChapterContents(root_dir=str(tmp_path)).get("book/x.ipynb")["content"]
    modules = [r["state"]["_esm"] for r in models_of(opened).values() if "_esm" in r["state"]]
    assert modules and all(module.startswith("// coefdyn.widgets.gone.") for module in modules)
