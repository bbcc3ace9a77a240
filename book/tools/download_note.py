"""The first cell of a committed notebook, for a reader who downloaded that file alone.

It says what the chapter needs and where that is. No source holds it and no page shows it: it is
written when a notebook is normalised, and its first tag keeps it out of the build.
"""

from __future__ import annotations

import tomllib
from typing import Any

import nbformat

from book.tools.chapters import ROOT

__all__ = ["TAG", "is_note", "note"]

TAG = "needs-of-a-notebook"


def is_note(cell: Any) -> bool:
    """Return whether a cell is such a first cell."""
    return TAG in cell["metadata"].get("tags", ())


def note() -> nbformat.NotebookNode:
    """Build the cell."""
    cell = nbformat.v4.new_markdown_cell(_text(_address()))
    cell.metadata = nbformat.from_dict({"tags": ["remove-cell", TAG]})
    return cell


def _text(address: str) -> str:
    where = f", {address}" if address else ""
    return (
        "> This notebook is a page of the book *Coefficient Dynamics*. It needs the library "
        f"`coefdyn` and the folder `data/`, both from the book's repository{where}: get that, and "
        "open the page there with `make lab`."
    )


def _address() -> str:
    """Address of the code, `Repository` in `[project.urls]` of `pyproject.toml`; empty without."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return str(project.get("urls", {}).get("Repository", ""))
