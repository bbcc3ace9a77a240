"""Settings for every pytest run: of `tests/` and of the notebooks (`pytest --nbval book/`)."""

from __future__ import annotations

import json
import os
import sys
import time
from functools import cache
from pathlib import Path

# One thread per process, before anything imports torch; notebook kernels inherit it.
for _name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(_name, "1")
os.environ.setdefault("PYTHONHASHSEED", "0")
# For the tests that import nbformat: 2.5 seconds a process (see `book/tools/__init__.py`).
sys.modules.setdefault("rfc3987_syntax", None)  # type: ignore[arg-type]
# The library of this checkout, whichever one the environment was made for.
_path = [str(Path(__file__).parent), *filter(None, [os.environ.get("PYTHONPATH")])]
os.environ["PYTHONPATH"] = os.pathsep.join(_path)
# The kernel of this environment, not one of the same name in the reader's home.
os.environ.setdefault("JUPYTER_PREFER_ENV_PATH", "1")
os.environ.setdefault("JUPYTER_PLATFORM_DIRS", "1")

SANITIZERS = Path(__file__).parent / "book" / "tools" / "nbval.cfg"

#: `--sample` takes one of so many parts of the executed chapters each day, and another the next
TURNS = 3
#: seconds that a chapter without a record counts for
NEW = 10.0

collect_ignore_glob = ["book/_build/*", "book/*/.ipynb_checkpoints/*"]


def pytest_addoption(parser) -> None:
    parser.addoption(
        "--sample",
        action="store_true",
        help="a covering sample of the products of parameters, and a third of the chapters in turn",
    )
    parser.addoption(
        "--notes", metavar="FILE", help="add what the tests cost, and which did not run, to a file"
    )


def pytest_configure(config) -> None:
    """Notebooks run on this environment's kernel, compared after sanitising; no options needed."""
    # Said once for the processes of a run, which may end on another day.
    os.environ.setdefault("COEFDYN_TURN", str(int(time.time() // 86400) % TURNS))
    if config.option.notes and not hasattr(config, "workerinput"):
        from price import Notes

        config.pluginmanager.register(Notes(Path(config.option.notes)), "notes")
    if getattr(config.option, "nbval", False) or getattr(config.option, "nbval_lax", False):
        config.option.nbval_kernel_name = None
        config.option.nbval_current_env = True
        config.option.nbval_sanitize_with = config.option.nbval_sanitize_with or str(SANITIZERS)
        config.option.nbval_kernel_startup_timeout = 180
        _run_cells_as_notebooks_do()


def _run_cells_as_notebooks_do() -> None:
    """Have nbval run cells with history, as Jupyter does.

    Without it IPython does not see the `;` that ends a cell and shows its last value all the same.
    """
    from nbval.kernel import RunningKernel

    def execute_cell_input(self, cell_input: str, allow_stdin: bool | None = None) -> str:
        return self.kc.execute(cell_input, allow_stdin=allow_stdin, stop_on_error=False)

    RunningKernel.execute_cell_input = execute_cell_input


def pytest_ignore_collect(collection_path: Path, config) -> bool | None:
    """With `--sample` two thirds of the chapters wait for their day; stale ones never do."""
    if collection_path.suffix != ".ipynb" or not config.option.sample:
        return None
    return None if collection_path in _chapters_in_turn() else True


@cache
def _chapters_in_turn() -> set[Path]:
    from book.tools.execute import stale

    chosen = _turns()[int(os.environ["COEFDYN_TURN"])]
    chosen += [one for turn in _turns() for one in turn if one not in chosen and stale(one)]
    return {chapter.notebook for chapter in chosen}


@cache
def _seconds() -> dict[str, float]:
    """What the chapters took in their last executions that were recorded, by name."""
    from book.tools.execute import RUNTIMES

    return json.loads(RUNTIMES.read_text(encoding="utf-8"))["seconds"]["quick"]


def _turns() -> list[list]:
    """The chapters in turns that take about as long as each other, the longest chapters first."""
    from book.tools.chapters import find_chapters

    turns, took = [[] for _ in range(TURNS)], [0.0] * TURNS
    for chapter in sorted(find_chapters(), key=lambda one: -_seconds().get(one.name, NEW)):
        least = took.index(min(took))
        turns[least].append(chapter)
        took[least] += _seconds().get(chapter.name, NEW)
    return turns


def pytest_collection_modifyitems(config, items) -> None:
    """Long chapters begin first, so that no worker waits for the last one."""
    if getattr(config.option, "nbval", False):
        items.sort(key=_place_of)


def _place_of(item) -> float:
    book = Path(__file__).parent / "book"
    return -_seconds().get(item.path.relative_to(book).with_suffix("").as_posix(), NEW)
