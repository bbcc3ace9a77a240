"""Runs per hour on one device: one after another, compiled, and in several processes."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import torch

from coefdyn.lab.experiments.plan import mad_model, quick_model
from coefdyn.lab.tasks import NoisyRecallConfig
from coefdyn.lab.training import (
    RunConfig,
    RunOptions,
    TrainConfig,
    TrainOptions,
    train_run,
    train_runs,
)
from coefdyn.lab.training.pool import usable_cores

__all__ = ["Throughput", "Way", "measure", "seconds_of", "table", "ways"]

#: a name in words, and what trains all runs that way
Way = tuple[str, Callable[[], object]]


@dataclass(frozen=True)
class Throughput:
    """One way to train the same runs.

    Args:
        name: the way, in words.
        seconds: wall time of all runs, start-up included.
        steps: optimiser steps of all runs together.
    """

    name: str
    seconds: float
    steps: int


#: processes that share a device, as far as there are runs for them
PROCESSES = (2, 4, 8)


def _runs(count: int, steps: int, on_gpu: bool) -> list[RunConfig]:
    """One variant with different seeds: quick size on a CPU, paper size on a GPU."""
    task = NoisyRecallConfig.paper() if on_gpu else NoisyRecallConfig.quick()
    options = {"n_heads": 16 if on_gpu else 8, "readout": "exp", "evolution": "constant"}
    return [
        RunConfig(
            task=task,
            model=(mad_model if on_gpu else quick_model)(options),
            train=TrainConfig(
                steps=steps,
                batch=128 if on_gpu else 32,
                learning_rate=3e-3,
                evaluate_every=steps,
                stop_accuracy=None,
                precision="tf32" if on_gpu else "float32",
            ),
            seed=seed,
        )
        for seed in range(count)
    ]


def ways(device: str, *, steps: int, runs: int, compiled: bool = True) -> list[Way]:
    """Every way that this device offers, the baseline first; arguments as in ``measure``.

    From one way to the next the runs are the same.
    """
    on_gpu = device.startswith("cuda")
    configs = _runs(runs, steps, on_gpu)
    modes = ("eager", "compiled") if compiled else ("eager",)

    def alone(mode: str) -> None:
        for config in configs:
            train_run(config, TrainOptions(device=device, mode=mode))

    def processes(workers: int, mode: str) -> None:
        options = RunOptions(device=device, workers=workers, mode=mode, progress=False)
        train_runs(configs, options=options)

    counts = PROCESSES if on_gpu else (usable_cores(),)
    found: list[Way] = [(f"one after another, {mode}", partial(alone, mode)) for mode in modes]
    for mode in modes:
        found += [
            (f"{count} processes, {mode}", partial(processes, count, mode))
            for count in counts
            if 1 < count <= runs
        ]
    return found


def measure(
    device: str | None = None, *, steps: int = 300, runs: int = 6, compiled: bool = True
) -> list[Throughput]:
    """Time every way that this device offers; the first one is the baseline.

    Args:
        device: "cpu" or "cuda"; None for a GPU if there is one.
        steps: optimiser steps per run.
        runs: how many.
        compiled: also through torch.compile, whose compiling counts as start-up.
    """
    device = device or ("cuda" if torch.cuda.is_available() else "cpu")
    known = ways(device, steps=steps, runs=runs, compiled=compiled)
    return [Throughput(name, seconds_of(way, device), runs * steps) for name, way in known]


def seconds_of(way: Callable[[], object], device: str) -> float:
    """Wall-clock time of one way, until the device is done."""
    start = time.perf_counter()
    way()
    if device.startswith("cuda"):
        torch.cuda.synchronize()
    return time.perf_counter() - start


def table(rows: Sequence[Throughput]) -> str:
    """The measurements as text; the factor is against the first row."""
    lines = [f"{'way':<52}{'seconds':>9}{'steps/s':>9}{'factor':>8}"]
    for row in rows:
        factor = rows[0].seconds / row.seconds
        lines.append(
            f"{row.name:<52}{row.seconds:>9.1f}{row.steps / row.seconds:>9.1f}{factor:>8.2f}"
        )
    return "\n".join(lines)
