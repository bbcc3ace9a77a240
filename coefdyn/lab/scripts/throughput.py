"""The core-seconds of one training run beside those of plain torch.

``python -m coefdyn.lab throughput`` measures one run of principle-3 (exp, learned positions, 32 x
32 tokens) and prints what ``--keep`` writes into ``data/benchmarks/throughput.json``, which the
page of run times shows: ``provenance`` (processor, cores, load before, versions, commit, time),
``steps`` and ``rounds`` that were counted, and ``core_seconds``: of each way its name, those of
``REFERENCE_STEPS`` steps, and those before the first counted step.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import nn
from torch.nn import functional

from coefdyn.lab.commands import arguments as given
from coefdyn.lab.experiments import get_experiment
from coefdyn.lab.places import data_folder
from coefdyn.lab.tasks import IGNORE
from coefdyn.lab.training import RunConfig, TrainOptions, train_run
from coefdyn.lab.training.compiled import compiler
from coefdyn.lab.training.data import RunData
from coefdyn.lab.training.provenance import provenance
from coefdyn.lab.training.workers import in_a_process
from coefdyn.models import SwiGLU
from coefdyn.shapes import Tensor

__all__ = ["PLAIN", "REFERENCE_STEPS", "PlainModel", "main"]

#: number of steps to which the measurements are scaled
REFERENCE_STEPS = 1500
#: first steps, which compile and fill caches and are not counted
WARM = 5
#: the baseline, the last row
PLAIN = "plain torch, fused attention"


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


def core_seconds(steps: int, rounds: int) -> list[dict[str, Any]]:
    """Measure every way on one thread, one after another; compare ratios within one call only.

    The plain torch model has as many parameters as the library's, of the same shapes, and trains on
    the same batches with torch's own AdamW; it is compiled, too, in a row of its own. A row is the
    median of its rounds, so that what slows the machine for a while does not fall on one way alone.
    """
    run = _counted_run(WARM + steps)
    ways: dict[str, Callable[[], Ticks]] = {
        "eager": lambda: _train(run, "eager"),
        "compiled": lambda: _train(run, "compiled"),
        "eager, a worker process": lambda: _in_a_process(run),
        f"{PLAIN}, compiled": lambda: _plain(run, compiled=True),
        PLAIN: lambda: _plain(run),
    }
    if compiler() is None:
        ways = {name: work for name, work in ways.items() if not name.endswith("compiled")}
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in ways}
    for _ in range(rounds):
        for name, work in ways.items():
            found[name].append(_clocked(work))
    return [
        {"name": name, "steps": statistics.median(a), "start": statistics.median(b)}
        for name, rows in found.items()
        for a, b in [zip(*rows, strict=True)]
    ]


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


def _clocked(work: Callable[[], Ticks]) -> tuple[float, float]:
    """Core-seconds from ticks at the end of each step, without the first ``WARM``, and of those."""
    start = time.process_time()
    ticks = work()
    first, last = WARM - 1, len(ticks) - 1
    per_step = (ticks[last] - ticks[first]) / (last - first)
    return per_step * REFERENCE_STEPS, ticks[first] - start


def main(arguments: Sequence[str]) -> int:
    """Measure, print and keep; returns 0."""
    parser = argparse.ArgumentParser(prog="python -m coefdyn.lab throughput")
    parser.add_argument("--steps", type=given.count, default=100, help="counted steps of each way")
    parser.add_argument("--rounds", type=given.count, default=1, help="the median of so many")
    parser.add_argument("--keep", action="store_true", help="write data/benchmarks/throughput.json")
    asked = parser.parse_args(arguments)
    load = round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else None
    record = {
        "provenance": {**provenance("cpu"), "cores": os.cpu_count(), "threads": 1, "load": load},
        "steps": asked.steps,
        "rounds": asked.rounds,
        "core_seconds": core_seconds(asked.steps, asked.rounds),
    }
    text = json.dumps(record, indent=1) + "\n"
    print(text)
    if asked.keep:
        (data_folder() / "benchmarks" / "throughput.json").write_text(text, encoding="utf-8")
    return 0
