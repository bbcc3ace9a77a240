"""A chapter in JupyterLab: it is drawn as on the page, and the explorer talks to Python."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbformat.sign import NotebookNotary

from book.tools.chapters import BOOK
from book.tools.programs import VIEW, carried
from coefdyn.widgets import Explorer

pytestmark = [
    pytest.mark.browser,
    pytest.mark.alone,
    pytest.mark.dear("JupyterLab and a kernel are started"),
]

CELLS = (
    "from coefdyn.widgets import Explorer\n"
    "explorer = Explorer('mamba2', length=12, parts=['matrix', 'numbers', 'controls'])\n"
    "explorer",
    "row = explorer.settings['row'] - 1\n"
    "print('decay', explorer.settings['decay'])\n"
    "print('sum', explorer.dynamics().coefficients()[row].sum().item())",
    "explorer.settings = {'decay': 0.6}",
)

#: a paragraph of a chapter: a box, a coloured symbol, a citation
PROSE = """:::{admonition} Goal
:class: goal
What $\\symA{t}$ does, by {cite:t}`sieber2025coefficient`.
:::"""

COLOR_OF_THE_LAST_CELL = """() => {
  const canvas = document.querySelector("[data-cd=matrix]");
  const at = [canvas.width, canvas.height].map((x) => Math.round(x * 0.9));
  return [...canvas.getContext("2d").getImageData(...at, 1, 1).data].slice(0, 3);
}"""


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def _wait_until_up(address: str, process: subprocess.Popen[bytes]) -> None:
    for _ in range(240):
        if process.poll() is not None:
            raise RuntimeError(f"JupyterLab ended with status {process.returncode}")
        try:
            with urllib.request.urlopen(f"{address}/api/status?token=t", timeout=2):
                return
        except OSError:
            time.sleep(0.25)
    raise TimeoutError("JupyterLab did not answer within a minute")


def _with_one_figure() -> nbformat.NotebookNode:
    """A committed chapter without the cells that show no figure."""
    notebook = nbformat.read(BOOK / "since" / "many_heads.ipynb", as_version=4)
    notebook.cells = [c for c in notebook.cells if VIEW in str(c.get("outputs", ""))]
    assert len(notebook.cells) == 1
    assert not carried(notebook)
    return notebook


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("lab")


@pytest.fixture(scope="module")
def lab(folder: Path) -> Iterator[str]:
    """A JupyterLab on a folder of notebooks; nothing of the user's own settings is read."""
    cells = [nbformat.v4.new_code_cell(source) for source in CELLS]
    cells.append(nbformat.v4.new_markdown_cell(PROSE))
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    notebook = nbformat.v4.new_notebook(cells=cells, metadata={"kernelspec": kernel})
    work = folder / "work"
    (work / "book").mkdir(parents=True)
    for name in ("edited", "explorer"):
        nbformat.write(notebook, work / "book" / f"{name}.ipynb")
    own = {f"JUPYTER_{name}_DIR": str(folder / name) for name in ("CONFIG", "DATA", "RUNTIME")}
    saved = _with_one_figure()
    nbformat.write(saved, work / "book" / "saved.ipynb")
    (folder / "DATA").mkdir()
    NotebookNotary(data_dir=own["JUPYTER_DATA_DIR"]).sign(saved)
    settings = {"JUPYTERLAB_SETTINGS_DIR": str(folder / "s")}
    settings["JUPYTERLAB_WORKSPACES_DIR"] = str(folder / "w")
    overrides = {"@jupyterlab/apputils-extension:notification": {"fetchNews": "false"}}
    place = folder / "s" / "@jupyterlab" / "apputils-extension"
    place.mkdir(parents=True)
    for name, value in overrides.items():
        (place / f"{name.split(':')[1]}.jupyterlab-settings").write_text(json.dumps(value))
    port = _free_port()
    command = [sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root"]
    command += [
        f"--ServerApp.port={port}",
        "--IdentityProvider.token=t",
        f"--ServerApp.root_dir={work}",
        "--ServerApp.contents_manager_class=book.tools.contents_manager.ChapterContents",
    ]
    process = subprocess.Popen(
        command,
        env={**os.environ, **own, **settings, "OMP_NUM_THREADS": "1"},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        _wait_until_up(f"http://127.0.0.1:{port}", process)
        yield f"http://127.0.0.1:{port}/lab/tree/book/explorer.ipynb?reset&token=t"
    finally:
        process.terminate()
        try:
            process.wait(timeout=30)
        except subprocess.TimeoutExpired:
            process.kill()  # its kernels watch it and end
            process.wait()


def open_lab(browser: Any, address: str) -> Any:
    """JupyterLab in a new page; the kernel it asks for when the machine stalls is chosen."""
    page = browser.new_page(viewport={"width": 1300, "height": 1200})

    def answer(dialog: Any) -> None:
        assert "Select Kernel" in dialog.inner_text()
        dialog.locator(".jp-mod-accept").click()

    page.add_locator_handler(page.locator("dialog.jp-Dialog"), answer)
    page.goto(address)
    return page


def _run_cell(page: Any, index: int) -> None:
    """Presses Control+Enter until the kernel takes the cell; at first it may not be listening.

    Where the page stalls a cell may be run twice, so its second run has to say what the first did.
    """
    cell = page.locator(".jp-Notebook .jp-CodeCell").nth(index)
    for _ in range(30):
        cell.locator(".cm-content").click()
        page.keyboard.press("Control+Enter")
        page.wait_for_timeout(1000)
        if cell.locator(".jp-InputPrompt").inner_text() != "[ ]:":
            return
    raise TimeoutError("the kernel did not take the cell")


def test_a_chapter_is_drawn_and_saved_as_it_was(lab: str, browser: Any, folder: Path) -> None:
    page = open_lab(browser, lab.replace("explorer.ipynb", "edited.ipynb"))
    prose = page.locator(".jp-MarkdownCell", has_text="Goal")
    prose.locator(".katex").wait_for(timeout=60_000)
    assert "symA" not in prose.locator(".katex-html").inner_text()
    colors = "e => [...e.querySelectorAll('[style*=color]')].map(x => getComputedStyle(x).color)"
    assert "rgb(65, 105, 225)" in prose.locator(".katex-html").evaluate(colors)
    citation = prose.locator("a", has_text="Sieber et al. (2025)")
    assert citation.get_attribute("href") == "https://arxiv.org/abs/2510.09389"
    page.locator(".jp-Notebook .jp-CodeCell .cm-content").first.click()
    page.keyboard.type("# edited\n")
    page.keyboard.press("Control+s")
    file = folder / "work" / "book" / "edited.ipynb"
    deadline = time.monotonic() + 20
    while "# edited" not in file.read_text() and time.monotonic() < deadline:
        page.wait_for_timeout(200)
    page.close()
    saved = nbformat.read(file, 4).cells
    assert "# edited" in saved[0].source
    assert [cell.source for cell in saved[1:]] == [*CELLS[1:], PROSE]


def test_slider_and_python_move_each_other(lab: str, browser: Any) -> None:
    page = open_lab(browser, lab)
    page.wait_for_selector(".jp-Notebook .jp-CodeCell", timeout=60_000)
    _run_cell(page, 0)
    slider = page.wait_for_selector("[data-cd=control-decay]", timeout=60_000)
    slider.scroll_into_view_if_needed()
    box = slider.bounding_box()
    before = page.inner_text("[data-cd=value-decay]")
    assert page.evaluate(COLOR_OF_THE_LAST_CELL) != [0, 0, 0], "the style sheet was not read"
    page.mouse.move(box["x"] + box["width"] * 0.65, box["y"] + box["height"] / 2)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 0.4, box["y"] + box["height"] / 2, steps=5)
    page.mouse.up()
    page.wait_for_function(
        "b => document.querySelector('[data-cd=value-decay]').textContent !== b", arg=before
    )
    dragged = float(page.inner_text("[data-cd=value-decay]"))
    shown = float(page.get_attribute("[data-cd=row-sum]", "data-value"))
    _run_cell(page, 1)
    output = page.locator(".jp-OutputArea-output pre", has_text="sum ").last
    output.wait_for(timeout=60_000)
    printed = output.inner_text().split()
    _run_cell(page, 2)
    value = page.locator("[data-cd=value-decay]")
    deadline = time.monotonic() + 60
    while value.text_content() != "0.6" and time.monotonic() < deadline:
        page.wait_for_timeout(200)
    assert value.text_content() == "0.6", page.locator(".jp-Notebook").inner_text()
    assert float(printed[1]) == dragged
    assert float(printed[3]) == pytest.approx(shown, rel=1e-9)
    explorer = Explorer("mamba2", length=12, decay=0.6)
    alpha = explorer.dynamics().coefficients()
    want = alpha[explorer.settings["row"] - 1].sum().item()
    assert float(page.get_attribute("[data-cd=row-sum]", "data-value")) == pytest.approx(want)
    page.close()


def test_a_trusted_chapter_has_its_figures_before_any_cell_has_run(lab: str, browser: Any) -> None:
    page = open_lab(browser, lab.replace("explorer.ipynb", "saved.ipynb"))
    page.locator("[data-cd=explorer] canvas").first.wait_for(timeout=120_000)
    figure = page.locator("[data-cd=explorer]").first
    ink = figure.evaluate("e => getComputedStyle(e).getPropertyValue('--cdx-ink')")
    assert ink, "the style sheet was not read"
    page.close()
