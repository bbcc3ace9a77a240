"""Difficulty of training a design, from the pilots that chose its learning rate; no training.

A pilot trains a design at several learning rates and keeps every curve. What it chose is in the
verdicts; what it did not choose says how much hangs on the choice.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping
from dataclasses import dataclass

from coefdyn.lab.experiments.plan import Plan, Setting, Variant
from coefdyn.lab.experiments.result import Outcome, Result
from coefdyn.lab.pages.markdown import table
from coefdyn.lab.training import Record

__all__ = ["Tried", "optimisation_markdown", "tried"]

#: cell of a rate that was left out because an earlier one solved the task
LEFT_OUT = "not needed"


@dataclass(frozen=True)
class Tried:
    """One design at one learning rate, with the seeds of its pilot.

    Args:
        accuracy: on the validation split, one value per seed, in [0, 1]; a run without such a
            split gives its test accuracy.
        steps: first evaluated step from which that accuracy was seen to be 0.9, per seed; None for
            never.
        diverged: how many seeds turned NaN.
    """

    accuracy: tuple[float, ...]
    steps: tuple[int | None, ...]
    diverged: int

    @property
    def mean(self) -> float:
        """Mean accuracy over the seeds."""
        return statistics.fmean(self.accuracy)

    @property
    def reached(self) -> list[int]:
        """Steps of the seeds that reached 0.9."""
        return [step for step in self.steps if step is not None]

    @property
    def lost(self) -> bool:
        """True if every seed turned NaN."""
        return self.diverged == len(self.accuracy)

    def __str__(self) -> str:
        if self.lost:
            return "NaN"
        seeds = f"{len(self.reached)} of {len(self.steps)}"
        if not self.reached:
            return f"{_down(self.mean)}; never"
        steps = f"{_down(self.mean)}; {statistics.median(self.reached):g} steps"
        return steps if len(self.steps) == 1 else f"{steps}, {seeds}"


def _down(share: float) -> str:
    """Round down to three digits, so that no 0.900 stands beside a "never"."""
    return f"{math.floor(1000 * share + 1e-6) / 1000:.3f}"


def tried(result: Result, **facets: str) -> dict[float, Tried]:
    """Learning rate -> pilot result of one design, for the rates that were tried.

    Every rate has the same seeds, steps and weight decay (the first of the plan's).

    Args:
        result: of an experiment that trains, with a pilot or with every seed at every rate.
        facets: name the design; together they must name one variant.

    Raises:
        ValueError: if they name none, or several.
    """
    plan = _plan(result)
    variant = _variant(result, facets)
    by_key = {record["key"]: record for record in result.records}
    cells = {
        rate: _pilot(plan, variant, (rate, plan.weight_decays[0]), by_key)
        for rate in sorted(plan.learning_rates)
    }
    return {rate: cell for rate, cell in cells.items() if cell is not None}


def _plan(result: Result) -> Plan:
    assert isinstance(result.plan, Plan), f"{result.experiment} does not train"
    return result.plan


def _variant(result: Result, facets: Mapping[str, str]) -> Variant:
    found = [
        variant
        for variant in _plan(result).variants
        if all(variant.facets.get(name) == value for name, value in facets.items())
    ]
    if len(found) != 1:
        raise ValueError(f"{len(found)} variants of {result.experiment} have {facets}; wanted one.")
    return found[0]


def _pilot(
    plan: Plan, variant: Variant, setting: Setting, by_key: Mapping[str, Record]
) -> Tried | None:
    """Pilot of one design at one rate; None while a seed is missing."""
    short = plan.pilot is not None
    seeds = plan.seeds if plan.pilot is None else plan.pilot
    keys = [plan.run_of(variant, seed, setting, pilot=short).key for seed in seeds]
    if not all(key in by_key for key in keys):
        return None
    records = tuple(by_key[key] for key in keys)
    seen = [record.get("validation", record["final"]) for record in records]
    outcome = Outcome(variant, records)
    return Tried(
        accuracy=tuple(one.get("accuracy") or 0.0 for one in seen),
        steps=tuple(outcome.steps_to()),
        diverged=outcome.diverged,
    )


def optimisation_markdown(result: Result, designs: Mapping[str, Mapping[str, str]]) -> str:
    """Table of designs and learning rates: accuracy, and the first step at which it was 0.9.

    A cell has the mean accuracy on the validation split and the median step at which it was first
    seen to be 0.9, of the seeds that got there, and with more than one seed how many did. The
    last column is the distance between the best rate and the worst, where all were tried and none
    is NaN.

    Args:
        result: see ``tried``.
        designs: words of the first column -> facets, see ``tried``.

    Raises:
        ValueError: see ``tried``.
    """
    rates = sorted(_plan(result).learning_rates)
    rows = []
    for words, facets in designs.items():
        cells = tried(result, **facets)
        complete = len(cells) == len(rates) and not any(cell.lost for cell in cells.values())
        means = [cell.mean for cell in cells.values()]
        finished = result.outcome(_variant(result, facets)) is not None
        left = LEFT_OUT if finished else "not run"
        rows.append(
            [
                words,
                *(str(cells[rate]) if rate in cells else left for rate in rates),
                f"{max(means) - min(means):.3f}" if complete else "",
            ]
        )
    return table([r"$\Evo{A_t}$", *(f"rate {rate:g}" for rate in rates), "best less worst"], rows)
