"""Cost of a profile of an experiment: runs, core-hours and bytes, from measured steps."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from pathlib import Path
from statistics import fmean

from coefdyn.lab.experiments.base import Experiment
from coefdyn.lab.experiments.plan import Plan
from coefdyn.lab.tasks import DataUnavailableError
from coefdyn.lab.training import RunConfig, TrainOptions, build_model, train_run

__all__ = ["cost"]

#: runs of a plan that are measured, where none is finished, and steps of each
RUNS, STEPS = 3, 4
#: pairs of tokens of the largest batch that is measured; larger ones are scaled
PAIRS = 2**19


def cost(experiment: Experiment, profile: str, out: Path | None = None) -> str:
    """Cost of all runs of a profile in words, at most: a run that solves its task ends early.

    Core-hours are steps over steps per second of one core; bytes are those of the records and of
    the weights that are kept.

    Args:
        experiment: which one.
        profile: one of its profiles.
        out: folder of the result files, whose finished runs on a CPU are measured by; where there
            are none, ``RUNS`` runs of the plan take ``STEPS`` steps each.
    """
    result = experiment.load(profile, out=out)
    plan, records = result.plan, result.records
    if not isinstance(plan, Plan):
        return "nothing is trained"
    planned = [run for _, run in plan.runs()]
    done = [one for one in records if one["device"].startswith("cpu") and one["steps_done"]]
    if done:
        seconds = sum(one["wall_s"] for one in done) / sum(one["steps_done"] for one in done)
        size, source = fmean(len(json.dumps(one)) for one in done), f"{len(done)} finished runs"
    else:
        try:
            tried = [_measured(run) for run in planned[:: -(-len(planned) // RUNS)]]
        except (DataUnavailableError, FileNotFoundError) as missing:
            return f"not measured: {missing}"
        seconds, size = (fmean(one) for one in zip(*tried, strict=True))
        source = f"{STEPS} steps of {len(tried)} runs"
    models = [build_model(run) for run in planned if run.keep]
    kept = sum(2 * one.numel() for model in models for one in model.parameters())
    many = len(planned) + plan.waiting
    steps = sum(run.train.steps for run in planned) + plan.waiting * plan.train.steps
    return (
        f"{many} runs, {steps:.2g} steps, {1 / seconds:.3g} steps/s of a core ({source}): "
        f"{steps * seconds / 3600:.3g} core-hours, {(many * size + kept) / 1e6:.3g} MB"
    )


def _measured(run: RunConfig) -> tuple[float, float]:
    """Seconds of a step on one core, and bytes of the run's record."""
    batch = max(1, min(run.train.batch, PAIRS // run.task.input_length**2))
    small = {"train_examples": STEPS * batch, "test_examples": batch}
    task = run.task.with_changes({k: v for k, v in small.items() if hasattr(run.task, k)})
    few = {"steps": STEPS, "evaluate_every": STEPS, "warmup": 0, "validation": 0}
    ticks: list[float] = []
    record = train_run(
        replace(run, task=task, train=replace(run.train, batch=batch, **few), keep=False),
        TrainOptions(on_step=lambda *_: ticks.append(time.process_time())),
    )
    point = len(json.dumps([values[-1] for values in record["metrics"].values()]))
    points = run.train.steps / run.train.evaluate_every
    # the first step also builds caches, and the last call follows the evaluation
    seconds = (ticks[-2] - ticks[0]) / (len(ticks) - 2)
    return seconds * run.train.batch / batch, len(json.dumps(record)) + (points - 1) * point
