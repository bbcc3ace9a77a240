"""Dynamical systems framework, Table 1: a learned normaliser on Long Range Arena and on language.

The models and tasks are those of ``spectra``, whose finished runs are taken over. Two are not: S6,
and normalized attention as this table has it, with eta = exp(W x_i) and learned positions.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from coefdyn.lab.experiments import plan
from coefdyn.lab.experiments.base import Experiment
from coefdyn.lab.experiments.baselines import baseline
from coefdyn.lab.experiments.figures import (
    draw_plateau,
    grouped_points,
    leaks,
    legend_below,
    new_figure,
)
from coefdyn.lab.experiments.result import Result
from coefdyn.lab.experiments.spectra_models import model_of, plan_of, spectra_variant

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["EXPERIMENT", "MODELS", "claims", "figure", "load", "run"]

MODELS = ("linear", "normalized", "softmax", "S6")
ARENA, LANGUAGE = ("ListOps", "pixels"), "language"


def _arena(profile: str) -> tuple[str, ...]:
    return (*ARENA, "byte text") if profile == "paper" else ARENA


def _variant(task: str, model: str, profile: str) -> plan.Variant:
    facets = {"task": task, "model": model}
    if model in ("linear", "softmax"):
        return spectra_variant(facets, model, task, profile)
    base = replace(spectra_variant(facets, "normalized", task, profile), diagnostics=())
    if model == "normalized":
        network = model_of("linear", task, profile)
        return replace(base, model=replace(network, mixer="NormalizedAttention"))
    network = model_of("S4D", task, profile)
    bare = {"output_gate": "none", "output_norm": "none", "input_projection": False}
    options = {"key_dim": network.options["state_dim"], "short_convolution": 0, **bare}
    return replace(base, model=replace(network, mixer="S6", options=options), method="chunked")


def _plan(profile: str) -> plan.Plan:
    cells = [(task, model) for task in _arena(profile) for model in MODELS]
    cells += [(LANGUAGE, model) for model in MODELS if model != "S6"]
    return plan_of([_variant(*cell, profile) for cell in cells], profile)


def _draw(result: Result) -> Figure:
    """A panel per task."""
    tasks = (*_arena(result.profile), LANGUAGE)
    tasks = tuple(task for task in tasks if not leaks(task, result.profile))
    drawn, panels = new_figure(len(tasks), width=3.6, height=3.2)
    for axes, task in zip(panels, tasks, strict=True):
        found = {model: result.one(task=task, model=model) for model in MODELS}
        there = {model: one for model, one in found.items() if one is not None}
        measure = "perplexity" if task == LANGUAGE else "accuracy"
        axes.set_title(task, loc="left")
        if not there:
            axes.text(0.5, 0.5, "not run", ha="center", transform=axes.transAxes)
            continue
        outcomes = list(there.values())
        if task != LANGUAGE and result.profile != "paper":  # whose data may not be here
            draw_plateau(axes, baseline(outcomes[0].variant.task)[0], "most frequent answer")
        grouped_points(axes, list(there), {"mean": outcomes}, metric=measure, legend=False)
        if task == LANGUAGE:
            axes.set_ylim(0, 1.08 * max(max(one.values(measure)) for one in outcomes))
    legend_below(drawn, panels, 3)
    return drawn


EXPERIMENT = Experiment(
    id="dsf-table-1",
    title="A learned normaliser: better than linear attention, not as good as S6",
    source="dynamical systems framework, Table 1",
    about="Linear, normalized and softmax attention with learned positions, and the bare S6 layer "
    "without, on Long Range Arena; the attentions also on language. The paper gives the mean over "
    "five tasks and the training perplexity; here each task has an accuracy of its own, and the "
    "perplexity is of text that training does not see. Standard: ListOps of 24 to 47 tokens, "
    "handwritten digits for CIFAR-10 and the embedded text for WikiText-103, with the models, "
    "sizes and steps of spectra. Paper: ListOps, CIFAR-10, IMDb and WikiText-103 in the sizes of "
    "the eigenvalue paper's Table 1, since those of this one are in its code alone; Retrieval and "
    "Pathfinder are not among our tasks.",
    plans={profile: partial(_plan, profile) for profile in (plan.STANDARD, "paper")},
    drawing=_draw,
    borrows_from="spectra",
)
run, load, figure, claims = EXPERIMENT.functions()
