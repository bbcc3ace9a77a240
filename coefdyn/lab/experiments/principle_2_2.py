"""Principle 2.2 (Figure 9): with n numbers per key at most n - 1 coefficients are zero at once."""

from __future__ import annotations

import math
from dataclasses import replace
from statistics import fmean
from typing import TYPE_CHECKING

from coefdyn.lab.experiments.base import Experiment
from coefdyn.lab.experiments.figures import PALETTE, draw_interval, legend_entries, new_figure
from coefdyn.lab.experiments.measure import Measure
from coefdyn.lab.experiments.plan import Plan
from coefdyn.lab.experiments.principle_2_1 import EXPERIMENT as PRINCIPLE_2_1
from coefdyn.lab.experiments.result import Outcome, Result

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["EXPERIMENT", "claims", "figure", "load", "run"]

SHOWN = ("psi_softplus", "psi_exp")
STATE = 8  # n per head, in both profiles
COUNTS = (0.0, math.inf)


class Principle22(Experiment):
    id = "principle-2.2"
    title = "At most n - 1 coefficients are zero at one time index"
    source = "coefficient-dynamics paper, Figure 9"
    profiles = ("live", "quick", "standard", "paper")
    about = (
        "The models that principle-2.1 trained with psi in {softplus, exp}, n = 8 per head: mean "
        "number of abs(alpha) <= 1e-6 at each time index over 64 test sequences, raw coefficients. "
        "The bound holds for linearly independent states; repeated tokens give more zeros for free."
    )
    stored_as = "principle-2.1"

    def plan(self, profile: str) -> Plan:
        whole = PRINCIPLE_2_1.plan(profile)
        kept = tuple(v for v in whole.variants if v.facets["readout"] in SHOWN)
        if not kept:  # principle-2.1's live part has neither; train the softplus map
            quick = PRINCIPLE_2_1.plan("quick").variants
            kept = tuple(
                replace(v, train=whole.variants[0].train)
                for v in quick
                if v.name == f"selective copying, {SHOWN[0]}"
            )
        return replace(whole, variants=kept)

    def draw(self, result: Result) -> Figure:
        drawn, (axes,) = new_figure(width=5.6, height=4.8)
        length = max(v.task.seq_len for v in result.variants)
        top, beside = STATE + 0.5, []
        for place, outcome in enumerate(result.outcomes()):
            curves, color = _curves(outcome), PALETTE[place]
            highest = max(curves, key=max)
            top = max(top, 1.05 * max(highest))
            label = f"{outcome.variant.name}, the head with most"
            axes.plot(range(1, len(highest) + 1), highest, color=color, label=label)
            x, values = length + 5 + 4 * place, fullest("raw").values(outcome)
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
        handles = legend_entries([axes])
        drawn.legend(handles=handles, loc="outside lower center", fontsize="small")
        return drawn


def fullest(form: str) -> Measure:
    """The largest mean count over layers, heads and time indices, one number per seed."""

    def values(outcome: Outcome) -> list[float]:
        return [
            max(count for layer in layers for head in layer for count in head)
            for layers in outcome.diagnostic("zero_counts", form)
        ]

    return Measure(f"mean zeros at the fullest index, {form}", values)


def _curves(outcome: Outcome, form: str = "raw") -> list[list[float]]:
    """Mean counts by time index, one list per seed, layer and head."""
    seeds = outcome.diagnostic("zero_counts", form)
    return [head for layers in seeds for layer in layers for head in layer]


EXPERIMENT = Principle22()
run, load, figure, claims = EXPERIMENT.functions()
