"""The book's evidence about a contest: the same rows on the scoreboard's tasks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from coefdyn.lab.experiments import get_experiment
from coefdyn.lab.experiments.forecasts import LEARNS
from coefdyn.lab.experiments.plan import STANDARD
from coefdyn.lab.experiments.result import Outcome, Result
from coefdyn.lab.experiments.rule import (
    HELD,
    MIN_SEEDS,
    NOT_HELD,
    UNDECIDED,
    above,
    has_solved,
    t_interval,
)
from coefdyn.options import check_choice

__all__ = ["opening", "standard_words"]

#: verdicts besides the rule's on a difference: both solved the task, or a row has too few seeds
SOLVED, OPEN = "solved", "open"


def standard_words(name: str, task: str, rows: Sequence[str]) -> str:
    """Mean accuracy of each row at the size that decides, or a note that the run is missing.

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


class _Compared(NamedTuple):
    """Two rows on a task: the verdict on their difference, and the mean accuracy of each."""

    task: str
    status: str
    row: float = 0.0
    before: float = 0.0

    @property
    def words(self) -> str:
        learned = max(self.row, self.before) >= LEARNS
        tail = "" if learned else ", though neither learns it"
        return f"{self.task} ({self.row:.2f} to {self.before:.2f}{tail})"


def opening(name: str, predecessor: str, row: str, *, result: Result | None = None) -> str:
    """Tasks where a row is ahead of its predecessor at the deciding size, and behind it: Markdown.

    A row is ahead on a task where the 90 % interval of the differences of accuracy, paired by
    seed, lies above 0, and behind where it lies below. A task that both solve cannot rank them,
    and one without four seeds of both counts as not run. The page of the experiment is linked, as
    from a chapter one folder below it.

    Args:
        name: an experiment with the facets "task" and "row", such as "scoreboard".
        predecessor: a row of it.
        row: likewise.
        result: what to read instead of the experiment's kept standard runs.

    Raises:
        ValueError: for an unknown experiment or row, naming the nearest one.
    """
    seen = get_experiment(name).load(STANDARD) if result is None else result
    rows = dict.fromkeys(variant.facets["row"] for variant in seen.variants)
    for one in (predecessor, row):
        check_choice("row", one, rows)
    of_rows = [v.facets["task"] for v in seen.variants if v.facets["row"] in (predecessor, row)]
    tasks = [task for task, rows_there in Counter(of_rows).items() if rows_there == 2]
    found = [_compared(seen, task, predecessor, row) for task in tasks]

    def of(status: str) -> list[_Compared]:
        return [one for one in found if one.status == status]

    ahead, behind = (
        [one.words for one in sorted(of(status), key=lambda one: -abs(one.row - one.before))]
        for status in (HELD, NOT_HELD)
    )
    same, solved, left = ([one.task for one in of(s)] for s in (UNDECIDED, SOLVED, OPEN))
    if len(left) == len(found):
        return "These runs have not been made yet."
    parts = []
    board = f"On the small tasks of the [{name}](../{name}.ipynb)"
    if ahead:
        parts.append(f"{board} **{row} is ahead of {predecessor}** at {_listed(ahead)}.")
    if behind:
        who = "It is" if ahead else f"{board} {row} is"
        versus = "" if ahead else f" {predecessor}"
        parts.append(f"{who} **behind**{versus} at {_listed(behind)}.")
    if not ahead and not behind:
        parts.append(f"{board} nothing run so far separates {row} from {predecessor}.")
    if solved:
        parts.append(f"Both solve {_listed(solved)}.")
    if same:
        parts.append(f"On {_listed(same)} the seeds do not tell the two apart.")
    if left:
        parts.append(f"Not run with enough seeds so far: {_listed(left)}.")
    if ahead or behind:
        parts.append(
            "*Ahead* and *behind* mean that the 90 % interval of the differences, seed by seed, "
            "leaves out 0, which one such interval in ten does by chance."
        )
    return " ".join(parts)


def _compared(result: Result, task: str, predecessor: str, row: str) -> _Compared:
    first, second = (result.one(task=task, row=one) for one in (row, predecessor))
    if first is None or second is None:
        return _Compared(task, OPEN)
    values = [_by_seed(first), _by_seed(second)]
    seeds = [seed for seed in values[0] if seed in values[1]]
    if len(seeds) < MIN_SEEDS:
        return _Compared(task, OPEN)
    mine, others = ([one[seed] for seed in seeds] for one in values)
    means = sum(mine) / len(seeds), sum(others) / len(seeds)
    if has_solved(mine) and has_solved(others):
        return _Compared(task, SOLVED, *means)
    differences = [a - b for a, b in zip(mine, others, strict=True)]
    return _Compared(task, above(t_interval(differences), 0.0), *means)


def _by_seed(outcome: Outcome) -> dict[int, float]:
    return dict(zip(outcome.seeds, outcome.values(), strict=True))


def _listed(words: Sequence[str]) -> str:
    """List one, two or three of them as in a sentence."""
    return " and ".join([*([", ".join(words[:-1])] if words[1:] else []), *words[-1:]])
