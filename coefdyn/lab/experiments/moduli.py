"""Histograms of moduli of eigenvalues: shares in a range, as numbers and as a measure, and drawn.

Every claim about where eigenvalues lie has the untrained network as its control: a share that was
there before training says nothing about what the task needs.
"""

from __future__ import annotations

from itertools import pairwise
from statistics import fmean
from typing import TYPE_CHECKING

from coefdyn.analysis.spectra import EDGES
from coefdyn.lab.experiments.measure import Measure
from coefdyn.lab.experiments.result import Outcome

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["FEW", "NEAR_ONE", "NEAR_ZERO", "draw_moduli", "masses", "seed_masses", "share"]

#: ranges of the modulus, fixed before anything was run
NEAR_ZERO, NEAR_ONE = (0.0, 0.1), (0.95, 1.05)
#: a share of the eigenvalues that counts as a peak
FEW = 0.05
WORDS = {NEAR_ZERO: "below 0.1", NEAR_ONE: "about 1"}
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
    """The share of moduli in a range as a measure: in the fullest layer, or the mean over them."""
    of = {"fullest": max, "mean": fmean}[layer]
    where = "mean over layers" if layer == "mean" else f"{layer} layer"
    return Measure(
        f"share {WORDS[span]} ({where}, {when})",
        lambda outcome: [of(layers) for layers in seed_masses(outcome, span, when)],
    )


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
