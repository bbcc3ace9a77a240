"""Principle 5 (Figure 10): b_j of order 1/sqrt(n) makes training steady across seeds."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from coefdyn.lab.experiments.base import Experiment
from coefdyn.lab.experiments.figures import INK, PALETTE, draw_interval, legend_entries, new_figure
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
from coefdyn.lab.experiments.result import Outcome, Result
from coefdyn.lab.tasks import FuzzyRecallConfig
from coefdyn.lab.training import TrainConfig

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["EXPERIMENT", "claims", "figure", "load", "run"]

#: (phi, A_t) by the legend's word -> the mixer's options and the model's
DESIGNS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "exp, I": ({"readout": "exp", "evolution": "identity"}, {"position": "rotary"}),
    "ReLU, I": ({"readout": "relu", "evolution": "identity"}, {"position": "rotary"}),
    "Id, scalar": ({"readout": "identity", "evolution": "scalar"}, {"block": "gated"}),
    "Id, Householder": ({"readout": "identity", "evolution": "householder"}, {"block": "gated"}),
}
SCALINGS = {
    "1": "one",
    "z": "gate",
    "1/sqrt(n)": "inverse_sqrt",
    "z/sqrt(n)": "gate_inverse_sqrt",
}
HEADS = 4
#: the standard profile: b = c / sqrt(n) for these c, and b = 1; n over all heads
FACTORS = {"0.1/sqrt(n)": 0.1, "0.3/sqrt(n)": 0.3, "1/sqrt(n)": 1.0}
STANDARD_B = (*FACTORS, "1")
STANDARD_SIZES = (64, 256)


class Principle5(Experiment):
    id = "principle-5"
    title = "b_j of order 1/sqrt(n) makes the result independent of the seed"
    source = "coefficient-dynamics paper, Figure 10"
    profiles = ("live", "quick", "standard", "paper")
    about = (
        "Fuzzy in-context recall, 4 heads, 3 seeds. Varied: (phi, A_t), b in {1, z, 1/sqrt(n), "
        "z/sqrt(n)} with z = sigmoid(w x), and n (over all heads; n per head enters b). exp and "
        "ReLU: type 1 blocks, rotary positions, eta = row sum; identity readout: type 2 blocks, "
        "eta = 1. Of each sweep the setting with the best mean over seeds is shown. Quick: "
        "shorter sequences, d = 64, n = 256, one learning rate, 400 steps. Live: exp with b = 1 "
        "and 1/sqrt(n), 200 steps. Standard: exp alone, b = c/sqrt(n) with c in {0.1, 0.3, 1} "
        "and b = 1, 16 and 64 channels per head, up to 2000 steps, 8 seeds: level and spread."
    )

    def plan(self, profile: str) -> Plan:
        if profile == STANDARD:
            variants = [_standard_variant(self, n, b) for n in STANDARD_SIZES for b in STANDARD_B]
            return standard_plan(variants, standard_training(2000), seeds=8, pilot=1)
        paper, live = profile == "paper", profile == "live"
        sizes = (128, 256, 512, 1024) if paper else (256,)
        cells = [(n, design, b) for n in sizes for design in DESIGNS for b in SCALINGS]
        if live:
            cells = [(n, d, b) for n, d, b in cells if d == "exp, I" and b in ("1", "1/sqrt(n)")]
        task = FuzzyRecallConfig.paper() if paper else FuzzyRecallConfig.quick()
        quick = TrainConfig(
            steps=200 if live else 400, batch=32, final_learning_rate=0.0, evaluate_every=100
        )
        return Plan(
            variants=tuple(self._variant(task, *cell, paper=paper) for cell in cells),
            train=mad_training(task) if paper else quick,
            learning_rates=LEARNING_RATES if paper else (3e-3,),
            weight_decays=WEIGHT_DECAYS if paper else (0.0,),
            seeds=(0, 1) if live else (0, 1, 2),
        )

    def _variant(
        self, task: FuzzyRecallConfig, n: int, design: str, b: str, *, paper: bool
    ) -> Variant:
        chosen, shape = DESIGNS[design]
        linear = chosen["readout"] == "identity"
        options = {
            "n_heads": HEADS,
            "key_dim": n // HEADS,
            "scaling": SCALINGS[b],
            "normalizer": "one" if linear else "row_sum",
            **chosen,
        }
        build = mad_model if paper else quick_model
        return Variant(
            facets={"design": design, "b": b, "n": str(n)}, task=task, model=build(options, **shape)
        )

    def draw(self, result: Result) -> Figure:
        scalings = list(dict.fromkeys(v.facets["b"] for v in result.variants))
        drawn, panels = new_figure(2, (len(scalings) + 1) // 2)
        for axes in panels[len(scalings) :]:
            axes.axis("off")
        for axes, b in zip(panels, scalings, strict=False):
            designs = [d for d in DESIGNS if result.find(design=d)]
            for place, design in enumerate(designs):
                found = [one for one in result.find(design=design, b=b) if one is not None]
                _draw_spread(axes, place, design, found, shift=place - (len(designs) - 1) / 2)
            sizes = sorted({int(v.facets["n"]) // HEADS for v in result.variants})
            axes.set_xscale("log", base=2)
            axes.set_xticks(sizes, [str(size) for size in sizes])
            axes.set(
                xlabel="n per head", ylim=(-0.03, 1.05), xlim=(sizes[0] / 1.5, sizes[-1] * 1.5)
            )
            control = b == "1/sqrt(n)" and result.profile == STANDARD
            axes.set_title(f"$b_j$ = {b}{' (control for n)' * control}", loc="left")
            axes.set_ylabel("accuracy, lowest to highest seed")
        handles = legend_entries(panels)
        if handles:
            drawn.legend(handles=handles, loc="outside lower center", ncols=4, fontsize="small")
        return drawn


def _draw_spread(axes: Axes, place: int, design: str, found: list[Outcome], shift: float) -> None:
    """From the lowest to the highest seed, a point for each; the mean and its interval beside."""
    color, step = PALETTE[place], 1.08**shift
    for one in found:
        x, values = int(one.variant.facets["n"]) / HEADS * step, one.values()
        axes.plot([x, x], [min(values), max(values)], "-", color=color, linewidth=2)
        axes.plot([x] * len(values), values, "o", color=color, label=design)
        if draw_interval(axes, x * 1.06, values, color=INK):
            axes.plot([x * 1.06], [one.accuracy], "D", color=INK, markersize=5, zorder=5)


def _standard_variant(experiment: Principle5, n: int, b: str) -> Variant:
    task = FuzzyRecallConfig.quick()
    one = experiment._variant(task, n, "exp, I", "1", paper=False)
    if b == "1":
        return one
    options = {**one.model.options, "scaling": FACTORS[b] / (n // HEADS) ** 0.5}  # type: ignore[dict-item]
    return replace(one, facets={**one.facets, "b": b}, model=replace(one.model, options=options))


EXPERIMENT = Principle5()
run, load, figure, claims = EXPERIMENT.functions()
