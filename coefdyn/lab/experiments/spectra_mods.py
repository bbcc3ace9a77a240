"""Eigenvalue paper, section 5: what a change of the architecture does to the eigenvalues."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from coefdyn.lab.experiments import plan
from coefdyn.lab.experiments.base import Experiment
from coefdyn.lab.experiments.figures import PALETTE, leaks, new_figure
from coefdyn.lab.experiments.intervals import t_interval
from coefdyn.lab.experiments.moduli import draw_moduli
from coefdyn.lab.experiments.result import Outcome, Result
from coefdyn.lab.experiments.spectra_models import plan_of, spectra_variant

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["EXPERIMENT", "SAME", "claims", "figure", "interval", "load", "run"]

GATE, CONVOLUTION = {"output_gate": "silu"}, {"short_convolution": 4}
#: the group a variant belongs to, task, model, what was changed -> what the mixer is given
VARIANTS: dict[tuple[str, str, str, str], dict[str, Any]] = {
    ("gate", "language", "softmax", "none"): {},
    ("gate", "language", "softmax", "gate"): GATE,
    ("gate", "ListOps", "softmax", "none"): {},
    ("gate", "ListOps", "softmax", "gate"): GATE,
    ("convolution", "language", "softmax", "convolution"): CONVOLUTION,
    ("layers", "MQAR", "softmax", "2 layers"): {},
    ("layers", "MQAR", "softmax", "1 layer"): {"layers": 1},
    ("layers", "MQAR", "softmax", "1 layer, convolution"): {"layers": 1, **CONVOLUTION},
    ("layers", "MQAR", "Mamba-2", "1 layer"): {"layers": 1, "short_convolution": 0},
    ("layers", "MQAR", "Mamba-2", "1 layer, convolution"): {"layers": 1},
    ("eta", "language", "normalized", "softplus"): CONVOLUTION,
    ("eta", "language", "normalized", "exp"): {**CONVOLUTION, "eta": "exp"},
    ("eta", "language", "normalized", "sigmoid"): {**CONVOLUTION, "eta": "sigmoid"},
    ("Delta", "ListOps", "Mamba-2", "of the token"): {},
    ("Delta", "ListOps", "Mamba-2", "fixed"): {"fixed_delta": True},
}

#: the models of spectra under one condition. There, as in the paper's Figure 1, Mamba-2 alone has a
#: convolution, so that what it does better may be the convolution's doing. "None" for a model that
#: has none in spectra is that very run and is taken over. Three cells are not named again, because
#: they stand above under another group: softmax without on both tasks, normalized with on language
SAME: dict[tuple[str, str, str, str], dict[str, Any]] = {
    ("convolution", "MQAR", "S4D", "none"): {},
    ("convolution", "MQAR", "LRU", "none"): {},
    ("convolution", "MQAR", "Mamba-2", "convolution"): {},
    ("convolution", "MQAR", "Mamba-2", "none"): {"short_convolution": 0},
    ("convolution", "MQAR", "softmax", "convolution"): CONVOLUTION,
    ("convolution", "MQAR", "linear", "none"): {},
    ("convolution", "MQAR", "linear", "convolution"): CONVOLUTION,
    ("convolution", "MQAR", "normalized", "convolution"): CONVOLUTION,
    ("convolution", "language", "S4D", "none"): {},
    ("convolution", "language", "LRU", "none"): {},
    ("convolution", "language", "Mamba-2", "convolution"): {},
    ("convolution", "language", "Mamba-2", "none"): {"short_convolution": 0},
    ("convolution", "language", "linear", "none"): {},
    ("convolution", "language", "linear", "convolution"): CONVOLUTION,
}


def interval(outcome: Outcome) -> str:
    """The accuracy: mean over the seeds and the 90 % interval of the mean."""
    return str(t_interval(outcome.values()))


def _plan(profile: str) -> plan.Plan:
    options = VARIANTS | ({} if profile == "quick" else SAME)
    cells = [cell for cell in options if profile != "quick" or cell[0] == "Delta"]
    variants = [
        spectra_variant(
            dict(zip(("group", "task", "model", "change"), cell, strict=True)),
            cell[2],
            cell[1],
            profile,
            **options[cell],
        )
        for cell in cells
    ]
    return plan_of(variants, profile, pilot=1)


def _draw(result: Result) -> Figure:
    """A panel per variant, a colour per group."""
    kept = [v for v in result.variants if not leaks(v.facets["task"], result.profile)]
    shown = [v for v in kept if tuple(v.facets.values()) in VARIANTS]
    columns, count = 3, len(shown)
    drawn, panels = new_figure(columns, -(-count // columns), width=2.7, height=1.75)
    groups = list(dict.fromkeys(v.facets["group"] for v in shown))
    for axes in panels[count:]:
        axes.axis("off")
    for axes, variant in zip(panels, shown, strict=False):
        group, task, model, change = variant.facets.values()
        draw_moduli(axes, result.outcome(variant), PALETTE[groups.index(group)])
        axes.set_title(f"{task}, {model}\n{group}: {change}", fontsize="small")
    return drawn


EXPERIMENT = Experiment(
    id="spectra-mods",
    title="Gates, convolutions, depth and eta move the eigenvalues",
    source="eigenvalue paper, Section 5",
    about="As spectra, with one change at a time: a SiLU output gate, a convolution of width 4 "
    "before the coefficients, one layer instead of two, eta of normalized attention (all with "
    "convolution), and Mamba-2 with a fixed Delta. The convolution sits behind the projections of "
    "q, k and v; the paper's sits before the layer. Language stands in for the paper's IMDb plots. "
    "Also the six models of spectra on MQAR and language under one condition, since there Mamba-2 "
    "alone has a convolution: attention with it, Mamba-2 without. Quick: Delta alone.",
    plans={profile: partial(_plan, profile) for profile in plan.PROFILES},
    drawing=_draw,
    borrows_from="spectra",
)
run, load, figure, claims = EXPERIMENT.functions()
