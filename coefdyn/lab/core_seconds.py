"""Core-seconds per 1500 steps of principle-3, four ways in one run: what evidence costs here."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch
from torch import nn
from torch.nn import functional

from coefdyn.lab.experiments import get_experiment
from coefdyn.lab.tasks import IGNORE
from coefdyn.lab.training import RunConfig, TrainOptions, train_group
from coefdyn.lab.training.data import GroupData
from coefdyn.lab.training.pool import WorkerPool
from coefdyn.lab.training.step import compiler
from coefdyn.models import SwiGLU
from coefdyn.shapes import Tensor

__all__ = ["REFERENCE_STEPS", "CoreSeconds", "PlainModel", "core_seconds", "core_table"]

#: what the numbers are scaled to
REFERENCE_STEPS = 1500
#: steps that are not counted: the first ones compile and fill caches
WARM = 5


@dataclass(frozen=True)
class CoreSeconds:
    """One way of training one run of principle-3 (exp, learned positions, 32 x 32 tokens).

    Args:
        name: the way, in words.
        steps: core-seconds of ``REFERENCE_STEPS`` steps, start-up aside.
        start: core-seconds before the first counted step.
    """

    name: str
    steps: float
    start: float


class PlainModel(nn.Module):
    """A yardstick of torch's own parts: embedding, positions, fused attention, SwiGLU, head."""

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


def core_seconds(steps: int = 100, *, compiled: bool = True) -> list[CoreSeconds]:
    """Measure every way on one thread, one after another; ratios within one call are what counts.

    Args:
        steps: counted optimiser steps of each way, at least 1.
        compiled: also through torch.compile, where a C++ compiler is there.
    """
    run = _run(WARM + steps)
    found = [_clocked("eager", lambda: _train(run, "eager"))]
    if compiled and compiler() is not None:
        found.append(_clocked("compiled", lambda: _train(run, "compiled")))
    found.append(_clocked("eager, a worker process", lambda: _in_a_process(run)))
    found.append(_clocked("plain torch, fused attention", lambda: _plain(run)))
    return found


def core_table(rows: Sequence[CoreSeconds]) -> str:
    """The measurements as text; the factor is against the plain torch model."""
    plain = rows[-1].steps
    heads = f"{'one run of principle-3':<32}{f's per {REFERENCE_STEPS} steps':>18}"
    lines = [f"{heads}{'of plain torch':>16}{'start, s':>10}"]
    for row in rows:
        factor = f"{row.steps / plain:.2f}"
        lines.append(f"{row.name:<32}{row.steps:>18.1f}{factor:>16}{row.start:>10.1f}")
    if compiler() is None:
        lines.append("no C++ compiler here (g++ or clang++): nothing is compiled")
    return "\n".join(lines)


def _run(steps: int) -> RunConfig:
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

    train_group([run], TrainOptions(mode=mode, on_step=on_step))
    return ticks[:-1]  # the last step ends with an evaluation


def _in_a_process(run: RunConfig) -> Ticks:
    """Wall time: a worker is another process, with a core of its own where there is one."""
    ticks: Ticks = []
    offset = time.process_time() - time.perf_counter()
    with WorkerPool(1, mode="eager") as pool:
        for _, event in pool.run([run], lambda one: True):
            if event["event"] == "step":
                ticks.append(offset + time.perf_counter())
    return ticks[:-1]


def _plain(run: RunConfig) -> Ticks:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        data = GroupData(run.task, [0], run.train.batch, torch.device("cpu"))
        model = PlainModel(run.task.vocab_size, run.task.input_length)
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.0)
        ticks: Ticks = []
        for t in range(run.train.steps):
            inputs, targets = (one[0] for one in data.train_batch(t))
            logits = model(inputs)
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
    """Ticks are core-seconds at the end of each step, ``WARM`` of them uncounted."""
    start = time.process_time()
    ticks = work()
    first, last = WARM - 1, len(ticks) - 1
    per_step = (ticks[last] - ticks[first]) / (last - first)
    return CoreSeconds(name, per_step * REFERENCE_STEPS, ticks[first] - start)
