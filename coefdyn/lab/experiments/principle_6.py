"""Principle 6 (Figure 11): an unstable A_t needs a normaliser that counters its growth.

The standard profile adds the control: exp with eta = 1, A = I and A = .95 I. What turns NaN with
1.05 I and not with these does so because of A.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from coefdyn.lab.experiments.base import Experiment
from coefdyn.lab.experiments.baselines import frequent_value_accuracy
from coefdyn.lab.experiments.figures import PALETTE, draw_plateau, grouped_points, new_figure
from coefdyn.lab.experiments.plan import (
    LEARNING_RATES,
    STANDARD,
    WEIGHT_DECAYS,
    Plan,
    Variant,
    mad_model,
    mad_training,
    quick_model,
    standard_plan,
    standard_training,
)
from coefdyn.lab.experiments.result import Result
from coefdyn.lab.tasks import NoisyRecallConfig
from coefdyn.lab.training import TrainConfig

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = [
    "EXPERIMENT",
    "PILOT_STEPS",
    "STEPS",
    "claims",
    "figure",
    "learning_figure",
    "load",
    "run",
]

READOUTS = ("exp", "softplus", "relu")
NORMALIZERS = {"one": "$\\eta = 1$", "geometric": "$\\eta_i = 1.05^i$", "row_sum": "row sum"}
#: of a run that chooses the learning rate, and of one that is judged
PILOT_STEPS, STEPS = 3000, 12_000
#: constant of A = c I -> its facet; 1 and .95 are the controls of the standard profile
GROWTH = {"1.05": 1.05, "1": 1.0, "0.95": 0.95}


class Principle6(Experiment):
    id = "principle-6"
    title = "With A_t = 1.05 I the normaliser decides whether training survives"
    source = "coefficient-dynamics paper, Figure 11"
    profiles = ("live", "quick", "standard", "paper")
    about = (
        "Noisy in-context recall, A = 1.05 I, b = 1. Varied: readout in {exp, softplus, ReLU}, eta "
        "in {1, 1.05^i, row sum}. The paper's table of this experiment ends before the line on "
        "positional embeddings; the paper profile uses rotary, MAD's. Quick: 6 keys, 6 values, "
        "length 32 instead of 128, so A grows 4.8-fold instead of 500-fold over a sequence; d = "
        "64, 8 heads, learned positions, one learning rate, 1200 steps. Live: exp, 100 steps. "
        "Standard: the paper's length of 128 and so its growth, the quick model with rotary "
        "positions, 12 000 steps of 8 sequences at the learning rate that runs of 3000 chose, and, "
        "for 3000 steps, exp with eta = 1, A = I and A = 0.95 I."
    )

    def plan(self, profile: str) -> Plan:
        if profile == STANDARD:
            return self._standard()
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

    def _standard(self) -> Plan:
        """The exp readout and its controls first: they end within few steps where they diverge.

        Softplus and ReLU have no control, since nothing of theirs turns NaN. The learning rate is
        chosen by shorter runs, whose ends are no verdict: after ``PILOT_STEPS``, two passes
        through the data, most designs with A = 1.05 I are just above the guess, and one that was
        given four times as many solves the task. The controls, asked for NaN alone, stay short.
        """
        cells = [(phi, eta, "1.05") for phi in READOUTS for eta in NORMALIZERS]
        controls = [("exp", "one", growth) for growth in ("1", "0.95")]
        task = NoisyRecallConfig.quick().with_changes({"seq_len": 128})
        order = sorted(cells + controls, key=lambda cell: READOUTS.index(cell[0]))
        pilot, judged = (
            standard_training(steps, batch=8, evaluate_every=steps // 20, clip=None)
            for steps in (PILOT_STEPS, STEPS)
        )
        variants = []
        for readout, normalizer, growth in order:
            one = self._variant(readout, normalizer, paper=False)
            options = {**one.model.options, "constant": GROWTH[growth]}  # type: ignore[dict-item]
            variants.append(
                replace(
                    one,
                    facets={**one.facets, "A": growth},
                    task=task,
                    model=replace(one.model, options=options, position="rotary"),
                    train=None if growth == "1.05" else pilot,
                )
            )
        return standard_plan(
            variants,
            judged,
            pilot_train=pilot,
            learning_rates=(3e-4, 1e-3, 3e-3),
            until_solved=False,
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
        if result.profile == STANDARD:
            return _draw_standard(result)
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


def _draw_standard(result: Result) -> Figure:
    """As the paper's figure, with the short controls, eta = 1 at A = I and 0.95 I, beside it."""
    drawn, (axes,) = new_figure(width=7.2, height=3.8)
    series = {
        f"{words}, $A = 1.05 I$": [
            result.one(readout=phi, normalizer=eta, A="1.05") for phi in READOUTS
        ]
        for eta, words in NORMALIZERS.items()
    }
    short = {
        growth: f"{PILOT_STEPS} steps: {NORMALIZERS['one']}, $A = {words}I$"
        for growth, words in (("1", ""), ("0.95", "0.95 "))
    }
    for growth, words in short.items():
        series[words] = [result.one(readout=phi, normalizer="one", A=growth) for phi in READOUTS]
    plateau = frequent_value_accuracy(result.variants[0].task)
    draw_plateau(axes, plateau, "answering the most frequent value")
    controls = [(phi, words) for phi in READOUTS for words in short.values()]
    grouped_points(axes, READOUTS, series, controls=controls)
    axes.set_title("Noisy in-context recall, length 128 (standard)", loc="left")
    return drawn


def learning_figure(result: Result) -> Figure:
    """Validation accuracy of the judged runs with A = 1.05 I, a panel per readout, a line per seed.

    The dotted line at ``PILOT_STEPS`` is where the runs that chose the learning rate ended. Runs
    that turned NaN have no line; a run that has solved its task ends early.
    """
    drawn, panels = new_figure(len(READOUTS), width=2.7, height=3.4)
    plateau = frequent_value_accuracy(result.variants[0].task)
    for axes, readout in zip(panels, READOUTS, strict=True):
        for color, (eta, words) in zip(PALETTE, NORMALIZERS.items(), strict=False):
            axes.plot([], [], color=color, label=words)
            outcome = result.one(readout=readout, normalizer=eta, A="1.05")
            for record in outcome.records if outcome else []:
                if record["diverged_at"] is None:
                    steps, accuracy = record["metrics"]["step"], record["metrics"]["accuracy"]
                    axes.plot(steps, accuracy, color=color, lw=1.2, alpha=0.85)
        axes.axhline(plateau, color="0.55", lw=0.8, ls="--", label="most frequent value")
        axes.axvline(PILOT_STEPS, color="0.55", lw=0.8, ls=":", label="end of the shorter runs")
        axes.set(xlabel="steps", xlim=(0, STEPS), ylim=(0, 1.02))
        axes.set_xticks([0, PILOT_STEPS, 2 * PILOT_STEPS, STEPS])
        axes.set_title(readout, loc="left")
    panels[0].set_ylabel("validation accuracy")
    drawn.legend(
        *panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=3, frameon=False
    )
    return drawn


EXPERIMENT = Principle6()
run, load, figure, claims = EXPERIMENT.functions()
