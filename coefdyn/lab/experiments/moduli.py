"""Histograms of moduli of eigenvalues: shares in a range, as numbers and as a measure, and drawn.

Every claim about where eigenvalues lie has the untrained network as its control: a share that was
there before training says nothing about what the task needs.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from statistics import fmean
from typing import TYPE_CHECKING

from coefdyn.analysis.spectra import EDGES
from coefdyn.lab.experiments.measure import Measure
from coefdyn.lab.experiments.result import Outcome

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["NEAR_ONE", "NEAR_ZERO", "draw_moduli", "gain", "masses", "seed_masses", "share"]

#: ranges of the modulus, fixed before anything was run
NEAR_ZERO, NEAR_ONE = (0.0, 0.1), (0.95, 1.05)
WORDS = {NEAR_ZERO: "below 0.1", NEAR_ONE: "about 1"}
#: the network as it was drawn, and after training
WHEN = ("initial", "trained")
LAYERS: dict[str, Callable[[list[float]], float]] = {
    "first": lambda layers: layers[0],
    "last": lambda layers: layers[-1],
    "fullest": max,
    "mean": fmean,
}
Span = tuple[float, float]


def seed_masses(outcome: Outcome, span: Span, when: str = "trained") -> list[list[float]]:
    """Share of the moduli in [low, high): one list over the layers for every seed.

    Args:
        outcome: of a variant with the diagnostic "moduli".
        span: two edges of the histogram.
        when: "initial" or "trained".
    """
    inside = [span[0] <= a and b <= span[1] for a, b in pairwise(EDGES)]
    return [
        [sum(s for s, keep in zip(layer["share"], inside, strict=True) if keep) for layer in layers]
        for layers in (one[when] for one in outcome.diagnostic("moduli"))
    ]


def masses(outcome: Outcome, span: Span, when: str = "trained") -> list[float]:
    """``seed_masses``, mean over the seeds: one share per layer."""
    return [fmean(layer) for layer in zip(*seed_masses(outcome, span, when), strict=True)]


def share(span: Span, layer: str = "mean", when: str = "trained") -> Measure:
    """The share of moduli in a range as a measure: in the first layer, the fullest, or the mean."""
    return Measure(
        f"share {WORDS[span]} ({_where(layer)}, {when})",
        lambda outcome: [LAYERS[layer](layers) for layers in seed_masses(outcome, span, when)],
    )


def gain(span: Span, layer: str = "mean") -> Measure:
    """Gain by training in the share of moduli in a range, seed by seed."""

    def values(outcome: Outcome) -> list[float]:
        before, after = (share(span, layer, when).values(outcome) for when in WHEN)
        return [trained - drawn for drawn, trained in zip(before, after, strict=True)]

    return Measure(f"share {WORDS[span]} ({_where(layer)}), trained less untrained", values)


def _where(layer: str) -> str:
    return "mean over layers" if layer == "mean" else f"{layer} layer"


def draw_moduli(axes: Axes, outcome: Outcome | None, color: str) -> None:
    """First layer upwards, last layer downwards; grey: at initialisation; one line per seed.

    Every panel has a scale of its own, from 0 to the largest share.
    """
    from coefdyn.plots import plot_moduli

    if outcome is None:
        axes.axis("off")
        axes.text(0.5, 0.5, "not run", ha="center", transform=axes.transAxes, fontsize="small")
        return
    top = 0.0
    for one in outcome.diagnostic("moduli"):
        for layer, below in ((0, False), (-1, True)):
            start, end = one["initial"][layer], one["trained"][layer]
            plot_moduli(axes, start["share"], color="#8A8A8A", below=below, filled=True)
            plot_moduli(axes, end["share"], end["deviation"], color=color, below=below)
            top = max(top, *start["share"], *end["share"])
    axes.set_ylim(-1.15 * top, 1.15 * top)
    axes.set_yticks([-top, 0, top], [f"{top:.2f}", "0", f"{top:.2f}"])
