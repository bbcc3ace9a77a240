"""Joins the small files of `js` into the text that a page's worker runs."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from coefdyn.widgets.lean import lean_script

__all__ = ["ENGINE", "TASKS", "engine_source", "join", "tasks_source"]

_JS = Path(__file__).parent / "js"

#: draws as torch makes them, and the tasks that are made of them
TASKS = tuple(
    f"tasks/{name}"
    for name in ("generator", "recall", "mqar", "copying", "keeping", "tracking", "tasks")
)

#: forward, backward and optimiser; weights are drawn with tasks/generator
ENGINE = tuple(
    f"engine/{name}"
    for name in (
        "space",
        "simd",
        "linear",
        "gates",
        "readout",
        "rows",
        "scores",
        "projections",
        "design_mixer",
        "blocks",
        "cross_entropy",
        "trouble",
        "options",
        "sequence_model",
        "adamw",
        "checkpoint",
    )
)


def join(names: tuple[str, ...]) -> str:
    """The named files one after another, without comments and indentation."""
    texts = ((_JS / f"{name}.js").read_text(encoding="utf-8") for name in names)
    return "\n".join(map(lean_script, texts))


@cache
def tasks_source() -> str:
    """The tasks alone, as plain top-level functions."""
    return join(TASKS)


@cache
def engine_source() -> str:
    """The model, its gradient and its optimiser alone, as plain top-level functions."""
    return join((TASKS[0], *ENGINE))
