"""A committed notebook names the programs of its figures; pages and JupyterLab have their text."""

from __future__ import annotations

import copy
import json
import re
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbformat import v4

from book.tools import download_note, programs
from book.tools.chapters import Chapter, find_chapters
from book.tools.digest import read_source, text_digest
from book.tools.normalize import main, normalize, to_text
from book.tools.postprocess import STATE as STATE_SCRIPT
from book.tools.postprocess import _modules_once
from book.tools.programs import STATE, VIEW, carried, models_of, put_programs
from coefdyn import widgets
from coefdyn.lab.films import TrainingFilm
from coefdyn.lab.films.widget import saved_film
from coefdyn.lab.train import PageTraining
from coefdyn.widgets import Explorer, FactsView

CHAPTERS = find_chapters()
#: As a search of the repository for programs is made: `git grep -lE '"_(esm|css)": "[^"]{400}'`.
PROGRAM = re.compile(r'"_(?:esm|css)": "[^"]{400}')
LARGE = "export default {};" * 40


@cache
def committed(chapter: Chapter) -> str:
    return chapter.notebook.read_text(encoding="utf-8")


def executed(*figures: Any, heading: str = "# A page") -> nbformat.NotebookNode:
    """A notebook as an execution leaves it: every figure with its whole state."""
    cells, state = [v4.new_markdown_cell(heading)], {}
    for number, figure in enumerate(figures, start=1):
        kept = {key: value for key, value in figure.get_state().items() if key != "layout"}
        state[f"{number:032x}"] = {"model_name": "AnyModel", "state": kept}
        data = {VIEW: {"model_id": f"{number:032x}"}, "text/plain": repr(figure)}
        output = v4.new_output("execute_result", data, execution_count=1)
        cells.append(v4.new_code_cell("show()", outputs=[output], execution_count=1))
    saved = {"state": state, "version_major": 2, "version_minor": 0}
    made = v4.new_notebook(cells=cells, metadata={"widgets": {STATE: saved}})
    return nbformat.from_dict(json.loads(json.dumps(made)))


def page_of(notebook: nbformat.NotebookNode) -> str:
    """The saved state of a page, with its last touches."""
    text = json.dumps(notebook.metadata.get("widgets", {}).get(STATE, {"state": {}}))
    script = f'<script type="{STATE}">' + text.replace("</", "<\\/") + "</script>"
    return STATE_SCRIPT.sub(_modules_once, script)


@pytest.mark.parametrize("chapter", CHAPTERS, ids=lambda chapter: chapter.name)
def test_every_committed_figure_is_restored_from_its_class_and_state(chapter: Chapter) -> None:
    notebook = nbformat.reads(committed(chapter), as_version=4)
    named = {
        name: {key: record["state"][key] for key in ("_esm", "_css")}
        for name, record in models_of(notebook).items()
        if "_esm" in record["state"]
    }
    put_programs(models_of(notebook))
    for name, stub in named.items():
        record = models_of(notebook)[name]
        kind, figure = _restored(record)
        state = {k: v for k, v in figure.get_state().items() if k not in ("layout", "frames")}
        assert json.loads(json.dumps(state)) == {k: record["state"][k] for k in state}
        assert record["state"]["_esm"] == kind._esm != stub["_esm"]
        assert record["state"]["_css"] == kind._css != stub["_css"]


def _restored(record: Any) -> tuple[Any, Any]:
    """The class of a figure, and the figure as Python makes it from what a notebook holds."""
    name = record["state"]["_anywidget_id"].rpartition(".")[2]
    if name == "TrainingFilm":
        shown = record["state"]["film"]
        film = saved_film(record)
        # where the numbers come from stands in the figure as words alone
        source = {"device": "", "torch": "", "timestamp": ""}
        runs = tuple(replace(r, config={"seed": 0}, provenance=source) for r in film.runs)
        settings = {key: int(value) for key, value in record["state"]["settings"].items()}
        figure = TrainingFilm(replace(film, runs=runs), epsilon=shown["epsilon"], **settings)
        figure.film = {**figure.film, "provenance": shown["provenance"]}
        return TrainingFilm, figure
    kind = PageTraining if name == "PageTraining" else getattr(widgets, name)
    return kind, kind.from_state(record["state"])


@pytest.mark.parametrize("chapter", CHAPTERS, ids=lambda chapter: chapter.name)
def test_a_page_is_the_same_with_the_programs_in_its_notebook(chapter: Chapter) -> None:
    named = nbformat.reads(committed(chapter), as_version=4)
    whole = copy.deepcopy(named)
    put_programs(models_of(whole))
    assert page_of(whole) == page_of(named)
    assert to_text(normalize(whole)) == committed(chapter)


def test_another_script_or_style_changes_no_notebook(monkeypatch) -> None:
    figures = (Explorer("gla"), FactsView(), PageTraining("gla"))
    first = executed(*figures)
    second = copy.deepcopy(first)
    for record in models_of(second).values():
        record["state"] |= {"_esm": f"{LARGE} // changed", "_css": "a { color: red }"}
    assert len(carried(first)) == 3
    text = to_text(normalize(first))
    assert to_text(normalize(second)) == text
    assert not PROGRAM.search(text)
    page = page_of(nbformat.reads(text, as_version=4))
    program = {"_esm": f"{LARGE} // changed", "_css": "a { color: red }"}
    monkeypatch.setattr(programs, "_program", lambda name: program)
    assert program["_esm"] not in page
    assert program["_esm"] in page_of(nbformat.reads(text, as_version=4))


def test_figures_of_one_module_share_it_in_a_page() -> None:
    notebook = normalize(executed(FactsView(), FactsView(preset="gla"), Explorer("gla")))
    saved = json.loads(STATE_SCRIPT.search(page_of(notebook))[2])["state"].values()
    assert [record["state"]["_esm"][:6] for record in saved] == ["const ", "@same:", "const "]
    assert [record["state"]["_css"][:6] for record in saved][1:] == ["@same:"] * 2


def test_the_check_refuses_a_program_by_name(tmp_path: Path, capsys) -> None:
    path = tmp_path / "n.ipynb"
    path.write_text(to_text(normalize(executed(Explorer("gla")))), encoding="utf-8")
    assert main(["--check", str(path)]) == 0
    notebook = nbformat.read(path, as_version=4)
    put_programs(models_of(notebook))
    path.write_text(to_text(notebook), encoding="utf-8")
    assert main(["--check", str(path)]) == 1
    assert "carries the program of coefdyn.widgets.explorer.Explorer;" in capsys.readouterr().out
    assert main([str(path)]) == 1
    assert main(["--check", str(path)]) == 0


def test_a_figure_that_nothing_could_put_back_is_kept_and_refused(tmp_path: Path, capsys) -> None:
    notebook = executed(Explorer("gla"))
    record = models_of(notebook)[f"{1:032x}"]
    record["state"] |= {"_anywidget_id": "__main__.Own", "_esm": LARGE}
    path = tmp_path / "n.ipynb"
    path.write_text(to_text(normalize(notebook)), encoding="utf-8")
    assert models_of(nbformat.read(path, 4))[f"{1:032x}"]["state"]["_esm"] == LARGE
    for arguments in ([], ["--check"]):
        assert main([*arguments, str(path)]) == 1
        assert "carries the program of __main__.Own;" in capsys.readouterr().out


def test_a_class_that_is_gone_is_named() -> None:
    notebook = normalize(executed(Explorer("gla")))
    record = models_of(notebook)[f"{1:032x}"]
    record["state"]["_anywidget_id"] = "coefdyn.widgets.explorer.Gone"
    with pytest.raises(ValueError, match=r"coefdyn\.widgets\.explorer\.Gone.*make execute"):
        page_of(notebook)


@pytest.mark.parametrize("chapter", CHAPTERS, ids=lambda chapter: chapter.name)
def test_a_notebook_says_first_what_it_needs_and_its_source_does_not(chapter: Chapter) -> None:
    notebook = nbformat.reads(committed(chapter), as_version=4)
    first = notebook.cells[0]
    assert first.cell_type == "markdown" and "remove-cell" in first.metadata.tags
    for word in ("`coefdyn`", "`data/`", "repository", "`make lab`"):
        assert word in first.source
    assert [download_note.is_note(cell) for cell in notebook.cells].count(True) == 1
    assert not any(map(download_note.is_note, read_source(chapter).cells))
    assert text_digest(notebook) == text_digest(read_source(chapter))
