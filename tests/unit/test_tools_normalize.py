"""Two executions of a notebook are one file."""

from __future__ import annotations

import nbformat
from nbformat import v4

from book.tools.normalize import STATE, VIEW, main, normalize, to_text
from book.tools.reproduce import differences

FIRST, SECOND, LAYOUT, CLOSED = "9f" * 16, "1a" * 16, "c0" * 16, "ee" * 16


def notebook(first: str = FIRST, layout: str = LAYOUT, text: str = "1\n") -> nbformat.NotebookNode:
    """A notebook as papermill leaves it, with a widget and all that differs between two runs."""
    view = v4.new_output(
        "execute_result", {VIEW: {"model_id": first}, "text/plain": "W()"}, execution_count=9
    )
    stream = [v4.new_output("stream", name="stdout", text=part) for part in ("0\r", text)]
    cells = [
        v4.new_markdown_cell("# Title"),
        v4.new_code_cell("n = 2", metadata={"tags": ["injected-parameters"]}),
        v4.new_code_cell("Widget()", execution_count=7, outputs=[view]),
        v4.new_code_cell("print(1)", execution_count=8, outputs=stream),
        v4.new_code_cell("print(1)", metadata={"execution": {"iopub.status.busy": "now"}}),
    ]
    model = {"model_name": "M", "model_module": "m", "state": {"layout": f"IPY_MODEL_{layout}"}}
    plain = {"model_name": "L", "model_module": "l", "state": {}}
    state = {layout: plain, first: model, CLOSED: plain}
    metadata = {
        "papermill": {"duration": 1.0},
        "kernelspec": {"name": "python3", "display_name": "Python 3 (ipykernel)"},
        "language_info": {"name": "python", "version": "3.11.7"},
        "widgets": {STATE: {"state": state, "version_major": 2, "version_minor": 0}},
        "myst": {"kept": True},
    }
    return v4.new_notebook(cells=cells, metadata=metadata)


def test_two_runs_give_the_same_text() -> None:
    assert to_text(normalize(notebook())) == to_text(normalize(notebook(SECOND, "77" * 16)))


def test_what_a_progress_bar_leaves_is_dropped() -> None:
    made = notebook()
    shown = v4.new_output("display_data", {"text/plain": "kept"})
    emptied = v4.new_output("display_data", {"text/plain": ""})
    made.cells[3].outputs = [emptied, shown]
    assert normalize(made).cells[3].outputs == [shown]


def test_what_is_kept_and_what_is_dropped() -> None:
    done = normalize(notebook())
    assert [cell.source for cell in done.cells[1:]] == [
        "# Title",
        "Widget()",
        "print(1)",
        "print(1)",
    ]
    assert len({cell.id for cell in done.cells}) == 5
    assert [cell.get("execution_count") for cell in done.cells[1:]] == [None, 1, 2, None]
    assert done.cells[3].outputs == [{"output_type": "stream", "name": "stdout", "text": "1\n"}]
    assert set(done.metadata) == {"kernelspec", "language_info", "myst", "widgets"}
    assert "version" not in done.metadata.language_info
    nbformat.validate(done)


def test_addresses_and_names_of_temporary_files_are_levelled() -> None:
    noise = "<A at 0x7f00aa11bb22> /x/ipykernel_12/34.py:1: UserWarning\n"
    cell = normalize(notebook(text=noise)).cells[3]
    assert cell.outputs[0].text == "<A at 0x0> <cell>:1: UserWarning\n"


def test_the_command_checks_without_writing_and_then_writes(tmp_path, capsys) -> None:
    path = tmp_path / "n.ipynb"
    nbformat.write(notebook(), path)
    before = path.read_text()
    assert main(["--check", str(path)]) == 1
    assert path.read_text() == before
    assert main([str(path)]) == 1
    assert main(["--check", str(path)]) == 0
    assert "not normalised" in capsys.readouterr().out


def test_differences_overlook_figures_and_ignored_cells() -> None:
    def run(figure: str, number: str, tags: list[str]) -> str:
        shown = v4.new_output("display_data", {"image/png": figure, "text/plain": "<Figure>"})
        timed = v4.new_output("stream", name="stdout", text=number)
        cells = [
            v4.new_code_cell("plot()", outputs=[shown], execution_count=1),
            v4.new_code_cell("t()", outputs=[timed], execution_count=2, metadata={"tags": tags}),
        ]
        return to_text(normalize(v4.new_notebook(cells=cells)))

    ignored = ["nbval-ignore-output"]
    first = run("a", "1", ignored)
    assert differences(first, first) == "the same file as before"
    assert differences(first, run("b", "2", ignored)).startswith("the same as before but")
    assert differences(run("a", "1", []), run("a", "2", [])) == "changed in cell(s) 2"
