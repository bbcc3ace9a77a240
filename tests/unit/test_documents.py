"""The documents name commands that run and files that exist."""

from __future__ import annotations

import importlib.util
import re
import subprocess

import pytest

from book.tools.chapters import ROOT

DOCUMENTS = [
    *ROOT.glob("*.md"),
    *(ROOT / "data").rglob("*.md"),
    *(ROOT / "book").glob("*.md"),
    ROOT / "Makefile",
    ROOT / ".ci" / "run",
    ROOT / "conftest.py",
    *(ROOT / "coefdyn" / "lab").rglob("*.py"),
]
COMMAND = re.compile(r"(?:python3?|\$\(PY\)) -m ((?:coefdyn|book)[\w.]*\w)")
FILE = re.compile(r"`((?:coefdyn|book|tests|data)/[\w./-]+\.(?:py|md|yml|cfg|js|json))`")
TARGET = re.compile(r"`make ([a-z][a-z-]*)")
#: told as history, or made by a command
HISTORY = ("LOG.md", "CHANGELOG.md")


def named(pattern: re.Pattern[str], skip: tuple[str, ...] = ()) -> list[tuple[str, str]]:
    """(document, what it names), once each."""
    texts = ((one, one.read_text(encoding="utf-8")) for one in DOCUMENTS if one.name not in skip)
    found = {(one.relative_to(ROOT).as_posix(), n) for one, t in texts for n in pattern.findall(t)}
    return sorted(found)


@pytest.mark.parametrize(("document", "module"), named(COMMAND))
def test_a_command_of_a_document_can_be_run(document: str, module: str) -> None:
    """A package is run by its `__main__`."""
    spec = importlib.util.find_spec(module)
    assert spec is not None, f"{document}: there is no {module}"
    if spec.submodule_search_locations is not None:
        assert importlib.util.find_spec(f"{module}.__main__"), f"{document}: {module} does not run"


@pytest.mark.parametrize(("document", "path"), named(FILE, HISTORY))
def test_a_file_of_a_document_exists(document: str, path: str) -> None:
    ignored = subprocess.run(["git", "check-ignore", "-q", path], cwd=ROOT, check=False)
    written = path in ("data/benchmarks/gpu.json",)
    assert (ROOT / path).exists() or ignored.returncode == 0 or written, document


def test_make_knows_every_target_that_is_named() -> None:
    targets = set(re.findall(r"^([a-z][a-z-]*):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert {name for _, name in named(TARGET, HISTORY)} <= targets
