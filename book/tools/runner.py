"""Run one chapter with papermill in a process of its own, and report what went wrong."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import nbformat
import yaml

from book.tools.chapters import BUILD, ROOT, Chapter
from book.tools.digest import Execution, execution, read_source
from book.tools.normalize import KERNEL, as_shown, tags

#: papermill, in a process that needs no grammar of addresses (see `book/tools/__init__.py`)
PAPERMILL = """import sys
sys.modules["rfc3987_syntax"] = None
from papermill.cli import papermill
papermill()"""
ANSI = re.compile(r"\x1b\[[0-9;]*m")
#: papermill's last words when the kernel went before its first answer
NEVER_READY = "Kernel died before replying to kernel_info"

#: its `sitecustomize.py` notes what each process of an execution opens
WATCH = ROOT / "book" / "tools" / "watch"
#: One thread per kernel: chapters run beside each other, and sums come out in one order. The path
#: starts at this checkout: an environment that was copied with it still names the other's library.
KERNEL_ENVIRONMENT = {
    "PYTHONPATH": os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")])),
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "PYTHONHASHSEED": "0",
    "JUPYTER_PREFER_ENV_PATH": "1",
    "JUPYTER_PLATFORM_DIRS": "1",
    "PYDEVD_DISABLE_FILE_VALIDATION": "1",
}


@dataclass(frozen=True, kw_only=True)
class Failure:
    """Location of a chapter's failure: the number of the code cell, its first line, the error."""

    chapter: str
    cell: int | None
    line: str
    error: str

    def __str__(self) -> str:
        where = f"code cell {self.cell} ({self.line})" if self.cell else "before its first cell"
        return f"{self.chapter}, {where}: {self.error}"


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """Result of one run: papermill's executed notebook, seconds, and the failure if any.

    made_from holds what was executed, and the files that its processes opened.
    """

    chapter: Chapter
    made_from: Execution
    notebook: nbformat.NotebookNode
    seconds: float
    failure: Failure | None


def parameter_cell(notebook: nbformat.NotebookNode) -> nbformat.NotebookNode | None:
    """The cell tagged `parameters`, None when the chapter has none."""
    return next((cell for cell in notebook.cells if "parameters" in tags(cell)), None)


def accepts(notebook: nbformat.NotebookNode, parameter: str) -> bool:
    """Return whether the chapter's parameters cell sets this name."""
    cell = parameter_cell(notebook)
    return cell is not None and bool(
        re.search(rf"^{re.escape(parameter)}\s*[:=]", cell.source, re.MULTILINE)
    )


def run(chapter: Chapter, parameters: dict[str, object], scratch: Path = BUILD / "run") -> Outcome:
    """Execute the chapter's source in its own folder on this environment's kernel.

    What papermill reads and writes lies in a folder that no other process knows. A kernel is told
    its ports before it takes them, so another process can be quicker, and the kernel dies before
    its first cell: it is started once more.
    """
    scratch.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=scratch, ignore_cleanup_errors=True) as private:
        return _run_in(Path(private), chapter, parameters)


def _run_in(private: Path, chapter: Chapter, parameters: dict[str, object]) -> Outcome:
    given, taken = private / "given.ipynb", private / "taken.ipynb"
    source, began = read_source(chapter), time.time()
    source.metadata.kernelspec = nbformat.from_dict(KERNEL)
    nbformat.write(source, given)
    command = [sys.executable, "-c", PAPERMILL, str(given), str(taken), "--kernel", "python3"]
    command += ["--cwd", str(chapter.folder), "--no-progress-bar", "--start-timeout", "180"]
    mine = {name: value for name, value in parameters.items() if accepts(source, name)}
    if mine:
        command += ["--parameters_yaml", yaml.safe_dump(mine)]
    log = private / "opened"
    env = os.environ | KERNEL_ENVIRONMENT
    env |= {"COEFDYN_OPENED": str(log), "COEFDYN_ROOT": str(ROOT)}
    env["PYTHONPATH"] = os.pathsep.join([str(WATCH), env["PYTHONPATH"]])
    start = time.monotonic()
    for _ in range(2):
        done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
        if NEVER_READY not in done.stderr:
            break
    seconds = time.monotonic() - start
    opened = log.read_text(encoding="utf-8").splitlines() if log.exists() else []
    notebook = nbformat.read(taken if taken.exists() else given, as_version=4)
    if done.returncode:
        failure: Failure | None = find_failure(chapter, notebook, done.stderr)
    else:
        failure = find_warning(chapter, notebook) or find_unexecuted(chapter, notebook)
    return Outcome(
        chapter=chapter,
        made_from=execution(source, opened, began),
        notebook=notebook,
        seconds=seconds,
        failure=failure,
    )


def find_warning(chapter: Chapter, notebook: nbformat.NotebookNode) -> Failure | None:
    """First cell that wrote to stderr, which a reader would see as a warning in red.

    A cell that is meant to fail may; so may a bar of progress, which wipes itself away.
    """
    for number, line, cell in code_cells(notebook):
        words = "".join(o.text for o in cell.outputs if o.get("name") == "stderr")
        left = [one for one in as_shown(words).splitlines() if one.strip()]
        if left and "raises-exception" not in tags(cell):
            return Failure(chapter=chapter.name, cell=number, line=line, error=f"warned: {left[0]}")
    return None


def find_unexecuted(chapter: Chapter, notebook: nbformat.NotebookNode) -> Failure | None:
    """The first cell with code that no kernel has run."""
    for number, line, cell in code_cells(notebook):
        if cell.source.strip() and cell.execution_count is None:
            return Failure(chapter=chapter.name, cell=number, line=line, error="was not executed")
    return None


def code_cells(notebook: nbformat.NotebookNode) -> Iterator[tuple[int, str, nbformat.NotebookNode]]:
    """Number, first line and cell of every code cell of the source."""
    cells = [c for c in notebook.cells if c.cell_type == "code"]
    for number, cell in enumerate((c for c in cells if "injected-parameters" not in tags(c)), 1):
        yield number, next(iter(cell.source.splitlines()), ""), cell


def find_failure(chapter: Chapter, notebook: nbformat.NotebookNode, log: str) -> Failure:
    """Name cell and error: the cell that holds an error, else the last one that was begun.

    A kernel that dies leaves no error in its cell.
    """
    last = next((line for line in reversed(log.splitlines()) if line.strip()), "no message")
    where: tuple[int | None, str] = (None, "")
    for number, line, cell in code_cells(notebook):
        error = next((o for o in cell.outputs if o.output_type == "error"), None)
        if error and "raises-exception" not in tags(cell):
            where, last = (number, line), f"{error.ename}: {error.evalue}"
            break
        if cell.metadata.get("papermill", {}).get("start_time"):
            where = (number, line)
    text = ANSI.sub("", last)
    return Failure(chapter=chapter.name, cell=where[0], line=where[1], error=text)
