"""The book's evidence about a contest: the same rows on the scoreboard's tasks."""

from __future__ import annotations

from collections.abc import Sequence

from coefdyn.lab.experiments import get_experiment
from coefdyn.lab.experiments.plan import STANDARD

__all__ = ["standard_words"]


def standard_words(name: str, task: str, rows: Sequence[str]) -> str:
    """Mean accuracy of each row at standard size, or a note that the run is missing.

    Args:
        name: an experiment with the facets "task" and "row", such as "scoreboard".
        task: as the experiment calls it.
        rows: likewise.

    Raises:
        ValueError: for an unknown experiment, naming the nearest one.
    """
    result = get_experiment(name).load(STANDARD)
    lines = []
    for row in rows:
        outcome = result.one(task=task, row=row)
        if outcome is None or not outcome.records:
            lines.append(f"{row:24}not run")
        else:
            lines.append(f"{row:24}{outcome.accuracy:.2f}  (seeds: {len(outcome.records)})")
    return "\n".join([f"standard size, task {task!r}:", *lines])
