"""Principle 1 (Figure 5): only a linear readout has a recurrent form, whose time grows with L."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch.nn import functional

from coefdyn import CoefficientDynamics, evolution, normalizer, readout
from coefdyn.lab.experiments import intervals, rule
from coefdyn.lab.experiments.base import Experiment
from coefdyn.lab.experiments.figures import PALETTE, new_figure
from coefdyn.lab.experiments.plan import STANDARD, AnyPlan
from coefdyn.lab.experiments.result import Result
from coefdyn.lab.training import Progress, RunOptions
from coefdyn.lab.training.provenance import provenance
from coefdyn.lab.training.results import config_key
from coefdyn.shapes import Tensor

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["EXPERIMENT", "Timing", "TimingPlan", "claims", "figure", "load", "run"]

SOFTMAX, FUSED, RECURRENT = (
    "softmax, whole matrix",
    "softmax, torch's kernel",
    "scalar decay, chunks",
)
DESIGNS = (SOFTMAX, FUSED, RECURRENT)
HEADS, KEY_DIM = 4, 64

Work = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]


@dataclass(frozen=True, kw_only=True)
class Timing:
    """One design at one length L in tokens; ``seed`` draws the inputs."""

    design: str
    length: int
    repeats: int
    seed: int = 0

    @property
    def name(self) -> str:
        return f"{self.design}, {self.length} tokens"

    @property
    def key(self) -> str:
        return config_key(vars(self))

    def matches(self, record: dict[str, Any]) -> bool:
        """Return whether a record is of this measurement."""
        return record["key"] == self.key


@dataclass(frozen=True, kw_only=True)
class TimingPlan(AnyPlan):
    """Every design at every length."""

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
            for design in DESIGNS
        ]


def _softmax(q: Tensor, k: Tensor, v: Tensor, decay: Tensor) -> Tensor:
    return CoefficientDynamics(
        q=q,
        k=k,
        evolution=evolution.Identity(),
        scaling=KEY_DIM**-0.5,
        readout=readout.exp,
        normalizer=normalizer.RowSum(),
    ).apply(v, method="parallel")


def _fused(q: Tensor, k: Tensor, v: Tensor, decay: Tensor) -> Tensor:
    return functional.scaled_dot_product_attention(q, k, v, is_causal=True)


def _recurrent(q: Tensor, k: Tensor, v: Tensor, decay: Tensor) -> Tensor:
    return CoefficientDynamics(
        q=q,
        k=k,
        evolution=evolution.Scalar(log_decay=decay),
        scaling=KEY_DIM**-0.5,
        readout=readout.identity,
        normalizer=normalizer.One(),
    ).apply(v, method="chunked")


WORK: dict[str, Work] = {SOFTMAX: _softmax, FUSED: _fused, RECURRENT: _recurrent}


@torch.no_grad()
def measure(timing: Timing, device: torch.device) -> dict[str, Any]:
    """Seconds of one forward pass, median of the repeats after one that is not counted."""
    generator = torch.Generator().manual_seed(timing.seed)
    shape = (1, HEADS, timing.length, KEY_DIM)
    q, k, v = (torch.randn(shape, generator=generator).to(device) for _ in range(3))
    decay = -torch.rand(shape[:-1], generator=generator).to(device) * 0.1
    work, times = WORK[timing.design], []
    for _ in range(timing.repeats + 1):
        start = time.perf_counter()
        work(q, k, v, decay)
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        times.append(time.perf_counter() - start)
    return {
        "key": timing.key,
        "config": dict(vars(timing)),
        "seed": timing.seed,
        "final": {"seconds": statistics.median(times[1:])},
        "seconds": times[1:],
        "threads": torch.get_num_threads(),
        "wall_s": round(sum(times), 3),
        "diverged_at": None,
        **provenance(device),
    }


class Principle1(Experiment):
    id = "principle-1"
    title = "Quadratic time without a recurrent form, linear time with one"
    source = "coefficient-dynamics paper, Figure 5"
    profiles = ("live", "quick", "standard", "paper")
    about = (
        "Forward time of one layer, 4 heads of n = d_v = 64, batch 1, against the sequence length: "
        "softmax attention as a whole matrix and in torch's fused kernel, and a scalar decay with "
        "the identity readout run chunk by chunk. The paper times FlashAttention-2 and SSD. "
        "Standard: up to 16384 tokens, seven repeats of four draws."
    )

    def plan(self, profile: str) -> TimingPlan:
        longest = {"live": 2048, "quick": 4096, STANDARD: 16384, "paper": 65536}[profile]
        shortest = 1024 if profile in (STANDARD, "paper") else 256
        count = int(math.log2(longest // shortest)) + 1
        lengths = tuple(shortest * 2**power for power in range(count))
        if profile == STANDARD:
            return TimingPlan(lengths=lengths, repeats=7, seeds=(0, 1, 2, 3))
        return TimingPlan(lengths=lengths, repeats=3 if profile == "live" else 5)

    def run(
        self,
        profile: str = "quick",
        *,
        seeds: int | Sequence[int] | None = None,
        only: Mapping[str, Collection[str]] | None = None,
        device: str | None = None,
        out: Path | str | None = None,
        options: RunOptions | None = None,
    ) -> Result:
        """Time what is missing; the whole matrix is left out where memory does not hold it."""
        if only:
            raise ValueError(f"{self.id} times all designs together; run it without `only`")
        options = options or RunOptions()
        place = replace(options, device=options.device or device).local_device()
        plan = self._plan(profile, seeds)
        file = None if out is None else self.file(profile, out)
        found = {} if file is None else {one["key"]: one for one in file.records()}
        runs = [timing for _, timing in plan.runs()]
        with Progress(len(runs), "timing", options.progress) as bar:
            for done, timing in enumerate(runs, start=1):
                if timing.key not in found:
                    labels = {"experiment": self.id, "profile": profile}
                    found[timing.key] = {**_measured(timing, place), **labels}
                    if file is not None:
                        file.append(found[timing.key])
                bar.update(done)
        records = tuple(found[timing.key] for timing in runs)
        return Result(self.id, profile, plan, records)

    def table(self, result: Result) -> list[str]:
        """Milliseconds by design and length."""
        return [
            f"  {one['config']['design']:<26} {one['config']['length']:>6} tokens "
            + (f"{1e3 * seconds:10.2f} ms" if seconds is not None else " out of memory")
            for one in result.records
            for seconds in [one["final"]["seconds"]]
        ]

    def draw(self, result: Result) -> Figure:
        drawn, (axes,) = new_figure(width=5.2, height=4.0)
        ticks: set[int] = set()
        for place, design in enumerate(DESIGNS):
            points = _points(result, design)
            lengths, seconds = [x for x, _ in points], [1e3 * y for _, y in points]
            axes.loglog(
                lengths, seconds, "-", color=PALETTE[place], label=_in_legend(result, design)
            )
            for seed in result.plan.seeds:
                drawn_once = [(x, 1e3 * y) for x, y in _points(result, design, seed)]
                axes.plot(*zip(*drawn_once, strict=True), "o", color=PALETTE[place], markersize=4)
            ticks.update(lengths)
        axes.set_xticks(sorted(ticks), [f"{length:,}" for length in sorted(ticks)])
        axes.minorticks_off()
        axes.set(xlabel="sequence length (tokens)", ylabel="forward time (ms)")
        handles = axes.get_legend_handles_labels()[0]
        judged = any(" p = " in str(one.get_label()) for one in handles)
        title = "time ~ $L^p$, and the 90 % interval of the mean p over draws" if judged else None
        drawn.legend(handles=handles, title=title, loc="outside lower center", fontsize="small")
        return drawn


def _measured(timing: Timing, device: torch.device) -> dict[str, Any]:
    try:
        return measure(timing, device)
    except torch.OutOfMemoryError:
        shorter = measure(replace(timing, length=16), device)
        return {**shorter, "key": timing.key, "config": dict(vars(timing)), "seconds": [],
                "final": {"seconds": None}}  # fmt: skip


def _points(result: Result, design: str, seed: int | None = None) -> list[tuple[int, float]]:
    """(length, seconds) of a design, shortest first; the median of one seed, or of all."""
    found: dict[int, list[float]] = {}
    for one in result.records:
        if seed not in (None, one["seed"]):
            continue
        if one["config"]["design"] == design and one["final"]["seconds"] is not None:
            found.setdefault(one["config"]["length"], []).append(one["final"]["seconds"])
    return sorted((length, statistics.median(seconds)) for length, seconds in found.items())


def _slopes(result: Result, design: str) -> list[float]:
    """The exponent p of time ~ L^p, one per draw that has one."""
    found = [_growth(_points(result, design, seed)) for seed in result.plan.seeds]
    return [slope for slope in found if slope is not None]


def _growth(points: list[tuple[int, float]]) -> float | None:
    """The exponent p of time ~ L^p, least squares over the longer half of the lengths."""
    kept = points[len(points) // 2 :]
    if len(kept) < 2:
        return None
    xs, ys = [math.log(x) for x, _ in kept], [math.log(y) for _, y in kept]
    return statistics.linear_regression(xs, ys).slope


def _in_legend(result: Result, design: str) -> str:
    """A design, with the exponent that is judged and its interval where there are draws enough."""
    slopes = _slopes(result, design)
    if len(slopes) < rule.MIN_SEEDS:
        return design
    found = intervals.t_interval(slopes)
    return f"{design}: p = {found.mean:.2f} [{found.low:.2f}, {found.high:.2f}]"


EXPERIMENT = Principle1()
run, load, figure, claims = EXPERIMENT.functions()
