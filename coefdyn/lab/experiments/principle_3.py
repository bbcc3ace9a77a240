"""Principle 3 (Figure 1): A_t other than the identity can stand in for positional embeddings.

The standard profile adds one layer, where the statement is a theorem, and a short convolution,
which gives positions with A = I (the paper's Remark 3).
"""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING, Any

from coefdyn.lab.experiments import plan
from coefdyn.lab.experiments.base import Experiment
from coefdyn.lab.experiments.baselines import baseline
from coefdyn.lab.experiments.figures import bars
from coefdyn.lab.experiments.result import Result
from coefdyn.lab.tasks import NoisyRecallConfig

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["EXPERIMENT", "claims", "figure", "load", "run"]

READOUTS = ("exp", "softplus", "relu")
#: what gives positions -> A, embedding, width of the convolution
SOURCES: dict[str, tuple[str, str, int]] = {
    "nothing": ("identity", "none", 0),
    "decay": ("constant", "none", 0),
    "learned embedding": ("identity", "learned", 0),
    "rotary": ("identity", "rotary", 0),
    "decay and rotary": ("constant", "rotary", 0),
    "convolution": ("identity", "none", 4),
}
#: two of them as the chapter's own run shows them
EQUATIONS = {"nothing": "$A = I$, no embedding", "decay": "$A = 0.85 I$, no embedding"}
#: the standard profile: readout, source of positions, number of layers, what decides most first
STANDARD_CELLS = (
    *((phi, source) for phi in READOUTS for source in ("nothing", "decay")),
    *(("exp", source, "1") for source in ("nothing", "decay", "convolution")),
    ("relu", "nothing", "1"),
    ("exp", "convolution"),
    *((phi, source) for phi in READOUTS for source in ("learned embedding", "rotary")),
)
PAPER_SOURCES = ("nothing", "rotary", "decay", "decay and rotary")


def _variant(readout: str, source: str, layers: str = "2", *, paper: bool = False) -> plan.Variant:
    evolution, position, taps = SOURCES[source]
    options: dict[str, Any] = {
        "n_heads": 16 if paper else 8,
        "readout": readout,
        "evolution": evolution,
        "scaling": "inverse_sqrt",
        "normalizer": "row_sum",
    }
    if evolution == "constant":
        options["constant"] = 0.95 if paper else 0.85
    if taps:
        options["short_convolution"] = taps
    build = plan.mad_model if paper else plan.quick_model
    return plan.Variant(
        facets={"readout": readout, "layers": layers, "positions": source},
        task=NoisyRecallConfig.paper() if paper else NoisyRecallConfig.quick(),
        model=build(options, position=position, layers=int(layers)),
    )


def _draw(result: Result) -> Figure:
    """One layer with no source of positions cannot tell the order: the control of the claims."""
    quick, standard = result.profile == "quick", result.profile == plan.STANDARD
    groups = {
        f"{phi}{words}": {"readout": phi, "layers": layers}
        for layers, words in (("2", ""), ("1", ", 1 layer"))
        for phi in READOUTS
    }
    words = EQUATIONS if quick else {}
    series = {words.get(one, one): {"positions": one} for one in SOURCES}
    return bars(
        result,
        groups,
        series,
        title=f"Noisy in-context recall ({result.profile}{'' if standard else ' profile'})",
        width=8.0 if standard else 6.4,
        guess=baseline(result.variants[0].task),
        controls=[(f"{phi}, 1 layer", "nothing") for phi in READOUTS],
    )


EXPERIMENT = Experiment(
    id="principle-3",
    title="A_t other than I replaces positional embeddings",
    source="coefficient-dynamics paper, Figure 1",
    about="Noisy in-context recall, b = 1/sqrt(n), eta = row sum. Varied: A in {I, lambda I}, "
    "readout in {exp, softplus, ReLU}, positional embedding in {none, rotary}. The paper does not "
    "say which embedding it used; rotary is MAD's. Quick: 6 keys, 6 values, length 32 (paper: 8, "
    "8, 128), so lambda is 0.85 instead of 0.95 (about 0.95^4); d = 64, 8 heads, exp, 600 steps. "
    "Standard: the quick task and model, up to 6000 steps, also one layer and a convolution.",
    plans={
        "quick": lambda: plan.quick_plan(
            [_variant("exp", source) for source in ("nothing", "decay")], 600, seeds=2
        ),
        plan.STANDARD: lambda: plan.standard_plan(
            [_variant(*cell) for cell in STANDARD_CELLS],
            plan.standard_training(6000, evaluate_every=150),
            until_solved=False,
        ),
        "paper": lambda: plan.paper_plan(
            [_variant(*cell, paper=True) for cell in product(READOUTS, PAPER_SOURCES)],
            plan.mad_training(NoisyRecallConfig.paper()),
        ),
    },
    drawing=_draw,
)
run, load, figure, claims = EXPERIMENT.functions()
