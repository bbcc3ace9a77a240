"""The cost of a training run as Markdown, generated from ``throughput.json``."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from coefdyn.lab.pages.markdown import plain, table
from coefdyn.lab.places import data_folder

__all__ = ["MOST_SECONDS", "MOST_TIMES", "NOT_MEASURED", "load_throughput", "throughput_markdown"]

#: goals: core-seconds per 1500 steps of a run, and the largest multiple of a plain model's
MOST_SECONDS, MOST_TIMES = 40.0, 1.0
#: the row of the plain model through torch.compile
COMPILED = "plain torch, fused attention, compiled"
#: the command that writes the file
COMMAND = "python -m coefdyn.lab throughput --rounds 3 --keep"
NOT_MEASURED = f"Not measured yet: `{COMMAND}` does it, on a machine with nothing else to do."


def load_throughput(folder: Path | str | None = None) -> dict[str, Any] | None:
    """Load the kept measurement; None where there is none.

    Args:
        folder: where ``throughput.json`` lies; None for ``data/benchmarks``.
    """
    folder = data_folder() / "benchmarks" if folder is None else Path(folder)
    path = folder / "throughput.json"
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else None


def throughput_markdown(found: Mapping[str, Any] | None) -> str:
    """Core-seconds of a standard run of Principle 3 beside both goals, and a row for each way.

    Most kept standard runs were compiled, so that row is held against the goals where it was
    measured, and else the eager one.

    Args:
        found: what ``load_throughput`` returns.
    """
    if found is None:
        return NOT_MEASURED
    rows = {row["name"]: row for row in found["core_seconds"]}
    yardstick = found["core_seconds"][-1]["steps"]
    way = "compiled" if "compiled" in rows else "eager"
    seconds = rows[way]["steps"]
    told = (
        f"A standard run of Principle 3, {way}, takes {seconds:.1f} seconds of a core per 1500 "
        f"steps; the goal, at most {MOST_SECONDS:g}, is {_met(seconds <= MOST_SECONDS)}. That is "
        f"{seconds / yardstick:.2f} times what a plain torch model of the same size with fused "
        f"attention takes on one thread, as this one has; the goal, at most {MOST_TIMES:.1f}, is "
        f"{_met(seconds <= MOST_TIMES * yardstick)}."
    )
    if COMPILED in rows:
        as_well = rows[COMPILED]["steps"]
        told += (
            " The plain model of this ratio runs without torch.compile; compiled as well, "
            f"it takes {as_well:.1f} seconds, and the ratio is {seconds / as_well:.2f}."
        )
    cells = [
        [name, f"{row['steps']:.1f}", f"{row['steps'] / yardstick:.2f}", f"{row['start']:.1f}"]
        for name, row in rows.items()
    ]
    heads = ["way", "core-seconds per 1500 steps", "times plain torch", "start-up, seconds"]
    return f"{told}\n\n{table(heads, cells)}\n\n*{_caption(found)}*"


def _met(reached: bool) -> str:
    return "met" if reached else "not met"


def _caption(found: Mapping[str, Any]) -> str:
    """Size, machine, versions and day."""
    kept = found["provenance"]
    rounds = found["rounds"]
    middle = f", the median of {rounds} rounds" if rounds > 1 else ""
    words = [
        f"{found['steps']} steps of each way{middle}",
        f"{kept['device']}, {kept['cores']} cores",
        f"torch {kept['torch']}",
        f"python {kept['python']}",
        f"commit {kept['revision']}",
        kept["timestamp"][:10],
    ]
    if kept["load"] is not None:
        words.insert(2, f"{kept['load']:.1f} processes running before")
    return plain(", ".join(words) + ".")
