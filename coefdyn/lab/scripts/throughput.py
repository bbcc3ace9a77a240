"""The core-seconds of one training run beside those of plain torch.

``python -m coefdyn.lab throughput`` prints them; with ``--keep`` it writes ``throughput.json``,
which the page of run times shows: ``provenance`` (processor, cores, load before, versions, commit,
time), ``steps`` and ``rounds`` that were counted, and ``core_seconds``.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional

from coefdyn.lab.experiments import get_experiment
from coefdyn.lab.places import data_folder
from coefdyn.lab.tasks import IGNORE
from coefdyn.lab.training import (
    RunConfig,
    TrainOptions,
    train_run,
)
from coefdyn.lab.training.compiled import compiler
from coefdyn.lab.training.data import RunData
from coefdyn.lab.training.provenance import provenance
from coefdyn.lab.training.workers import in_a_process
from coefdyn.models import SwiGLU
from coefdyn.shapes import Tensor

__all__ = [
    "CoreSeconds",
    "PlainModel",
    "core_seconds",
    "core_table",
    "main",
]

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
    parser.add_argument("--steps", type=int, default=100, help="counted steps of each way")
    parser.add_argument("--rounds", type=int, default=1, help="the median of so many")
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
    load = round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else None
    before = {**provenance("cpu"), "cores": os.cpu_count(), "threads": 1, "load": load}
    found = core_seconds(asked.steps, compiled=not asked.no_compile, rounds=asked.rounds)
    print(core_table(found))
    if asked.keep:
        record = {
            "provenance": before,
            "steps": asked.steps,
            "rounds": asked.rounds,
            "core_seconds": [asdict(row) for row in found],
        }
        asked.keep.mkdir(parents=True, exist_ok=True)
        path = asked.keep / "throughput.json"
        path.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
        print(f"kept in {path}")
    return 0
