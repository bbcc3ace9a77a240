"""Principle 6 (Figure 11): an unstable A_t needs a normaliser that counters its growth."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from coefdyn.lab.experiments.base import Experiment
from coefdyn.lab.experiments.baselines import frequent_value_accuracy
from coefdyn.lab.experiments.figures import draw_plateau, grouped_points, new_figure
from coefdyn.lab.experiments.plan import (
    LEARNING_RATES,
    WEIGHT_DECAYS,
    Plan,
    Variant,
    mad_model,
    mad_training,
    quick_model,
)
from coefdyn.lab.experiments.result import Outcome, Result, Verdict, verdict
from coefdyn.lab.tasks import NoisyRecallConfig
from coefdyn.lab.training import TrainConfig

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["EXPERIMENT", "claims", "figure", "load", "run"]

READOUTS = ("exp", "softplus", "relu")
NORMALIZERS = {"one": "$\\eta = 1$", "geometric": "$\\eta_i = 1.05^i$", "row_sum": "row sum"}
SOLVED = 0.95
MARGIN = 0.1


class Principle6(Experiment):
    id = "principle-6"
    title = "With A_t = 1.05 I the normaliser decides whether training survives"
    source = "coefficient-dynamics paper, Figure 11"
    about = (
        "Noisy in-context recall, A = 1.05 I, b = 1. Varied: readout in {exp, softplus, ReLU}, eta "
        "in {1, 1.05^i, row sum}. The paper's table of this experiment ends before the line on "
        "positional embeddings; the paper profile uses rotary, MAD's. Quick: 6 keys, 6 values, "
        "length 32 instead of 128, so A grows 4.8-fold instead of 500-fold over a sequence; d = "
        "64, 8 heads, learned positions, one learning rate, 1200 steps. Live: exp, 100 steps."
    )

    def plan(self, profile: str) -> Plan:
        cells = [(readout, eta) for readout in READOUTS for eta in NORMALIZERS]
        if profile == "paper":
            return Plan(
                variants=tuple(self._variant(*cell, paper=True) for cell in cells),
                train=mad_training(NoisyRecallConfig.paper()),
                learning_rates=LEARNING_RATES,
                weight_decays=WEIGHT_DECAYS,
            )
        live = profile == "live"
        train = TrainConfig(steps=1200, batch=32, final_learning_rate=0.0, evaluate_every=100)
        variants = [self._variant(*cell, paper=False) for cell in cells]
        if live:
            variants = [one for one in variants if one.facets["readout"] == "exp"]
        return Plan(
            variants=tuple(variants),
            train=replace(train, steps=100, evaluate_every=20) if live else train,
            learning_rates=(2e-3,),
            seeds=(0,) if live else (0, 1),
        )

    def _variant(self, readout: str, normalizer: str, *, paper: bool) -> Variant:
        options = {
            "n_heads": 16 if paper else 8,
            "readout": readout,
            "evolution": "constant",
            "constant": 1.05,
            "scaling": "one",
            "normalizer": normalizer,
        }
        build = mad_model if paper else quick_model
        return Variant(
            facets={"readout": readout, "normalizer": normalizer},
            task=NoisyRecallConfig.paper() if paper else NoisyRecallConfig.quick(),
            model=build(options, position="rotary" if paper else "learned"),
        )

    def draw(self, result: Result) -> Figure:
        drawn, (axes,) = new_figure(width=6.0, height=3.8)
        readouts = list(dict.fromkeys(v.facets["readout"] for v in result.variants))
        series = {
            words: [result.one(readout=phi, normalizer=eta) for phi in readouts]
            for eta, words in NORMALIZERS.items()
        }
        plateau = frequent_value_accuracy(result.variants[0].task)
        draw_plateau(axes, plateau, "answering the most frequent value")
        grouped_points(axes, readouts, series)
        axes.set_title(f"Noisy in-context recall, $A = 1.05 I$ ({result.profile})", loc="left")
        return drawn

    def claims(self, result: Result) -> list[Verdict]:
        def at(readout: str, normalizer: str) -> Outcome | None:
            return result.one(readout=readout, normalizer=normalizer)

        plateau = frequent_value_accuracy(result.variants[0].task)
        row_sums = [at(phi, "row_sum") for phi in READOUTS]
        found = [
            verdict(
                f"exp with {words}: training diverges, or learns nothing",
                [at("exp", eta)],
                lambda eta=eta: _fails(at("exp", eta), plateau),
            )
            for eta, words in (("one", "eta = 1"), ("geometric", "eta_i = 1.05^i"))
        ]
        found.append(
            verdict(
                "exp with row sum: trains without NaN and beats the most frequent value",
                row_sums[:1],
                lambda: _learns(row_sums[:1], plateau + MARGIN, plateau),
            )
        )
        found.append(
            verdict(
                f"Row sum solves the task with every readout (accuracy >= {SOLVED})",
                row_sums,
                lambda: _learns(row_sums, SOLVED),
            )
        )
        linear = [at(phi, "one") for phi in READOUTS[1:]]
        found.append(
            verdict(
                "softplus and ReLU with eta = 1: stable, and beat the most frequent value",
                linear,
                lambda: _learns(linear, plateau + MARGIN, plateau),
            )
        )
        countered = [at(phi, "geometric") for phi in READOUTS[1:]]
        found.append(
            verdict(
                f"softplus and ReLU with eta_i = 1.05^i solve the task (accuracy >= {SOLVED})",
                countered,
                lambda: _learns(countered, SOLVED),
            )
        )
        return found


def _fails(outcome: Outcome | None, plateau: float) -> tuple[bool, str]:
    assert outcome is not None, "verdict calls the test only with every outcome there"
    steps = [record["diverged_at"] for record in outcome.records]
    words = f"NaN at steps {steps}" if outcome.diverged else f"accuracy {outcome.accuracy:.3f}"
    if outcome.diverged < len(steps):
        words += _beside(plateau)
    return outcome.diverged == len(steps) or outcome.accuracy < plateau + MARGIN, words


def _beside(plateau: float) -> str:
    return f"; most frequent value {plateau:.3f} + {MARGIN}"


def _learns(
    outcomes: list[Outcome | None], bound: float, plateau: float | None = None
) -> tuple[bool, str]:
    """All at least at the bound and none diverged; a plateau is what the bound was made of."""
    present = [one for one in outcomes if one is not None]
    words = [
        f"{one.variant.facets['readout']} {one.accuracy:.3f}"
        + (f" ({one.diverged} NaN)" if one.diverged else "")
        for one in present
    ]
    numbers = ", ".join(words) + ("" if plateau is None else _beside(plateau))
    return all(one.accuracy >= bound and not one.diverged for one in present), numbers


EXPERIMENT = Principle6()
run, load, figure, claims = (
    EXPERIMENT.run,
    EXPERIMENT.load,
    EXPERIMENT.figure,
    EXPERIMENT.claims,
)
