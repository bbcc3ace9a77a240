"""Principle 4 (Figure 3): the structure of A_t limits what can be done to the stored keys."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING, Any

from coefdyn.lab.experiments import plan
from coefdyn.lab.experiments.base import Experiment
from coefdyn.lab.experiments.figures import bars
from coefdyn.lab.experiments.learning import beyond_figure
from coefdyn.lab.experiments.result import Result
from coefdyn.lab.tasks import (
    FuzzyRecallConfig,
    ParityConfig,
    PermutationConfig,
    SelectiveCopyingConfig,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["EXPERIMENT", "beyond_figure", "claims", "figure", "load", "run"]

#: the source's two tasks, and before them two that need what a Householder can do: flip, and not
#: commute
TASKS: dict[str, Any] = {
    "parity": ParityConfig,
    "S3": PermutationConfig,
    "selective copying": SelectiveCopyingConfig,
    "fuzzy recall": FuzzyRecallConfig,
}
PAPER_TASKS = ("selective copying", "fuzzy recall")
#: the standard profile's designs: every structure with its better known parameters, beta both
#: ways, and the nested ladder I < scalar < scaled Householder
LADDER: dict[str, dict[str, Any]] = {
    "identity": {"evolution": "identity"},
    "scalar": {"evolution": "scalar", "decay": "mamba2"},
    "diagonal": {"evolution": "diagonal", "decay": "mamba2"},
    "diagonal, GLA": {"evolution": "diagonal", "decay": "gla"},
    "Householder, k": {"evolution": "householder", "beta": "learned"},
    "Householder, k, beta = 2": {"evolution": "householder", "beta": "fixed"},
    "Householder, z": {"evolution": "householder_learned", "beta": "learned"},
    "scaled Householder": {"negative_eigenvalues": True},
}
#: the paper's: every structure with both of its parameterisations
PAPER = {
    **{
        name: options
        for name, options in LADDER.items()
        if name not in ("identity", "scaled Householder")
    },
    "scalar, GLA": {"evolution": "scalar", "decay": "gla"},
    "Householder, z, beta = 2": {"evolution": "householder_learned", "beta": "fixed"},
}


def _variant(name: str, design: str, *, paper: bool = False) -> plan.Variant:
    task = TASKS[name].paper() if paper else TASKS[name].quick()
    own, mixer = (LADDER | PAPER)[design], "DesignMixer"
    rest = {"readout": "identity", "scaling": "inverse_sqrt", "normalizer": "one"}
    if design == "scaled Householder":
        rest, mixer = {}, "GatedDeltaNet"
    build = plan.mad_model if paper else plan.quick_model
    return plan.Variant(
        facets={"task": name, "design": design},
        task=task,
        model=build({"n_heads": 8, **rest, **own}, block="gated", mixer=mixer),
        train=plan.mad_training(task) if paper else None,
        # 40 bits need no state that flips, since a count of 40 can be read off an average
        diagnostics=("longer",) if name == "parity" else (),
    )


def _draw(result: Result) -> Figure:
    if result.profile == "quick":
        return beyond_figure(result)
    tasks = {task: {"task": task} for task in TASKS}
    words = {"identity": "identity, $A = I$"}
    series = {words.get(one, one): {"design": one} for one in LADDER | PAPER}
    return bars(result, tasks, series, width=9.0)


EXPERIMENT = Experiment(
    id="principle-4",
    title="More transformations in A_t, better results; and the parameterisation matters",
    source="coefficient-dynamics paper, Figure 3",
    about="phi = identity, eta = 1, b = 1/sqrt(n), type 2 blocks (short convolution, output norm "
    "and gate), 8 heads, no positional embedding. Varied: the structure of A_t and how its parts "
    "are parameterised. Learned beta is 2 sigmoid(W x). Quick: d = 64; parity with the Mamba-2 "
    "scalar and the Householder with k and beta = 2, one learning rate, 300 steps. Standard: "
    "shorter tasks than the paper's, also parity and S3, A = I, and the scaled Householder (Gated "
    "DeltaNet with negative eigenvalues), which contains the scalar and the Householder; at most "
    "3000 steps.",
    plans={
        "quick": lambda: plan.quick_plan(
            [_variant("parity", one) for one in ("scalar", "Householder, k, beta = 2")], 300
        ),
        plan.STANDARD: lambda: plan.standard_plan(
            [_variant(*cell) for cell in product(TASKS, LADDER)],
            plan.standard_training(3000),
            pilot=1,
        ),
        "paper": lambda: plan.paper_plan(
            [_variant(*cell, paper=True) for cell in product(PAPER_TASKS, PAPER)],
            plan.mad_training(SelectiveCopyingConfig.paper()),
        ),
    },
    drawing=_draw,
)
run, load, figure, claims = EXPERIMENT.functions()
