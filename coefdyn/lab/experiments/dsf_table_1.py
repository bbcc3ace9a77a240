"""Dynamical systems framework, Table 1: a learned normaliser on Long Range Arena and on language.

The models and tasks are those of ``spectra``, whose finished runs are taken over. Two are not: S6,
and normalized attention as this table has it, with eta = exp(W x_i) and learned positions.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from coefdyn.lab.experiments.base import Experiment
from coefdyn.lab.experiments.baselines import baseline
from coefdyn.lab.experiments.figures import (
    draw_plateau,
    grouped_points,
    leaks,
    legend_entries,
    new_figure,
)
from coefdyn.lab.experiments.plan import Plan, Variant
from coefdyn.lab.experiments.result import Result
from coefdyn.lab.experiments.spectra import model_of, plan_of, spectra_variant

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["EXPERIMENT", "MODELS", "REPORTED", "claims", "figure", "load", "run"]

#: Table 1: mean accuracy on the five tasks of Long Range Arena, and perplexity on WikiText-103
REPORTED = {
    "linear": (0.5352, 17.42),
    "normalized": (0.5808, 16.43),
    "softmax": (0.5596, 13.15),
    "S6": (0.6684, None),
}
MODELS = tuple(REPORTED)
ARENA, LANGUAGE = ("ListOps", "pixels"), "language"


class DsfTable1(Experiment):
    id = "dsf-table-1"
    title = "A learned normaliser: better than linear attention, not as good as S6"
    source = "dynamical systems framework, Table 1"
    profiles = ("quick", "standard", "paper")
    borrows_from = "spectra"
    about = (
        "Linear, normalized and softmax attention with learned positions, and the bare S6 layer "
        "without, on Long Range Arena; the attentions also on language. The paper gives the mean "
        "over five tasks and the training perplexity; here each task has an accuracy of its own, "
        "and the perplexity is of text that training does not see. Standard: ListOps of 24 to 47 "
        "tokens, handwritten digits for CIFAR-10 and the embedded text for WikiText-103, with the "
        "models, sizes and steps of spectra. Quick: 400 steps, two seeds. Paper: ListOps, "
        "CIFAR-10, IMDb and WikiText-103 in the sizes of the eigenvalue paper's Table 1, since "
        "those of this one are in its code alone; Retrieval and Pathfinder are not among our "
        "tasks."
    )

    def plan(self, profile: str) -> Plan:
        cells = [(task, model) for task in _arena(profile) for model in MODELS]
        cells += [(LANGUAGE, model) for model in MODELS if model != "S6"]
        return plan_of([_variant(*cell, profile) for cell in cells], profile)

    def draw(self, result: Result) -> Figure:
        tasks = (*_arena(result.profile), LANGUAGE)
        tasks = tuple(task for task in tasks if not leaks(task, result.profile))
        drawn, panels = new_figure(len(tasks), width=3.6, height=3.2)
        for axes, task in zip(panels, tasks, strict=True):
            models = [model for model in MODELS if result.one(task=task, model=model) is not None]
            found = [result.one(task=task, model=model) for model in models]
            measure = _measure(task)
            axes.set_title(task, loc="left")
            if not found:
                axes.text(0.5, 0.5, "not run", ha="center", transform=axes.transAxes)
                continue
            if (
                task != LANGUAGE and result.profile != "paper"
            ):  # its data may not be on this machine
                draw_plateau(axes, baseline(found[0].variant.task)[0], "most frequent answer")
            grouped_points(axes, models, {"mean": found}, metric=measure, legend=False)
            if task == LANGUAGE:
                axes.set_ylim(0, 1.08 * max(max(one.values(measure)) for one in found))
        handles = legend_entries(panels)
        if handles:
            drawn.legend(handles=handles, loc="outside lower center", ncols=3, fontsize="small")
        return drawn


def _arena(profile: str) -> tuple[str, ...]:
    return (*ARENA, "byte text") if profile == "paper" else ARENA


def _measure(task: str) -> str:
    return "perplexity" if task == LANGUAGE else "accuracy"


def _variant(task: str, model: str, profile: str) -> Variant:
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


EXPERIMENT = DsfTable1()
run, load, figure, claims = EXPERIMENT.functions()
