"""Cost of a profile of an experiment: runs, core-hours and bytes, from measured steps."""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from coefdyn.lab.experiments.base import Experiment
from coefdyn.lab.experiments.plan import Plan
from coefdyn.lab.training import Record, RunConfig, TrainOptions, build_model, train_run

__all__ = ["Cost", "cost"]

#: runs of a plan that are measured, where none is finished, and steps of each
RUNS, STEPS = 3, 4
#: pairs of tokens of the largest batch that is measured; larger ones are scaled
PAIRS = 2**22


@dataclass(frozen=True, kw_only=True)
class Cost:
    """Cost of all runs of a profile, at most: a run that solves its task ends early.

    Args:
        runs, steps: how many, of all runs together.
        seconds_per_step: on one core.
        size: bytes of the records and of the weights that are kept.
        finished: how many finished runs this was measured on; 0 for some steps taken just now.
    """

    runs: int
    steps: int
    seconds_per_step: float
    size: float
    finished: int

    def __str__(self) -> str:
        source = f"{self.finished} finished runs" if self.finished else "some steps taken now"
        return (
            f"{self.runs} runs, {self.steps:.1e} steps, {1 / self.seconds_per_step:.3g} steps/s of "
            f"a core ({source}): {self.steps * self.seconds_per_step / 3600:.3g} core-hours, "
            f"{self.size / 1e6:.1f} MB"
        )


def cost(experiment: Experiment, profile: str, out: Path | None = None) -> Cost | None:
    """Cost of a profile; None for what trains nothing.

    Args:
        experiment: which one.
        profile: one of its profiles.
        out: folder of the result files, whose finished runs on a CPU are measured by; where there
            are none, ``RUNS`` runs of the plan take ``STEPS`` steps each.

    Raises:
        DataUnavailableError, FileNotFoundError: for a task whose data are not here.
    """
    plan = experiment.plan(profile)
    if not isinstance(plan, Plan):
        return None
    planned = [run for _, run in plan.runs()]
    many = len(planned) + plan.waiting
    steps = many * statistics.fmean(run.train.steps for run in planned)
    records = experiment.load(profile, out=out).records
    done = [one for one in records if one["device"].startswith("cpu") and one["steps_done"]]
    if done:
        seconds = sum(one["wall_s"] for one in done) / sum(one["steps_done"] for one in done)
        size = statistics.fmean(len(json.dumps(one)) for one in done)
    else:
        chosen = planned[:: -(-len(planned) // RUNS)]
        tried = [_measured(run) for run in chosen]
        seconds = statistics.fmean(per_step for per_step, _ in tried)
        size = statistics.fmean(
            _size(one, run) for run, (_, one) in zip(chosen, tried, strict=True)
        )
    weights = sum(_weights(run) for run in planned if run.keep)
    return Cost(
        runs=many,
        steps=round(steps),
        seconds_per_step=seconds,
        size=many * size + weights,
        finished=len(done),
    )


def _measured(run: RunConfig) -> tuple[float, Record]:
    """Seconds of a step on one core, and the record of a run of ``STEPS`` steps."""
    batch = max(1, min(run.train.batch, PAIRS // run.task.input_length**2))
    small = {"train_examples": STEPS * batch, "test_examples": batch}
    known = {name: value for name, value in small.items() if hasattr(run.task, name)}
    train = replace(
        run.train, steps=STEPS, evaluate_every=STEPS, batch=batch, warmup=0, validation=0
    )
    ticks: list[float] = []
    record = train_run(
        replace(run, task=run.task.with_changes(known), train=train, keep=False),
        TrainOptions(on_step=lambda *_: ticks.append(time.process_time())),
    )
    # the first step also builds caches, and the last call follows the evaluation
    return _mean_gap(ticks[:-1]) * run.train.batch / batch, record


def _mean_gap(ticks: Sequence[float]) -> float:
    return (ticks[-1] - ticks[0]) / (len(ticks) - 1)


def _size(record: Record, run: RunConfig) -> float:
    """Bytes of a run's record, from one with a single point in every curve."""
    points = run.train.steps / run.train.evaluate_every
    row = {name: values[-1] for name, values in record["metrics"].items()}
    return len(json.dumps(record)) + (points - 1) * len(json.dumps(list(row.values())))


def _weights(run: RunConfig) -> int:
    """Bytes of a run's weights in half precision."""
    return 2 * sum(one.numel() for one in build_model(run).parameters())
