"""Principle 3 (Figure 1): A_t other than the identity can stand in for positional embeddings.

The standard profile adds one layer, where the statement is a theorem, and a short convolution,
which gives positions with A = I (the paper's Remark 3).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from coefdyn.lab.experiments.base import Experiment
from coefdyn.lab.experiments.baselines import frequent_value_accuracy
from coefdyn.lab.experiments.figures import draw_plateau, grouped_points, new_figure
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

__all__ = ["EXPERIMENT", "claims", "figure", "load", "run"]

READOUTS = ("exp", "softplus", "relu")
#: the standard profile: what gives positions (A, embedding, convolution) -> its name
SOURCES: dict[str, tuple[str, str, int]] = {
    "nothing": ("identity", "none", 0),
    "decay": ("constant", "none", 0),
    "learned embedding": ("identity", "learned", 0),
    "rotary": ("identity", "rotary", 0),
    "convolution": ("identity", "none", 4),
}
#: and its cells: readout, number of layers, source of positions, what decides most first
STANDARD_CELLS = (
    *((phi, "2", source) for phi in READOUTS for source in ("nothing", "decay")),
    *(("exp", "1", source) for source in ("nothing", "decay", "convolution")),
    ("relu", "1", "nothing"),
    ("exp", "2", "convolution"),
    *((phi, "2", source) for phi in READOUTS for source in ("learned embedding", "rotary")),
)


class Principle3(Experiment):
    id = "principle-3"
    title = "A_t other than I replaces positional embeddings"
    source = "coefficient-dynamics paper, Figure 1"
    profiles = ("live", "quick", "standard", "paper")
    about = (
        "Noisy in-context recall, b = 1/sqrt(n), eta = row sum. Varied: A in {I, lambda I}, "
        "readout in {exp, softplus, ReLU}, positional embedding in {none, rotary}. The paper does "
        "not say which embedding it used; rotary is MAD's. Quick: 6 keys, 6 values, length 32 "
        "(paper: 8, 8, 128), so lambda is 0.85 instead of 0.95 (about 0.95^4); d = 64, 8 heads, "
        "one learning rate, and learned positions as a second kind of embedding. Live: exp without "
        "embedding, 600 steps. Standard: the quick task and model, up to 6000 steps, "
        "also one layer and a short convolution."
    )

    def plan(self, profile: str) -> Plan:
        if profile == "paper":
            return self._paper()
        if profile == STANDARD:
            variants = [self._standard_variant(*cell) for cell in STANDARD_CELLS]
            return standard_plan(
                variants, standard_training(6000, evaluate_every=150), until_solved=False
            )
        steps = 600 if profile == "live" else 1500
        cells = [
            (readout, evolution, position)
            for readout in READOUTS
            for evolution, position in (
                ("identity", "none"),
                ("constant", "none"),
                ("identity", "rotary"),
                ("constant", "rotary"),
                ("identity", "learned"),
            )
        ]
        if profile == "live":
            cells = [cell for cell in cells if cell[0] == "exp" and cell[2] == "none"]
        return Plan(
            variants=tuple(self._variant(*cell, paper=False) for cell in cells),
            train=TrainConfig(steps=steps, batch=32, final_learning_rate=0.0, evaluate_every=100),
            learning_rates=(3e-3,),
            seeds=(0, 1),
        )

    def _paper(self) -> Plan:
        return Plan(
            variants=tuple(
                self._variant(readout, evolution, position, paper=True)
                for readout in READOUTS
                for evolution in ("identity", "constant")
                for position in ("none", "rotary")
            ),
            train=mad_training(NoisyRecallConfig.paper()),
            learning_rates=LEARNING_RATES,
            weight_decays=WEIGHT_DECAYS,
        )

    def _variant(self, readout: str, evolution: str, position: str, *, paper: bool) -> Variant:
        options: dict[str, Any] = {
            "n_heads": 16 if paper else 8,
            "readout": readout,
            "evolution": evolution,
            "scaling": "inverse_sqrt",
            "normalizer": "row_sum",
        }
        if evolution == "constant":
            options["constant"] = 0.95 if paper else 0.85
        build = mad_model if paper else quick_model
        return Variant(
            facets={"readout": readout, "evolution": evolution, "position": position},
            task=NoisyRecallConfig.paper() if paper else NoisyRecallConfig.quick(),
            model=build(options, position=position),
        )

    def _standard_variant(self, readout: str, layers: str, source: str) -> Variant:
        evolution, position, taps = SOURCES[source]
        one = self._variant(readout, evolution, position, paper=False)
        options = one.model.options | ({"short_convolution": taps} if taps else {})
        return replace(
            one,
            facets={"readout": readout, "layers": layers, "positions": source},
            model=replace(one.model, layers=int(layers), options=options),
        )

    def draw(self, result: Result) -> Figure:
        if result.profile == STANDARD:
            return _draw_standard(result)
        drawn, (axes,) = new_figure(width=6.4, height=3.8)
        factor = "0.95" if result.profile == "paper" else "0.85"
        names = {
            ("identity", "none"): "$A = I$, no embedding",
            ("constant", "none"): f"$A = {factor} I$, no embedding",
            ("identity", "rotary"): "$A = I$, rotary",
            ("constant", "rotary"): f"$A = {factor} I$, rotary",
            ("identity", "learned"): "$A = I$, learned positions",
        }
        planned = {(v.facets["evolution"], v.facets["position"]) for v in result.variants}
        readouts = [
            phi for phi in READOUTS if any(v.facets["readout"] == phi for v in result.variants)
        ]
        series = {
            name: [result.one(readout=phi, evolution=a, position=p) for phi in readouts]
            for (a, p), name in names.items()
            if (a, p) in planned
        }
        plateau = frequent_value_accuracy(result.variants[0].task)
        draw_plateau(axes, plateau, "answering the most frequent value")
        grouped_points(axes, readouts, series)
        axes.set_title(f"Noisy in-context recall ({result.profile} profile)", loc="left")
        return drawn


def _draw_standard(result: Result) -> Figure:
    """One group per readout and depth, one colour per source of positions.

    The control of the claims is one layer with no source, which cannot tell the order.
    """
    drawn, (axes,) = new_figure(width=8.0, height=3.8)
    groups = list(dict.fromkeys((phi, layers) for phi, layers, _ in STANDARD_CELLS))
    series = {
        source: [result.one(readout=a, layers=b, positions=source) for a, b in groups]
        for source in SOURCES
    }
    plateau = frequent_value_accuracy(result.variants[0].task)
    draw_plateau(axes, plateau, "answering the most frequent value")
    names = [phi if layers == "2" else f"{phi}, 1 layer" for phi, layers in groups]
    controls = [(f"{phi}, 1 layer", "nothing") for phi in READOUTS]
    grouped_points(axes, names, series, controls=controls)
    axes.set_title("Noisy in-context recall (standard)", loc="left")
    return drawn


EXPERIMENT = Principle3()
run, load, figure, claims = EXPERIMENT.functions()
