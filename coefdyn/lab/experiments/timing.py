"""Timings: the runs of an experiment that measures seconds and trains nothing."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from coefdyn.lab.experiments.plan import AnyPlan
from coefdyn.lab.experiments.result import Result
from coefdyn.lab.training import Progress, Record, ResultFile, RunOptions
from coefdyn.lab.training.provenance import provenance
from coefdyn.lab.training.results import config_key
from coefdyn.shapes import Tensor

__all__ = ["Timing", "TimingPlan", "Work", "growth", "points", "slopes", "time_runs"]

HEADS, KEY_DIM = 4, 64
#: q, k, v and log decays -> outputs
Work = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]


@dataclass(frozen=True, kw_only=True)
class Timing:
    """One design at one length L in tokens; ``seed`` draws the inputs."""

    design: str
    length: int
    repeats: int
    seed: int = 0

    @property
    def key(self) -> str:
        return config_key(vars(self))

    def matches(self, record: Record) -> bool:
        """Return whether a record is of this measurement."""
        return bool(record["key"] == self.key)


@dataclass(frozen=True, kw_only=True)
class TimingPlan(AnyPlan):
    """Every design at every length."""

    designs: tuple[str, ...]
    lengths: tuple[int, ...]
    repeats: int
    seeds: tuple[int, ...] = (0,)

    def with_seeds(self, seeds: Sequence[int] | None) -> TimingPlan:
        """The same plan for other inputs; unchanged for None."""
        return self if seeds is None else replace(self, seeds=tuple(seeds))

    def runs(self) -> list[tuple[None, Timing]]:
        """Shortest first."""
        return [
            (None, Timing(design=design, length=length, repeats=self.repeats, seed=seed))
            for seed in self.seeds
            for length in self.lengths
            for design in self.designs
        ]


def time_runs(
    work: Mapping[str, Work],
    timings: Sequence[Timing],
    results: ResultFile | None,
    options: RunOptions,
) -> list[Record]:
    """Time what ``results`` does not hold yet; return the records of all.

    Args:
        work: the designs by name.
        timings, results, options: as ``coefdyn.lab.training.train_runs`` takes runs.
    """
    device, label = options.local_device(), options.extra or (lambda key: {})
    found = {} if results is None else {one["key"]: one for one in results.records()}
    with Progress(len(timings), "timing", options.progress) as bar:
        for done, timing in enumerate(timings, start=1):
            if timing.key not in found:
                found[timing.key] = _measured(work, timing, device) | label(timing.key)
                if results is not None:
                    results.append(found[timing.key])
            bar.update(done)
    return [found[timing.key] for timing in timings]


def _measured(work: Mapping[str, Work], timing: Timing, device: torch.device) -> Record:
    """The record of a measurement; without seconds where memory does not hold it."""
    try:
        times = _seconds(work[timing.design], timing, device)
        median = statistics.median(times[1:])
    except torch.OutOfMemoryError:
        times, median = [], None
    return {
        "key": timing.key,
        "config": dict(vars(timing)),
        "seed": timing.seed,
        "final": {"seconds": median},
        "seconds": times[1:],
        "threads": torch.get_num_threads(),
        "wall_s": round(sum(times), 3),
        "diverged_at": None,
        **provenance(device),
    }


@torch.no_grad()
def _seconds(work: Work, timing: Timing, device: torch.device) -> list[float]:
    """Seconds of each forward pass; the first one is not counted."""
    generator = torch.Generator().manual_seed(timing.seed)
    shape = (1, HEADS, timing.length, KEY_DIM)
    q, k, v = (torch.randn(shape, generator=generator).to(device) for _ in range(3))
    decay = -torch.rand(shape[:-1], generator=generator).to(device) * 0.1
    times = []
    for _ in range(timing.repeats + 1):
        start = time.perf_counter()
        work(q, k, v, decay)
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        times.append(time.perf_counter() - start)
    return times


def points(result: Result, design: str, seed: int | None = None) -> list[tuple[int, float]]:
    """(length, seconds) of a design, shortest first; the median of one seed, or of all."""
    found: dict[int, list[float]] = {}
    for one in result.records:
        seconds: Any = one["final"]["seconds"]
        wanted = seed in (None, one["seed"]) and one["config"]["design"] == design
        if wanted and seconds is not None:
            found.setdefault(one["config"]["length"], []).append(seconds)
    return sorted((length, statistics.median(seconds)) for length, seconds in found.items())


def slopes(result: Result, design: str) -> list[float]:
    """The exponent p of time ~ L^p, one per draw that has one."""
    found = [growth(points(result, design, seed)) for seed in result.plan.seeds]
    return [slope for slope in found if slope is not None]


def growth(measured: Sequence[tuple[int, float]]) -> float | None:
    """The exponent p of time ~ L^p, least squares over the longer half of the lengths."""
    kept = measured[len(measured) // 2 :]
    if len(kept) < 2:
        return None
    xs, ys = [math.log(x) for x, _ in kept], [math.log(y) for _, y in kept]
    return statistics.linear_regression(xs, ys).slope
