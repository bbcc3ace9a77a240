"""Principle 2.1 (Figure 8): feature maps have almost no zero set, and are less selective."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from coefdyn.lab.experiments.base import Experiment
from coefdyn.lab.experiments.claim import Claim, Every, kebab
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
    NEAR,
    all_ahead,
    readout_variant,
    standard_variant,
    tasks_of,
    trained_for,
)
from coefdyn.lab.experiments.result import Outcome, Reading, Result, Verdict, verdict
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
    reading = Reading(
        "Feature maps were less accurate than exp, on copying and on recall. After division by eta "
        "they set fewer coefficients near zero, too; of the raw ones, which the lemma is about, "
        "psi = ReLU sets more than exp does on copying, and the other maps few. That the zeros "
        "are the cause is open: the identity with eta = 1 sets next to none and is about as "
        "accurate as the maps are.",
        held="selective-copying/maps-near-zero selective-copying/maps-behind-exp "
        "selective-copying/maps-suppress fuzzy-recall/maps-near-zero "
        "fuzzy-recall/maps-behind-exp fuzzy-recall/maps-suppress",
        undecided="selective-copying/maps-above-identity selective-copying/maps-cause",
        no_test="fuzzy-recall/maps-above-identity fuzzy-recall/maps-cause",
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

    def registered_claims(self) -> list[Claim]:
        return [claim for task in TASKS for claim in _claims_of(task)]

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

    def claims_by_means(self, result: Result) -> list[Verdict]:
        found = []
        for task in TASKS:
            features = [result.one(task=task, readout=readout) for readout in FEATURES]
            softmax = result.one(task=task, readout="exp")
            linear = result.one(task=task, readout="identity")
            found += [
                verdict(
                    f"{task}: every feature map sets fewer coefficients near zero than exp",
                    [*features, softmax],
                    lambda f=features, s=softmax: _all_below(f, s, _near_zero),
                ),
                verdict(
                    f"{task}: every feature map is less accurate than exp",
                    [*features, softmax],
                    lambda f=features, s=softmax: _all_below(f, s, lambda one: one.accuracy),
                ),
                verdict(
                    f"{task}: ELU + 1, softplus and exp as psi suppress more than the identity",
                    [*features[1:], linear],
                    lambda f=features, i=linear: _all_above(f[1:], i, _near_zero),
                ),
            ]
        return found


def _claims_of(task: str) -> list[Claim]:
    bare = ("identity, eta = 1",)
    lemma = "the lemma is about raw coefficients; these are divided by eta, as in the source"
    return [
        Claim(
            id=f"{kebab(task)}/maps-near-zero",
            sentence=f"{task}: every feature map sets fewer coefficients near zero than exp",
            test=all_ahead(task, ("exp",), FEATURES, 0.0, NEAR),
            why=lemma,
        ),
        Claim(
            id=f"{kebab(task)}/maps-behind-exp",
            sentence=f"{task}: every feature map is less accurate than exp",
            test=all_ahead(task, ("exp",), FEATURES),
            why="no control: each pair differs in the readout alone",
        ),
        Claim(
            id=f"{kebab(task)}/maps-suppress",
            sentence=f"{task}: ELU + 1, softplus and exp as psi suppress more than the identity",
            test=all_ahead(task, FEATURES[1:], bare, 0.0, NEAR),
            why="the identity with eta = 1: divided by its row sum it is counted near poles",
        ),
        Claim(
            id=f"{kebab(task)}/maps-above-identity",
            sentence=f"{task}: every feature map is more accurate than the identity",
            test=all_ahead(task, FEATURES, ("identity",)),
            control=all_ahead(task, FEATURES, bare),
            why="also against the identity with eta = 1, whose row sum has no poles",
        ),
        Claim(
            id=f"{kebab(task)}/maps-cause",
            sentence=f"{task}: fewer coefficients near zero than exp, and less accurate for it",
            test=Every(
                (
                    all_ahead(task, ("exp",), FEATURES, 0.0, NEAR),
                    all_ahead(task, ("exp",), FEATURES),
                )
            ),
            control=all_ahead(task, FEATURES, bare),
            why="the identity with eta = 1 has fewest near zero, so it must be less accurate still",
        ),
    ]


def _near_zero(outcome: Outcome) -> float:
    values = outcome.diagnostic("near_zero_fraction")
    return sum(values) / len(values)


def _words(outcomes: list[Outcome], bound: Outcome, measure) -> str:  # type: ignore[no-untyped-def]
    named = [*outcomes, bound]
    return ", ".join(f"{WORDS[one.variant.facets['readout']]}: {measure(one):.3f}" for one in named)


def _all_below(outcomes: list[Outcome], bound: Outcome, measure) -> tuple[bool, str]:  # type: ignore[no-untyped-def]
    holds = all(measure(one) < measure(bound) for one in outcomes)
    return holds, _words(outcomes, bound, measure)


def _all_above(outcomes: list[Outcome], bound: Outcome, measure) -> tuple[bool, str]:  # type: ignore[no-untyped-def]
    holds = all(measure(one) > measure(bound) for one in outcomes)
    return holds, _words(outcomes, bound, measure)


EXPERIMENT = Principle21()
run, load, figure, claims = EXPERIMENT.functions()
