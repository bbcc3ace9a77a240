"""How many replicas per hour: one run after another, against replicas trained together."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

from coefdyn.lab.experiments.plan import mad_model, quick_model
from coefdyn.lab.tasks import NoisyRecallConfig
from coefdyn.lab.training import (
    RunConfig,
    RunOptions,
    TrainConfig,
    TrainOptions,
    train_group,
    train_runs,
)

__all__ = ["Throughput", "Way", "measure", "seconds_of", "table", "ways"]

#: a name in words, and what trains all runs that way
Way = tuple[str, Callable[[], object]]


@dataclass(frozen=True)
class Throughput:
    """One way of training the same runs.

    Args:
        name: the way, in words.
        seconds: wall time of all runs, start-up included.
        steps: optimiser steps of all runs together.
    """

    name: str
    seconds: float
    steps: int


def _runs(replicas: int, steps: int, on_gpu: bool) -> list[RunConfig]:
    """The same variant with different seeds: quick size on a CPU, paper size on a GPU."""
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
        for seed in range(replicas)
    ]


def ways(device: str, *, steps: int, replicas: int, compiled: bool = True) -> list[Way]:
    """Every way that this device has, the yardstick first; the arguments are those of ``measure``.

    From one way to the next the runs are the same.
    """
    on_gpu = device.startswith("cuda")
    runs = _runs(replicas, steps, on_gpu)

    def alone() -> None:
        for run in runs:
            train_group([run], TrainOptions(device=device, mode="eager"))

    def together(mode: str) -> Callable[[], object]:
        return lambda: train_group(runs, TrainOptions(device=device, mode=mode))

    def processes() -> None:
        train_runs(runs, options=RunOptions(device=device, progress=False))

    found: list[Way] = [
        ("one after another, eager", alone),
        ("replicas in one program, eager", together("eager")),
    ]
    if compiled:
        found.append(("replicas in one program, compiled", together("compiled")))
    if not on_gpu:
        found.append(("one process per core (the default here)", processes))
    else:
        found.append(("replicas in one program, CUDA graph", together("captured")))
    if compiled and on_gpu:
        found.append(("replicas in one program, compiled, CUDA graph", together("graph")))
    return found


def measure(
    device: str | None = None, *, steps: int = 300, replicas: int = 6, compiled: bool = True
) -> list[Throughput]:
    """Time every way that this device has; the first one is the yardstick.

    Args:
        device: "cpu" or "cuda"; None for a GPU if there is one.
        steps: optimiser steps per run.
        replicas: number of runs.
        compiled: also through torch.compile, whose compiling counts as start-up.
    """
    device = device or ("cuda" if torch.cuda.is_available() else "cpu")
    known = ways(device, steps=steps, replicas=replicas, compiled=compiled)
    return [Throughput(name, seconds_of(way, device), replicas * steps) for name, way in known]


def seconds_of(way: Callable[[], object], device: str) -> float:
    """Wall time of one way, until the device is done."""
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
