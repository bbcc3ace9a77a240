"""Principle 2.1 (Figure 8): feature maps have almost no zero set, and are less selective."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from coefdyn.lab.experiments import plan, principle_2
from coefdyn.lab.experiments.base import Experiment
from coefdyn.lab.experiments.figures import (
    draw_interval,
    legend_below,
    new_figure,
    scatter_outcome,
)
from coefdyn.lab.experiments.principle_2 import CONTROLS, DIAGNOSTICS
from coefdyn.lab.experiments.result import Result
from coefdyn.lab.tasks import SelectiveCopyingConfig

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["EXPERIMENT", "claims", "figure", "load", "run", "variant"]

FEATURES = {
    "psi_relu": "psi = ReLU",
    "psi_elu1": "psi = ELU + 1",
    "psi_softplus": "psi = softplus",
    "psi_exp": "psi = exp",
}
POINTWISE = ("exp", "identity")
#: readouts that are lines of the figure, and their styles
LINES = dict(zip((*POINTWISE, *CONTROLS), ("--", ":", "-.", (0, (1, 4))), strict=True))
TASKS = ("selective copying", "fuzzy recall")


def variant(name: str, readout: str, profile: str) -> plan.Variant:
    """As in principle-2; the feature maps' zeros are counted for principle-2.2, too."""
    extra = ("zero_counts", "largest_zero_count") if readout in FEATURES else ()
    one = principle_2.variant(name, readout, profile)
    return replace(one, diagnostics=(*DIAGNOSTICS, *extra))


def _all(profile: str, *readouts: str) -> list[plan.Variant]:
    return [variant(task, readout, profile) for task in TASKS for readout in readouts]


def _draw(result: Result) -> Figure:
    tasks = list(dict.fromkeys(v.facets["task"] for v in result.variants))
    drawn, panels = new_figure(len(tasks))
    for axes, task in zip(panels, tasks, strict=True):
        for place, (readout, words) in enumerate(FEATURES.items()):
            outcome = result.one(task=task, readout=readout)
            if outcome is not None:
                xs = outcome.diagnostic("near_zero_fraction")
                scatter_outcome(axes, place, xs, outcome, words)
        for place, (readout, style) in enumerate(LINES.items()):
            outcome = result.one(task=task, readout=readout)
            if outcome is not None:
                words = f"phi = {readout}" + (" (control)" if readout in CONTROLS else "")
                axes.axhline(outcome.accuracy, color="gray", linestyle=style, label=words)
                aside = 0.98 - 0.025 * place
                draw_interval(axes, aside, outcome.values(), color="#5F6B7A", inside=True)
        axes.set(xlabel="fraction of |coefficients| <= 0.001", ylabel="test accuracy")
        axes.set_ylim(-0.03, 1.05)
        axes.set_title(task, loc="left")
    legend_below(drawn, panels, 3)
    return drawn


EXPERIMENT = Experiment(
    id="principle-2.1",
    title="Feature maps set fewer coefficients near zero and are less accurate",
    source="coefficient-dynamics paper, Figure 8",
    about="As principle-2 with alpha = psi(q)^T psi(b k) for psi in {ReLU, ELU + 1, softplus, "
    "exp}; exp and the identity as pointwise readouts are the two lines. Quick: copying with "
    "psi = ELU + 1 and with exp.",
    plans={
        "quick": lambda: plan.quick_plan(_all("quick", "psi_elu1", "exp")[:2], 300),
        plan.STANDARD: lambda: plan.standard_plan(
            _all(plan.STANDARD, *LINES, *FEATURES), plan.standard_training(3000)
        ),
        "paper": lambda: plan.paper_plan(
            _all("paper", *FEATURES, *POINTWISE), plan.mad_training(SelectiveCopyingConfig.paper())
        ),
    },
    drawing=_draw,
    borrows_from="principle-2",  # the two lines are Figure 2's models
)
run, load, figure, claims = EXPERIMENT.functions()
