"""Principle 1 (Figure 5): only a linear readout has a recurrent form, whose time grows with L."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from torch.nn import functional

from coefdyn import CoefficientDynamics, evolution, normalizer, readout
from coefdyn.lab.experiments import intervals, plan, rule
from coefdyn.lab.experiments.base import Experiment
from coefdyn.lab.experiments.figures import PALETTE, new_figure
from coefdyn.lab.experiments.result import Result
from coefdyn.lab.experiments.timing import KEY_DIM, TimingPlan, Work, points, slopes, time_runs
from coefdyn.shapes import Tensor

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["EXPERIMENT", "claims", "figure", "load", "run"]


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


DESIGNS: dict[str, Work] = {
    "softmax, whole matrix": _softmax,
    "softmax, torch's kernel": _fused,
    "scalar decay, chunks": _recurrent,
}


def _plan(shortest: int, doublings: int, repeats: int, draws: int = 1) -> TimingPlan:
    lengths = tuple(shortest * 2**power for power in range(doublings + 1))
    seeds = tuple(range(draws))
    return TimingPlan(designs=tuple(DESIGNS), lengths=lengths, repeats=repeats, seeds=seeds)


def _draw(result: Result) -> Figure:
    drawn, (axes,) = new_figure(width=5.2, height=4.0)
    ticks: set[int] = set()
    for color, design in zip(PALETTE, DESIGNS, strict=False):
        exponents, label = slopes(result, design), design
        if len(exponents) >= rule.MIN_SEEDS:
            found = intervals.t_interval(exponents)
            label += f": p = {found.mean:.2f} [{found.low:.2f}, {found.high:.2f}]"
        lengths, seconds = [*zip(*points(result, design), strict=True)] or [(), ()]
        axes.loglog(lengths, [1e3 * one for one in seconds], "-", color=color, label=label)
        for seed in result.plan.seeds:
            drawn_once = [(x, 1e3 * y) for x, y in points(result, design, seed)]
            axes.plot(*zip(*drawn_once, strict=True), "o", color=color, markersize=4)
        ticks.update(lengths)
    axes.set_xticks(sorted(ticks), [f"{length:,}" for length in sorted(ticks)])
    axes.minorticks_off()
    axes.set(xlabel="sequence length (tokens)", ylabel="forward time (ms)")
    handles = axes.get_legend_handles_labels()[0]
    judged = any(" p = " in str(one.get_label()) for one in handles)
    title = "time ~ $L^p$, and the 90 % interval of the mean p over draws" if judged else None
    drawn.legend(handles=handles, title=title, loc="outside lower center", fontsize="small")
    return drawn


def _lines(result: Result) -> list[str]:
    """Milliseconds by design and length."""
    return [
        f"  {one['config']['design']:<26} {one['config']['length']:>6} tokens "
        + (f"{1e3 * seconds:10.2f} ms" if seconds is not None else " out of memory")
        for one in result.records
        for seconds in [one["final"]["seconds"]]
    ]


EXPERIMENT = Experiment(
    id="principle-1",
    title="Quadratic time without a recurrent form, linear time with one",
    source="coefficient-dynamics paper, Figure 5",
    about="Forward time of one layer, 4 heads of n = d_v = 64, batch 1, against the sequence "
    "length: softmax attention as a whole matrix and in torch's fused kernel, and a scalar decay "
    "with the identity readout run chunk by chunk. The paper times FlashAttention-2 and SSD. "
    "Standard: up to 16384 tokens, seven repeats of four draws.",
    plans={
        "quick": lambda: _plan(256, 3, repeats=3),
        plan.STANDARD: lambda: _plan(1024, 4, repeats=7, draws=4),
        "paper": lambda: _plan(1024, 6, repeats=5),
    },
    drawing=_draw,
    lines=_lines,
    trains=partial(time_runs, DESIGNS),
)
run, load, figure, claims = EXPERIMENT.functions()
