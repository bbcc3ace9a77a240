"""Principle 5 (Figure 10): b_j of order 1/sqrt(n) makes training steady across seeds."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING, Any

from coefdyn.lab.experiments import plan
from coefdyn.lab.experiments.base import Experiment
from coefdyn.lab.experiments.figures import INK, PALETTE, draw_interval, legend_below, new_figure
from coefdyn.lab.experiments.result import Result
from coefdyn.lab.tasks import FuzzyRecallConfig

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["EXPERIMENT", "claims", "figure", "load", "run"]

HEADS = 4
#: (phi, A_t) by the legend's word -> the mixer's options and the model's
DESIGNS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "exp, I": ({"readout": "exp", "evolution": "identity"}, {"position": "rotary"}),
    "ReLU, I": ({"readout": "relu", "evolution": "identity"}, {"position": "rotary"}),
    "Id, scalar": ({"readout": "identity", "evolution": "scalar"}, {"block": "gated"}),
    "Id, Householder": ({"readout": "identity", "evolution": "householder"}, {"block": "gated"}),
}
#: the paper's b, and the standard profile's: c / sqrt(n) for these c, and 1
SCALINGS = {
    "1": "one",
    "z": "gate",
    "1/sqrt(n)": "inverse_sqrt",
    "z/sqrt(n)": "gate_inverse_sqrt",
}
FACTORS = {"0.1/sqrt(n)": 0.1, "0.3/sqrt(n)": 0.3, "1/sqrt(n)": 1.0}
#: n over all heads
PAPER_SIZES, STANDARD_SIZES = (128, 256, 512, 1024), (64, 256)


def _variant(profile: str, n: int, design: str, b: str) -> plan.Variant:
    chosen, shape = DESIGNS[design]
    scaling: str | float = SCALINGS.get(b, "")
    if profile == plan.STANDARD and b in FACTORS:
        scaling = FACTORS[b] / (n // HEADS) ** 0.5
    options = {
        "n_heads": HEADS,
        "key_dim": n // HEADS,
        "scaling": scaling,
        "normalizer": "one" if chosen["readout"] == "identity" else "row_sum",
        **chosen,
    }
    paper = profile == "paper"
    return plan.Variant(
        facets={"design": design, "b": b, "n": str(n)},
        task=FuzzyRecallConfig.paper() if paper else FuzzyRecallConfig.quick(),
        model=(plan.mad_model if paper else plan.quick_model)(options, **shape),
    )


def _draw(result: Result) -> Figure:
    """From the lowest to the highest seed, a point for each; the mean and its interval beside."""
    scalings = list(dict.fromkeys(v.facets["b"] for v in result.variants))
    drawn, panels = new_figure(2, (len(scalings) + 1) // 2)
    for axes in panels[len(scalings) :]:
        axes.axis("off")
    for axes, b in zip(panels, scalings, strict=False):
        designs = [d for d in DESIGNS if result.find(design=d)]
        for place, (color, design) in enumerate(zip(PALETTE, designs, strict=False)):
            step = 1.08 ** (place - (len(designs) - 1) / 2)
            for one in filter(None, result.find(design=design, b=b)):
                x, values = int(one.variant.facets["n"]) / HEADS * step, one.values()
                axes.plot([x, x], [min(values), max(values)], "-", color=color, linewidth=2)
                axes.plot([x] * len(values), values, "o", color=color, label=design)
                if draw_interval(axes, x * 1.06, values, color=INK):
                    axes.plot([x * 1.06], [one.accuracy], "D", color=INK, markersize=5, zorder=5)
        sizes = sorted({int(v.facets["n"]) // HEADS for v in result.variants})
        axes.set_xscale("log", base=2)
        axes.set_xticks(sizes, [str(size) for size in sizes])
        axes.set(xlabel="n per head", ylim=(-0.03, 1.05), xlim=(sizes[0] / 1.5, sizes[-1] * 1.5))
        control = b == "1/sqrt(n)" and result.profile == plan.STANDARD
        axes.set_title(f"$b_j$ = {b}{' (control for n)' * control}", loc="left")
        axes.set_ylabel("accuracy, lowest to highest seed")
    legend_below(drawn, panels, 4)
    return drawn


EXPERIMENT = Experiment(
    id="principle-5",
    title="b_j of order 1/sqrt(n) makes the result independent of the seed",
    source="coefficient-dynamics paper, Figure 10",
    about="Fuzzy in-context recall, 4 heads, 3 seeds. Varied: (phi, A_t), b in {1, z, 1/sqrt(n), "
    "z/sqrt(n)} with z = sigmoid(w x), and n (over all heads; n per head enters b). exp and ReLU: "
    "type 1 blocks, rotary positions, eta = row sum; identity readout: type 2 blocks, eta = 1. Of "
    "each sweep the setting with the best mean over seeds is shown. Quick: shorter sequences, d = "
    "64, n = 256, exp with b = 1 and 1/sqrt(n), 200 steps. Standard: exp, b = c/sqrt(n) with c in "
    "{0.1, 0.3, 1} and b = 1, 16 and 64 channels per head, 2000 steps, 8 seeds: level and spread.",
    plans={
        "quick": lambda: plan.quick_plan(
            [_variant("quick", 256, "exp, I", b) for b in ("1", "1/sqrt(n)")], 200, seeds=2
        ),
        plan.STANDARD: lambda: plan.standard_plan(
            [
                _variant(plan.STANDARD, n, "exp, I", b)
                for n, b in product(STANDARD_SIZES, (*FACTORS, "1"))
            ],
            plan.standard_training(2000),
            seeds=8,
            pilot=1,
        ),
        "paper": lambda: plan.paper_plan(
            [_variant("paper", *cell) for cell in product(PAPER_SIZES, DESIGNS, SCALINGS)],
            plan.mad_training(FuzzyRecallConfig.paper()),
            seeds=3,
        ),
    },
    drawing=_draw,
)
run, load, figure, claims = EXPERIMENT.functions()
