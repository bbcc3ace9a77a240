"""Runs of chapters on a changed copy of the library, for the tests of what a digest covers."""

from __future__ import annotations

import ast
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import nbformat
from nbclient import NotebookClient

from book.tools.chapters import ROOT, Chapter
from book.tools.definitions import PACKAGE, is_docstring
from book.tools.digest import read_source
from book.tools.imports import Library
from book.tools.normalize import KERNEL, STATE, normalize, tags
from book.tools.reproduce import IGNORED
from book.tools.runner import KERNEL_ENVIRONMENT

#: Runs before anything else in the kernel: writes each function of the library that is called,
#: unless that happens while a module is imported.
TRACER = """
import os, sys, threading

called, held = set(), []
below = os.environ["TRACED"] + os.sep

def trace(frame, event, argument):
    code = frame.f_code
    if code.co_filename.startswith(below) and id(code) not in called:
        above = frame
        while above is not None:
            inside = above.f_code.co_filename.startswith(below)
            if inside and above.f_code.co_name == "<module>":
                return
            above = above.f_back
        called.add(id(code))
        held.append(code)  # an id is another's once its object is gone
        with open(os.environ["CALLED"], "a") as out:
            print(code.co_filename, code.co_firstlineno, file=out)

threading.settrace(trace)
sys.settrace(trace)
"""


#: What a page is sent is no output.
SENT = ("_esm", "_css")


class Copy:
    """A copy of the library below a folder, whose constants can be changed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        without = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / PACKAGE, folder / PACKAGE, ignore=without)
        (folder / "data").symlink_to(ROOT / "data")
        shutil.copy(ROOT / "pyproject.toml", folder)
        (folder / "hook").mkdir()
        (folder / "hook" / "sitecustomize.py").write_text(TRACER)
        self.library = Library(folder)

    def path(self, module: str) -> Path:
        base = self.folder.joinpath(*module.split("."))
        return base / "__init__.py" if base.is_dir() else base.with_suffix(".py")

    def change(self, constants: Iterable[tuple[str, ast.Constant]]) -> None:
        """Write the library with these constants changed: numbers plus one, strings with an x."""
        lines: dict[str, list[bytes]] = {}
        for module, one in sorted(constants, key=lambda pair: -pair[1].col_offset):
            text = lines.setdefault(module, self.path(module).read_bytes().splitlines(True))
            line, new = text[one.lineno - 1], repr(_changed(one.value)).encode()
            text[one.lineno - 1] = line[: one.col_offset] + new + line[one.end_col_offset :]
        for module, text in lines.items():
            self.path(module).write_bytes(b"".join(text))

    def restore(self) -> None:
        for path in (ROOT / PACKAGE).rglob("*.py"):
            shutil.copy(path, self.folder / path.relative_to(ROOT))

    def refuses(self) -> set[str]:
        """The modules on the way to an error, where one is raised while all are imported."""
        code = f"import importlib\nfor name in {[*self.library.modules]}:\n"
        code += "    if not name.endswith('__main__'): importlib.import_module(name)"
        done = subprocess.run(
            [sys.executable, "-c", code],
            env=os.environ | {"PYTHONPATH": str(self.folder), "PYTHONDONTWRITEBYTECODE": "1"},
            cwd=self.folder,
            capture_output=True,
            text=True,
            check=False,
        )
        return {name for name in self.library.modules if f'"{self.path(name)}"' in done.stderr}

    def run(self, chapter: Chapter) -> tuple[list[str], set[tuple[str, int]]]:
        """The outputs of a chapter's cells, figures included, and what it called: file and line.

        Cells whose outputs are others each time (seconds of this machine) are left out.
        """
        called = self.folder / "called.txt"
        called.write_text("")
        notebook = read_source(chapter)
        notebook.metadata.kernelspec = nbformat.from_dict(KERNEL)
        own = {
            "PYTHONPATH": f"{self.folder / 'hook'}{os.pathsep}{self.folder}",
            "PYTHONDONTWRITEBYTECODE": "1",
            "TRACED": str(self.folder / PACKAGE),
            "CALLED": str(called),
        }
        where = {"metadata": {"path": str(chapter.folder)}}
        client = NotebookClient(notebook, timeout=1500, allow_errors=True, resources=where)
        client.execute(env=os.environ | KERNEL_ENVIRONMENT | own)
        cells = [c for c in normalize(notebook).cells if c.cell_type == "code"]
        shown = [c.outputs for c in cells if not IGNORED & set(tags(c))]
        for model in notebook.metadata.get("widgets", {}).get(STATE, {}).get("state", {}).values():
            shown.append({k: v for k, v in model["state"].items() if k not in SENT})
        lines = (line.rsplit(" ", 1) for line in called.read_text().splitlines())
        return (
            [json.dumps(one, sort_keys=True) for one in shown],
            {(path, int(line)) for path, line in lines},
        )


def constants(library: Library) -> Iterator[tuple[str, ast.Constant]]:
    """Module and place of the numbers and strings in what the library defines.

    Docstrings, annotations, parts of f-strings and `__all__` are left out, and strings that go
    over several lines.
    """
    for module in library.modules.values():
        bound = [one for name, all_ in module.bound.items() if name != "__all__" for one in all_]
        for statement in {id(one): one for one in bound}.values():
            for one in _evaluated(statement):
                plain = isinstance(one, ast.Constant) and type(one.value) in (int, float, str)
                if plain and one.lineno == one.end_lineno:
                    yield module.name, one


def _evaluated(node: ast.AST) -> Iterator[ast.AST]:
    yield node
    for name, value in ast.iter_fields(node):
        if name not in ("annotation", "returns"):
            for one in value if isinstance(value, list) else [value]:
                left_out = is_docstring(one) or isinstance(one, ast.JoinedStr)
                if isinstance(one, ast.AST) and not left_out:
                    yield from _evaluated(one)


def _changed(value: float | str) -> float | str:
    return f"{value}x" if isinstance(value, str) else value + 1
