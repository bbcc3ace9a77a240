"""Joins the small files of `js` into the text that a page's worker runs."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

from coefdyn.widgets.lean import lean_script, lean_style
from coefdyn.widgets.source import join_files, pack

__all__ = [
    "ENGINE",
    "TASKS",
    "engine_source",
    "join",
    "page_source",
    "tasks_source",
    "worker_source",
]

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

#: the figure; what it draws with is the explorer's and the training film's
DRAWING = ("text", "theme", "dom", "matrix", "small", "film_draw", "film")
NUMBERS = ("tokens", "math", "blend")
PAGE = tuple(
    f"page/{name}"
    for name in (
        "settings",
        "pace",
        "lane",
        "words",
        "curves",
        "look",
        "train_controls",
        "keep",
        "run",
        "trainer",
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


def worker_source(offered: dict[str, Any]) -> str:
    """What the worker runs: tasks, engine, and the run that they make.

    Args:
        offered: what the page offers, ``coefdyn.lab.train.offers.offered()``.
    """
    return f"{_constant(offered)}\n{join((*TASKS, *ENGINE, 'worker/trainer'))}"


@cache
def page_source(offered: str) -> str:
    """The module of the figure, compressed; its worker's text travels in it.

    Args:
        offered: as for ``worker_source``, in JSON, so that equal figures share a module.
    """
    values = json.loads(offered)
    worker = json.dumps(worker_source(values), ensure_ascii=False)
    parts = [
        join_files((*NUMBERS, *DRAWING)),
        _constant(values),
        f"const trainWorkerText = () => {worker};",
        f"const TRAIN_STYLE = {json.dumps(_own_style(), ensure_ascii=False)};",
        join((*TASKS, *PAGE)),
        "export default { render: renderTrainer };",
    ]
    return pack("\n".join(parts))


def _constant(offered: dict[str, Any]) -> str:
    return f"const TRAIN = {json.dumps(offered, ensure_ascii=False, separators=(',', ':'))};"


def _own_style() -> str:
    """What this figure adds to the explorer's stylesheet.

    It travels in the module: a page that has the explorer's stylesheet already carries no second.
    """
    return lean_style((Path(__file__).parent / "css" / "train.css").read_text(encoding="utf-8"))
