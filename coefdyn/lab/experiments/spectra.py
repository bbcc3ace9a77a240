"""Eigenvalue paper, Figure 1: where the eigenvalues of Lambda_i lie, by task and model."""

from __future__ import annotations

from functools import partial
from itertools import product
from typing import TYPE_CHECKING

from coefdyn.lab.experiments import plan
from coefdyn.lab.experiments.base import Experiment
from coefdyn.lab.experiments.figures import PALETTE, leaks, new_figure
from coefdyn.lab.experiments.moduli import NEAR_ONE, NEAR_ZERO, draw_moduli, masses, seed_masses
from coefdyn.lab.experiments.result import Result
from coefdyn.lab.experiments.spectra_models import MODELS, plan_of, spectra_variant, tasks_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = [
    "EXPERIMENT",
    "MODELS",
    "NEAR_ONE",
    "NEAR_ZERO",
    "claims",
    "figure",
    "load",
    "masses",
    "run",
    "seed_masses",
]


def _plan(profile: str) -> plan.Plan:
    cells = list(product(tasks_of(profile), MODELS))
    if profile == "quick":
        cells = [("pixels", "S4D"), ("pixels", "softmax")]
    variants = [
        spectra_variant({"task": task, "model": model}, model, task, profile)
        for task, model in cells
    ]
    return plan_of(variants, profile)


def _draw(result: Result) -> Figure:
    """A column per task, a row per model."""
    tasks = list(dict.fromkeys(v.facets["task"] for v in result.variants))
    tasks = [task for task in tasks if not leaks(task, result.profile)]
    models = list(dict.fromkeys(v.facets["model"] for v in result.variants))
    drawn, panels = new_figure(len(tasks), len(models), width=2.1, height=1.45)
    for place, axes in enumerate(panels):
        row, column = divmod(place, len(tasks))
        outcome = result.one(task=tasks[column], model=models[row])
        draw_moduli(axes, outcome, PALETTE[row])
        words = "" if outcome is None else f"accuracy {outcome.accuracy:.2f}"
        axes.set_title(f"{tasks[column]}\n{words}" if row == 0 else words, fontsize="small")
        if column == 0:
            axes.set_ylabel(models[row])
        if row == len(models) - 1:
            axes.set_xlabel("modulus")
    return drawn


EXPERIMENT = Experiment(
    id="spectra",
    title="Eigenvalues near one where memory matters, near zero where selection matters",
    source="eigenvalue paper, Figure 1",
    about="Histograms of abs(eigenvalue of Lambda_i), at initialisation and after training, over "
    "positions, heads and 32 test sequences. S4D stands in for S4. Mamba-2 alone has a short "
    "convolution (width 4), as in the paper; spectra-mods evens that. Quick: two models of 2 "
    "layers, d = 32, state 16 on handwritten digits, which stand in for CIFAR-10, 150 steps. "
    "Standard: the same sizes; MQAR with 4 pairs (d = 64: at 32 no model learned it), ListOps of "
    "24 to 47 tokens, the digits, next-byte prediction on the embedded text for WikiText-103, and "
    "no IMDb (no labelled text is embedded); 3000 steps, three learning rates and four seeds. "
    "Paper: its Table 1; learning rates and training batches are not in its text.",
    plans={profile: partial(_plan, profile) for profile in plan.PROFILES},
    drawing=_draw,
)
run, load, figure, claims = EXPERIMENT.functions()
