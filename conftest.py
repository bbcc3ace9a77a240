"""Settings for every pytest run: of `tests/` and of the notebooks (`pytest --nbval book/`)."""

from __future__ import annotations

import os
from pathlib import Path

# One thread per process, before anything imports torch; notebook kernels inherit it.
for _name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(_name, "1")
os.environ.setdefault("PYTHONHASHSEED", "0")
# The library of this checkout, whichever one the environment was made for.
_path = [str(Path(__file__).parent), *filter(None, [os.environ.get("PYTHONPATH")])]
os.environ["PYTHONPATH"] = os.pathsep.join(_path)
# The kernel of this environment, not one of the same name in the reader's home.
os.environ.setdefault("JUPYTER_PREFER_ENV_PATH", "1")
os.environ.setdefault("JUPYTER_PLATFORM_DIRS", "1")

SANITIZERS = Path(__file__).parent / "book" / "tools" / "nbval.cfg"

collect_ignore_glob = ["book/_build/*", "book/*/.ipynb_checkpoints/*"]


def pytest_configure(config) -> None:
    """Notebooks run on this environment's kernel, compared after sanitising; no options needed."""
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
