"""Principle 2.2 (Figure 9): with n numbers per key at most n - 1 coefficients are zero at once."""

from __future__ import annotations

import math
from dataclasses import replace
from statistics import fmean
from typing import TYPE_CHECKING

from coefdyn.lab.experiments import plan, principle_2_1
from coefdyn.lab.experiments.base import Experiment
from coefdyn.lab.experiments.figures import PALETTE, draw_interval, legend_below, new_figure
from coefdyn.lab.experiments.result import Result

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["EXPERIMENT", "claims", "figure", "load", "run"]

SHOWN = ("psi_softplus", "psi_exp")
STATE = 8  # n per head, in every profile
COUNTS = (0.0, math.inf)


def _shown(profile: str) -> plan.Plan:
    whole = principle_2_1.EXPERIMENT.plan(profile)
    assert isinstance(whole, plan.Plan), "principle-2.1 trains"
    return replace(whole, variants=tuple(v for v in whole.variants if v.facets["readout"] in SHOWN))


def _draw(result: Result) -> Figure:
    """The head with most, by time index; beside it the fullest index of every seed."""
    drawn, (axes,) = new_figure(width=5.6, height=4.8)
    length = max(v.task.seq_len for v in result.variants)
    top, beside = STATE + 0.5, []
    for place, outcome in enumerate(result.outcomes()):
        color, name = PALETTE[place], outcome.variant.name
        seeds = [
            [head for layer in layers for head in layer]
            for layers in outcome.diagnostic("zero_counts", "raw")
        ]
        highest = max((head for heads in seeds for head in heads), key=max)
        top = max(top, 1.05 * max(highest))
        label = f"{name}, the head with most"
        axes.plot(range(1, len(highest) + 1), highest, color=color, label=label)
        x, values = length + 5 + 4 * place, [max(map(max, heads)) for heads in seeds]
        if draw_interval(axes, x, values, bounds=COUNTS, color=color):
            axes.plot([x - 1] * len(values), values, ".", color=color)
            axes.plot([x], [fmean(values)], "D", color=color, markersize=4, zorder=5)
            top = max(top, 1.05 * axes.dataLim.y1)
            beside.append(x)
    axes.axhline(STATE - 1, color="gray", linestyle="--", label="n - 1")
    axes.set(xlabel="time index i", ylabel="mean count, |coefficients| <= 1e-6")
    axes.set_ylim(-0.025 * top, top)
    if beside:
        axes.axvline(length + 2, color="0.8", linewidth=0.8)
        ticks = range(0, length - 3, 10)
        axes.set_xticks([*ticks, fmean(beside)], [*map(str, ticks), "fullest, by seed"])
    legend_below(drawn, [axes])
    return drawn


EXPERIMENT = Experiment(
    id="principle-2.2",
    title="At most n - 1 coefficients are zero at one time index",
    source="coefficient-dynamics paper, Figure 9",
    about="The models that principle-2.1 trained with psi in {softplus, exp}, n = 8 per head: mean "
    "number of abs(alpha) <= 1e-6 at each time index over 64 test sequences, raw coefficients. The "
    "bound holds for linearly independent states; repeated tokens give more zeros for free. Quick: "
    "psi = softplus on copying.",
    plans={
        "quick": lambda: plan.quick_plan(
            [principle_2_1.variant("selective copying", SHOWN[0], "quick")], 300
        ),
        plan.STANDARD: lambda: _shown(plan.STANDARD),
        "paper": lambda: _shown("paper"),
    },
    drawing=_draw,
    stored_as="principle-2.1",
)
run, load, figure, claims = EXPERIMENT.functions()
