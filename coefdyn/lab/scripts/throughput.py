"""Runs per hour on one device, and on a CPU the core-seconds of one run beside plain torch.

``python -m coefdyn.lab throughput`` prints both; with ``--keep`` it writes ``throughput.json``,
which the page of run times shows: ``provenance`` (processor, cores, load before, versions, commit,
time), ``steps`` and ``rounds`` that were counted, ``ways`` (seconds and steps of several runs
trained one after another and in processes) and ``core_seconds``.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional

from coefdyn.lab.experiments import get_experiment
from coefdyn.lab.experiments.plan import mad_model, quick_model
from coefdyn.lab.places import data_folder
from coefdyn.lab.tasks import IGNORE, NoisyRecallConfig
from coefdyn.lab.training import (
    RunConfig,
    RunOptions,
    TrainConfig,
    TrainOptions,
    train_run,
    train_runs,
)
from coefdyn.lab.training.compiled import compiler
from coefdyn.lab.training.data import RunData
from coefdyn.lab.training.provenance import provenance
from coefdyn.lab.training.workers import in_a_process, usable_cores
from coefdyn.models import SwiGLU
from coefdyn.shapes import Tensor

__all__ = [
    "CoreSeconds",
    "PlainModel",
    "Throughput",
    "Way",
    "core_seconds",
    "core_table",
    "main",
    "measure",
    "seconds_of",
    "table",
    "ways",
]

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


#: number of steps to which the measurements are scaled
REFERENCE_STEPS = 1500
#: first steps, which compile and fill caches and are not counted
WARM = 5
#: the baseline, the last row
PLAIN = "plain torch, fused attention"


@dataclass(frozen=True)
class CoreSeconds:
    """One way to train one run of principle-3 (exp, learned positions, 32 x 32 tokens).

    Args:
        name: the way, in words.
        steps: core-seconds of ``REFERENCE_STEPS`` steps, start-up aside.
        start: core-seconds before the first counted step.
    """

    name: str
    steps: float
    start: float


class PlainModel(nn.Module):
    """Baseline of torch's own parts: embedding, positions, fused attention, SwiGLU, head."""

    def __init__(self, vocab: int, length: int, width: int = 64, heads: int = 8) -> None:
        super().__init__()
        self.heads = heads
        self.embedding = nn.Embedding(vocab, width)
        self.positions = nn.Parameter(0.02 * torch.randn(length, width))
        self.norms = nn.ModuleList([nn.LayerNorm(width) for _ in range(5)])
        self.project = nn.ModuleList([nn.Linear(width, 3 * width, bias=False) for _ in range(2)])
        self.out = nn.ModuleList([nn.Linear(width, width, bias=False) for _ in range(2)])
        self.mlps = nn.ModuleList([SwiGLU(width=width, inner=2 * width) for _ in range(2)])
        self.head = nn.Linear(width, vocab)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.embedding(tokens) + self.positions[: tokens.shape[-1]]
        for layer in range(2):
            packed = self.project[layer](self.norms[2 * layer](x))
            q, k, v = packed.unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
            y = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + self.out[layer](y.transpose(1, 2).flatten(-2))
            x = x + self.mlps[layer](self.norms[2 * layer + 1](x))
        return self.head(self.norms[4](x))


def core_seconds(steps: int = 100, *, compiled: bool = True, rounds: int = 1) -> list[CoreSeconds]:
    """Measure every way on one thread, one after another; compare ratios within one call only.

    The plain torch model has as many parameters as the library's, of the same shapes, and trains on
    the same batches with torch's own AdamW; it is compiled, too, in a row of its own.

    Args:
        steps: counted optimiser steps of each way, at least 1.
        compiled: also through torch.compile, where a C++ compiler is there.
        rounds: how often all ways are gone through; a row is the median of its rounds, so that what
            slows the machine for a while does not fall on one way alone.
    """
    run = _counted_run(WARM + steps)
    ways: dict[str, Callable[[], Ticks]] = {"eager": lambda: _train(run, "eager")}
    with_compiler = compiled and compiler() is not None
    if with_compiler:
        ways["compiled"] = lambda: _train(run, "compiled")
    ways["eager, a worker process"] = lambda: _in_a_process(run)
    if with_compiler:
        ways[f"{PLAIN}, compiled"] = lambda: _plain(run, compiled=True)
    ways[PLAIN] = lambda: _plain(run)
    every = [[_clocked(name, work) for name, work in ways.items()] for _ in range(rounds)]
    return [
        CoreSeconds(
            rows[0].name,
            statistics.median(row.steps for row in rows),
            statistics.median(row.start for row in rows),
        )
        for rows in zip(*every, strict=True)
    ]


def core_table(rows: Sequence[CoreSeconds]) -> str:
    """The measurements as text; the factor is against the plain torch model."""
    plain = rows[-1].steps
    heads = f"{'one run of principle-3':<40}{f's per {REFERENCE_STEPS} steps':>18}"
    lines = [f"{heads}{'of plain torch':>16}{'start, s':>10}"]
    for row in rows:
        factor = f"{row.steps / plain:.2f}"
        lines.append(f"{row.name:<40}{row.steps:>18.1f}{factor:>16}{row.start:>10.1f}")
    if compiler() is None:
        lines.append("no C++ compiler here (g++ or clang++): nothing is compiled")
    return "\n".join(lines)


def _counted_run(steps: int) -> RunConfig:
    """principle-3 at the standard size: exp, A = I, learned positions; no evaluation between."""
    plan = get_experiment("principle-3").plan("standard")
    facets = {"readout": "exp", "layers": "2", "positions": "learned embedding"}
    variant = next(one for one in plan.variants if one.facets == facets)
    run = plan.run_of(variant, 0, plan.sweep[0])
    small = run.task.with_changes({"train_examples": 3200, "test_examples": 32})
    train = replace(run.train, steps=steps + 1, warmup=0, evaluate_every=steps + 1, validation=0)
    return replace(run, task=small, train=train)


Ticks = list[float]


def _train(run: RunConfig, mode: str) -> Ticks:
    ticks: Ticks = []

    def on_step(done: int, total: int) -> None:
        ticks.append(time.process_time())

    train_run(run, TrainOptions(mode=mode, on_step=on_step))
    return ticks[:-1]  # the last step ends with an evaluation


def _in_a_process(run: RunConfig) -> Ticks:
    """Time a worker process by its own clock, from its start."""
    before = time.process_time()
    return [before + tick for tick in in_a_process(_train, run, "eager")]


def _plain(run: RunConfig, *, compiled: bool = False) -> Ticks:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        data = RunData(run.task, 0, run.train.batch, torch.device("cpu"))
        model = PlainModel(run.task.vocab_size, run.task.input_length)
        forward = torch.compile(model) if compiled else model
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.0)
        ticks: Ticks = []
        for t in range(run.train.steps):
            inputs, targets = data.train_batch(t)
            logits = forward(inputs)
            loss = functional.cross_entropy(
                logits.flatten(0, 1), targets.flatten(), ignore_index=IGNORE
            )
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            ticks.append(time.process_time())
        return ticks
    finally:
        torch.set_num_threads(threads)


def _clocked(name: str, work: Callable[[], Ticks]) -> CoreSeconds:
    """Measure core-seconds from ticks at the end of each step, without the first ``WARM``."""
    start = time.process_time()
    ticks = work()
    first, last = WARM - 1, len(ticks) - 1
    per_step = (ticks[last] - ticks[first]) / (last - first)
    return CoreSeconds(name, per_step * REFERENCE_STEPS, ticks[first] - start)


def main(arguments: Sequence[str]) -> int:
    """Measure, print and keep; returns 0."""
    parser = argparse.ArgumentParser(prog="python -m coefdyn.lab throughput")
    parser.add_argument("--device", help="cpu, cuda or cuda:1; default: a GPU if there is one")
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--runs", type=int, default=6)
    parser.add_argument("--rounds", type=int, default=1, help="core-seconds: the median of so many")
    parser.add_argument(
        "--keep",
        type=Path,
        nargs="?",
        const=data_folder() / "benchmarks",
        metavar="DIR",
        help="write DIR/throughput.json; without DIR: data/benchmarks, for the book",
    )
    parser.add_argument("--no-compile", action="store_true", help="leave torch.compile out")
    asked = parser.parse_args(arguments)
    device = asked.device or RunOptions().resolved_device()
    if asked.keep and device != "cpu":
        raise ValueError("--keep is about core-seconds, which a CPU has; add --device cpu.")
    load = round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else None
    before = {**provenance("cpu"), "cores": os.cpu_count(), "threads": 1, "load": load}
    compiled = not asked.no_compile
    rows = measure(device, steps=asked.steps, runs=asked.runs, compiled=compiled)
    print(table(rows))
    if device != "cpu":
        return 0
    counted = min(asked.steps, 100)
    found = core_seconds(counted, compiled=compiled, rounds=asked.rounds)
    print(f"\n{core_table(found)}")
    if asked.keep:
        record = {
            "provenance": before,
            "steps": counted,
            "rounds": asked.rounds,
            "ways": [asdict(row) for row in rows],
            "core_seconds": [asdict(row) for row in found],
        }
        asked.keep.mkdir(parents=True, exist_ok=True)
        path = asked.keep / "throughput.json"
        path.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
        print(f"kept in {path}")
    return 0
