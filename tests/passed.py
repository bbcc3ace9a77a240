"""Which dear cases have passed on the files as they are; `pytest --sample` leaves them out.

A dear case with the mark ``reads("coefdyn/execution tests/gpu")`` names the files and folders that
its outcome depends on; its own file, the helpers in this folder, the pins and the system count too.
Too much named costs seconds, one file too few hides a fault until the run of all cases. `make test`
and `make test-all` write the digest of all these into `tests/golden/passed.json` when the case
passes, and `make test` leaves it out for as long as that is the digest of today's files. Modules
count without their comments and docstrings (`book/tools/digest.py`).
"""

from __future__ import annotations

import json
import platform
import sys
from collections.abc import Iterable
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
RECORD = ROOT / "tests" / "golden" / "passed.json"
HELPERS = sorted((ROOT / "tests").glob("*.py"))
#: what an evaluation of coefficients depends on
CORE = (
    "coefdyn/__init__.py coefdyn/dynamics coefdyn/execution coefdyn/first_use.py "
    "coefdyn/options.py coefdyn/progress.py coefdyn/shapes.py coefdyn/versions.py"
)
KERNELS = f"{CORE} tests/gpu"
MODELS = f"{CORE} coefdyn/analysis coefdyn/mixers coefdyn/models"
#: runs of the lab, in this process and in workers
RUNS = (
    f"{MODELS} coefdyn/lab/__init__.py coefdyn/lab/places.py coefdyn/lab/tasks "
    "coefdyn/lab/training coefdyn/lens/__init__.py"
)
#: other people's models, read and run
LENS = f"{MODELS} coefdyn/lens tests/lens"
#: what every page with figures depends on: the package, for what a test compares a page with
FIGURES = "_config.yml book/assets book/teaching book/tools coefdyn data/trained tests/browser"
#: of the folders that a case reads, the files that count
COUNTED = (".py", ".js", ".css", ".html", ".md", ".yml", ".json", ".npz", ".safetensors")


def of_page(name: str) -> str:
    """What a page of the book with that name ("principles/principle_4") depends on."""
    notebook = f"book/{name}.ipynb"
    return f"{FIGURES} book/{name}.md {notebook if (ROOT / notebook).exists() else ''}"


def that_passed(items: Iterable[pytest.Item], path: Path = RECORD) -> list[pytest.Item]:
    """The cases that passed on these files; all that say what they read are told their digests."""
    known, before = recorded(path), []
    for item in items:
        reads = item.get_closest_marker("reads")
        if reads:
            made = digest((*_always(item.path), *reads.args[0].split()))
            item.user_properties += [("made of", made)]
            before += [item] if known.get(item.nodeid) == made else []
    return before


def _always(own: Path) -> list[str]:
    """The test's own file, and the helpers of all tests."""
    return [path.relative_to(ROOT).as_posix() for path in (own, *HELPERS)]


@cache
def digest(places: tuple[str, ...], root: Path = ROOT) -> str:
    """The digest of system, pins and all files below; FileNotFoundError names a missing place."""
    from book.tools.digest import mark, pins_digest, short

    files: set[Path] = set()
    for place in places:
        path = root / place
        if not path.exists():
            raise FileNotFoundError(f"a test says that it reads {place}, which is not there")
        below = path.rglob("*") if path.is_dir() else [path]
        files.update(one for one in below if one == path or one.suffix in COUNTED)
    names = sorted(one.relative_to(root).as_posix() for one in files)
    system = sys.platform, platform.machine()
    return short([*system, pins_digest(root), *(mark(name, root) for name in names)])


def recorded(path: Path = RECORD) -> dict[str, str]:
    """Name of a case -> the digest it passed with. No file is no record, nor is a damaged one."""
    try:
        return dict(json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError):
        return {}


def record(passed: dict[str, str], failed: Iterable[str], path: Path = RECORD) -> None:
    """Write down what passed, and forget what failed and functions that are no more."""
    kept = {**recorded(path), **passed}
    for name in failed:
        kept.pop(name, None)
    there = {name: one for name, one in kept.items() if (ROOT / name.partition("::")[0]).exists()}
    if there != recorded(path):
        path.write_text(json.dumps(there, indent=0, sort_keys=True) + "\n", encoding="utf-8")
