"""What the standard size still waits for, with the command that finishes it, as Markdown."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean

from coefdyn.lab.experiments import kept_results
from coefdyn.lab.experiments.plan import STANDARD, Plan
from coefdyn.lab.experiments.result import NOT_RUN, Result
from coefdyn.lab.pages.markdown import table
from coefdyn.lab.training import Record

__all__ = ["Waiting", "core_hours", "core_seconds", "waiting", "waiting_markdown"]


@dataclass(frozen=True, kw_only=True)
class Waiting:
    """An experiment whose standard runs are not finished.

    Args:
        name: its id.
        kept: runs in the result file.
        missing: runs that are left, at most: a pilot ends with the first rate that solves.
        claims: how many claims are not run.
        hours: hours of one core for the missing runs, each at the mean time of its variant's kept
            ones, or where there are none at their mean time per step; None while none is kept.
    """

    name: str
    kept: int
    missing: int
    claims: int
    hours: float | None

    @property
    def command(self) -> str:
        """What finishes it."""
        return f"python -m coefdyn.lab run {self.name} --profile {STANDARD}"


def waiting(out: Path | str | None = None) -> Iterator[Waiting]:
    """Every experiment with runs of the standard size left.

    Args:
        out: folder of the result files; None for ``data/results``.
    """
    for experiment, result in kept_results(STANDARD, out):
        missing = result.missing
        if not missing:
            continue
        verdicts = experiment.claims(result)
        yield Waiting(
            name=experiment.id,
            kept=len(result.records),
            missing=missing,
            claims=sum(one.status == NOT_RUN for one in verdicts),
            hours=_hours_left(result),
        )


def _hours_left(result: Result) -> float | None:
    kept, plan = {one["key"]: one for one in _on_cpus(result)}, result.plan
    if not kept:
        return None
    mean = fmean(map(core_seconds, kept.values()))
    if not isinstance(plan, Plan):
        return result.missing * mean / 3600
    there, left = {one["key"] for one in result.records}, 0.0
    steps = fmean(one["config"]["train"]["steps"] for one in kept.values())
    for variant in plan.variants:
        alone = replace(plan, variants=(variant,))
        keys = [run.key for _, run in alone.runs()]
        own = [core_seconds(kept[key]) for key in keys if key in kept]
        scaled = mean * (variant.train or plan.train).steps / steps
        missing = sum(key not in there for key in keys) + alone.waiting
        left += missing * (fmean(own) if own else scaled)
    return left / 3600


def core_seconds(record: Record) -> float:
    """Seconds of one core that a run took; runs that were trained together share their time."""
    return record["wall_s"] / record.get("replicas", 1)


def core_hours(*results: Result) -> float:
    """Hours of one core that the runs took, waiting included; runs on a GPU do not count.

    A run that several experiments share, by a copied record or by one file, counts once.
    """
    runs = {(one["key"], one["timestamp"]): one for found in results for one in _on_cpus(found)}
    return sum(map(core_seconds, runs.values())) / 3600


def _on_cpus(result: Result) -> list[Record]:
    return [one for one in result.records if one["device"].startswith("cpu")]


def waiting_markdown(out: Path | str | None = None) -> str:
    """A table of what is not run: claims, runs and hours left, and the command.

    Args:
        out: see ``waiting``.
    """
    rows = [
        [
            f"`{one.command}`",
            str(one.claims),
            str(one.kept),
            str(one.missing),
            "not timed yet" if one.hours is None else f"{one.hours:.1f}",
        ]
        for one in waiting(out)
    ]
    if not rows:
        return "Every experiment is finished at the standard size."
    heads = ["command", "claims not run", "runs kept", "runs left, at most", "core-hours, at most"]
    return table(heads, rows)
