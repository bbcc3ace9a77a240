"""Joins the small files of `js` into the text that a page's worker runs."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from coefdyn.widgets.lean import lean_script

__all__ = ["TASKS", "join", "tasks_source"]

_JS = Path(__file__).parent / "js"

#: draws as torch makes them, and the tasks that are made of them
TASKS = tuple(
    f"tasks/{name}"
    for name in ("generator", "recall", "mqar", "copying", "keeping", "tracking", "tasks")
)


def join(names: tuple[str, ...]) -> str:
    """The named files one after another, without comments and indentation."""
    texts = ((_JS / f"{name}.js").read_text(encoding="utf-8") for name in names)
    return "\n".join(map(lean_script, texts))


@cache
def tasks_source() -> str:
    """The tasks alone, as plain top-level functions."""
    return join(TASKS)
