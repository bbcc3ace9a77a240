"""Comparison of two executions of a chapter; figures and ignored cells are left out."""

from __future__ import annotations

import nbformat

from book.tools.download_note import is_note
from book.tools.normalize import tags

IGNORED = {"nbval-ignore-output", "nbval-skip"}


def comparable(text: str) -> list[str]:
    """Outputs that two executions must agree on, one entry per cell, without figures."""
    cells = nbformat.reads(text, as_version=4).cells
    return [_without_figures(cell) for cell in cells if not is_note(cell)]


def _without_figures(cell: nbformat.NotebookNode) -> str:
    outputs = [] if IGNORED & set(tags(cell)) else cell.get("outputs", [])
    shown = []
    for output in outputs:
        data = {k: v for k, v in output.get("data", {}).items() if not k.startswith("image/")}
        shown.append({**output, "data": data})
    return f"{cell.cell_type}\0{cell.source}\0{shown!r}"


def differences(before: str, after: str) -> str:
    """Describe in one phrase how a new execution compares with the one before."""
    if before == after:
        return "the same file as before"
    try:
        old, new = comparable(before), comparable(after)
    except Exception:  # whatever nbformat stumbles over: a merge's marks, a torn file
        return "in place of a file that was no notebook"
    if old == new:
        return "the same as before but for figures and ignored cells"
    if len(old) != len(new):
        return "changed cells"
    code = [i for i, (a, b) in enumerate(zip(old, new, strict=True), start=1) if a != b]
    return f"changed in cell(s) {', '.join(map(str, code))}"


def same_but_for_pictures(before: str, after: str) -> bool:
    """Return whether two executions differ at most in drawn figures and ignored cells.

    The head, every cell with its tags, and the states of all interactive figures have to agree.
    """
    try:
        old, new = (nbformat.reads(text, as_version=4) for text in (before, after))
    except Exception:  # whatever nbformat stumbles over: a merge's marks, a torn file
        return False
    tagged = [[cell.metadata for cell in one.cells] for one in (old, new)]
    heads = old.metadata == new.metadata
    return heads and tagged[0] == tagged[1] and comparable(before) == comparable(after)
