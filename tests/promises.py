"""Every command, option, public name and file that the documents of the project name.

    python tests/promises.py > tests/golden/promises.txt

writes the list of this checkout. ``broken`` says which promises of a list are no longer kept; those
of ``tests/golden/gone.txt`` were taken back, each with what does its work now.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import re
import runpy
import sys
from functools import cache
from importlib.util import find_spec
from itertools import takewhile
from pathlib import Path
from unittest.mock import patch

ROOT = Path(__file__).resolve().parents[1]
#: files whose paths are promises; what a build or a run writes is none
FILE = re.compile(r"(?<![\w/.-])((?:coefdyn|book|tests|data)/[\w./-]*\w)")
WRITTEN = ("book/_build", "data/scratch")
MAKE = re.compile(r"(?<![\w-])make ([a-z]+(?:-[a-z]+)*)((?: [A-Z_]+=\S+)*)")
PYTHON = re.compile(r"python3? -m (coefdyn[a-z_.]*|book\.tools\.\w+)([^`\n]*)")
OPTION = re.compile(r"(?<!\S)--[a-z][a-z-]*")
MODULE = re.compile(r"^\.\. automodule:: (\S+)", flags=re.MULTILINE)


def documents(root: Path) -> dict[str, str]:
    paths = [root / "README.md", root / "CONTRIBUTING.md", *sorted(root.glob("book/**/*.md"))]
    return {
        path.relative_to(root).as_posix(): path.read_text(encoding="utf-8")
        for path in paths
        if "_build" not in path.parts
    }


def promises(root: Path = ROOT) -> list[str]:
    """One promise a line, ``kind what``, sorted."""
    makefile = (root / "Makefile").read_text(encoding="utf-8")
    found: set[str] = set()
    for text in documents(root).values():
        for target, given in MAKE.findall(text):
            if re.search(rf"^{target}:", makefile, flags=re.MULTILINE):
                found.add(f"make {target}")
                found |= {f"make {target} {one.partition('=')[0]}" for one in given.split()}
        for module, rest in PYTHON.findall(text):
            names = takewhile(re.compile(r"[a-z][a-z-]+").fullmatch, rest.split())
            command = " ".join(["command", module, *names])
            found |= {command, *(f"{command} {option}" for option in OPTION.findall(rest))}
        for path in FILE.findall(text):
            if not path.startswith(WRITTEN) and (root / path).exists():
                found.add(f"file {path}")
        for module in MODULE.findall(text):
            names = getattr(importlib.import_module(module), "__all__", ())
            found |= {f"name {module}", *(f"name {module}.{one}" for one in names)}
    return sorted(found)


def broken(listed: list[str], root: Path = ROOT) -> list[str]:
    """The promises of a list that this checkout does not keep."""
    return [one for one in listed if not _kept(one, root)]


def _kept(promise: str, root: Path) -> bool:
    kind, *words = promise.split()
    if kind == "file":
        return (root / words[0]).exists()
    if kind == "make":
        makefile = (root / "Makefile").read_text(encoding="utf-8")
        target = re.search(rf"^{words[0]}:", makefile, flags=re.MULTILINE)
        return bool(target) and all(f"$({one}" in makefile for one in words[1:])
    if kind == "name":
        return _importable(words[0])
    options = [one for one in words if one.startswith("--")]
    said = _help(*(one for one in words if one not in options))
    return said is not None and all(option in said for option in options)


def _importable(name: str) -> bool:
    module, _, attribute = name.rpartition(".")
    try:
        return importlib.import_module(name) is not None
    except ImportError:
        try:
            return hasattr(importlib.import_module(module), attribute)
        except ImportError:
            return False


@cache
def _help(module: str, *command: str) -> str | None:
    """What ``python -m MODULE COMMAND --help`` prints; None where there is no such command."""
    spec = find_spec(module)
    if spec is None or spec.origin is None:
        return None
    if not spec.submodule_search_locations and "__main__" not in Path(spec.origin).read_text(
        "utf-8"
    ):
        return None  # it can be imported, and does nothing when run
    said = io.StringIO()
    with patch.object(sys, "argv", [module, *command, "--help"]), contextlib.redirect_stdout(said):
        try:
            with contextlib.redirect_stderr(io.StringIO()):
                runpy.run_module(module, run_name="__main__", alter_sys=False)
        except SystemExit as stop:
            return None if stop.code else said.getvalue()
        except ImportError:
            return None
    return said.getvalue()


if __name__ == "__main__":
    print("\n".join(promises()))
