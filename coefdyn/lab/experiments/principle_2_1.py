"""Principle 2.1 (Figure 8): feature maps have almost no zero set, and are less selective."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from coefdyn.lab.experiments.base import Experiment
from coefdyn.lab.experiments.figures import (
    draw_interval,
    legend_entries,
    new_figure,
    scatter_outcome,
)
from coefdyn.lab.experiments.plan import (
    LEARNING_RATES,
    STANDARD,
    WEIGHT_DECAYS,
    Plan,
    Variant,
    standard_plan,
    standard_training,
)
from coefdyn.lab.experiments.principle_2 import (
    CONTROLS,
    DIAGNOSTICS,
    readout_variant,
    standard_variant,
    tasks_of,
    trained_for,
)
from coefdyn.lab.experiments.result import Result
from coefdyn.lab.tasks import SelectiveCopyingConfig

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["EXPERIMENT", "claims", "figure", "load", "run"]

FEATURES = ("psi_relu", "psi_elu1", "psi_softplus", "psi_exp")
POINTWISE = ("exp", "identity")
WORDS = {
    **dict(
        zip(FEATURES, ("psi = ReLU", "psi = ELU + 1", "psi = softplus", "psi = exp"), strict=True)
    ),
    **{name: f"phi = {name}" for name in (*POINTWISE, *CONTROLS)},
}
TASKS = ("selective copying", "fuzzy recall")


class Principle21(Experiment):
    id = "principle-2.1"
    title = "Feature maps set fewer coefficients near zero and are less accurate"
    source = "coefficient-dynamics paper, Figure 8"
    profiles = ("live", "quick", "standard", "paper")
    read_by = ("principle-2.2",)
    about = (
        "As principle-2 with alpha = psi(q)^T psi(b k) for psi in {ReLU, ELU + 1, softplus, exp}; "
        "exp and the identity as pointwise readouts are the two lines. Quick and live as in "
        "principle-2."
    )

    borrows_from = "principle-2"  # the two lines are Figure 2's models

    def plan(self, profile: str) -> Plan:
        if profile == STANDARD:
            readouts = (*POINTWISE, *CONTROLS, *FEATURES)
            variants = [self._with_counts(standard_variant(t, r)) for t in TASKS for r in readouts]
            return standard_plan(variants, standard_training(3000))
        live = profile == "live"
        names = TASKS[:1] if live else TASKS
        readouts = ("psi_elu1", "exp") if live else (*FEATURES, *POINTWISE)
        return Plan(
            variants=tuple(
                self._variant(name, readout, profile) for name in names for readout in readouts
            ),
            train=trained_for(SelectiveCopyingConfig.quick(), "quick"),
            learning_rates=LEARNING_RATES if profile == "paper" else (3e-3,),
            weight_decays=WEIGHT_DECAYS if profile == "paper" else (0.0,),
            seeds=(0, 1) if profile == "quick" else (0,),
        )

    def _variant(self, name: str, readout: str, profile: str) -> Variant:
        return self._with_counts(readout_variant(name, tasks_of(profile)[name], readout, profile))

    def _with_counts(self, variant: Variant) -> Variant:
        """Feature maps are counted for principle-2.2, too."""
        features = variant.facets["readout"].startswith("psi")
        extra = ("zero_counts", "largest_zero_count") if features else ()
        return replace(variant, diagnostics=(*DIAGNOSTICS, *extra))

    def draw(self, result: Result) -> Figure:
        tasks = list(dict.fromkeys(v.facets["task"] for v in result.variants))
        drawn, panels = new_figure(len(tasks))
        for axes, task in zip(panels, tasks, strict=True):
            for place, readout in enumerate(FEATURES):
                outcome = result.one(task=task, readout=readout)
                if outcome is not None:
                    xs = outcome.diagnostic("near_zero_fraction")
                    scatter_outcome(axes, place, xs, outcome, WORDS[readout])
            lines = dict(zip((*POINTWISE, *CONTROLS), ("--", ":", "-.", (0, (1, 4))), strict=True))
            for place, (readout, style) in enumerate(lines.items()):
                outcome = result.one(task=task, readout=readout)
                if outcome is not None:
                    words = WORDS[readout] + (" (control)" if readout in CONTROLS else "")
                    axes.axhline(outcome.accuracy, color="gray", linestyle=style, label=words)
                    aside = 0.98 - 0.025 * place
                    draw_interval(axes, aside, outcome.values(), color="#5F6B7A", inside=True)
            axes.set(xlabel="fraction of |coefficients| <= 0.001", ylabel="test accuracy")
            axes.set_ylim(-0.03, 1.05)
            axes.set_title(task, loc="left")
        handles = legend_entries(panels)
        if handles:
            drawn.legend(handles=handles, loc="outside lower center", ncols=3, fontsize="small")
        return drawn


EXPERIMENT = Principle21()
run, load, figure, claims = EXPERIMENT.functions()
