"""Principle 4 (Figure 3): the structure of A_t limits what can be done to the stored keys.

A little over 400 lines: models, claims and both figures share the names of their facets.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from coefdyn.lab.experiments.base import Experiment
from coefdyn.lab.experiments.figures import (
    PALETTE,
    draw_band,
    empty_figure,
    grouped_points,
    legend_entries,
    new_figure,
)
from coefdyn.lab.experiments.plan import (
    LEARNING_RATES,
    STANDARD,
    WEIGHT_DECAYS,
    Plan,
    Variant,
    mad_model,
    quick_model,
    standard_plan,
    standard_training,
)
from coefdyn.lab.experiments.principle_2 import tasks_of, trained_for
from coefdyn.lab.experiments.result import Outcome, Result
from coefdyn.lab.experiments.rule import MIN_SEEDS
from coefdyn.lab.tasks import (
    FuzzyRecallConfig,
    ParityConfig,
    PermutationConfig,
    SelectiveCopyingConfig,
    TaskConfig,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.figure import Figure

__all__ = ["EXPERIMENT", "beyond_figure", "claims", "figure", "learning_figure", "load", "run"]

TASKS = ("selective copying", "fuzzy recall")
#: structure, parameterisation -> the mixer's options
DESIGNS: dict[tuple[str, str], dict[str, Any]] = {
    ("scalar", "Mamba-2"): {"evolution": "scalar", "decay": "mamba2"},
    ("scalar", "GLA"): {"evolution": "scalar", "decay": "gla"},
    ("diagonal", "Mamba-2"): {"evolution": "diagonal", "decay": "mamba2"},
    ("diagonal", "GLA"): {"evolution": "diagonal", "decay": "gla"},
    ("Householder, k", "beta = 2"): {"evolution": "householder", "beta": "fixed"},
    ("Householder, k", "beta learned"): {"evolution": "householder", "beta": "learned"},
    ("Householder, z", "beta = 2"): {"evolution": "householder_learned", "beta": "fixed"},
    ("Householder, z", "beta learned"): {"evolution": "householder_learned", "beta": "learned"},
}
#: what the chapter trains while it is read
SHOWN = (("scalar", "Mamba-2"), ("Householder, k", "beta = 2"))
STRUCTURES = tuple(dict.fromkeys(structure for structure, _ in DESIGNS))
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

#: task -> diagnostics. Parity of 40 bits needs no state that flips, since a count of 40 can be
#: read off an average; longer texts show what was learned
AT_LENGTH = {"parity": ("longer",)}


def standard_tasks() -> dict[str, TaskConfig]:
    """The source's two tasks, and two that need what a Householder can do: flip, not commute."""
    return {
        "parity": ParityConfig.quick(),
        "S3": PermutationConfig.quick(),
        "selective copying": SelectiveCopyingConfig.quick(),
        "fuzzy recall": FuzzyRecallConfig.quick(),
    }


class Principle4(Experiment):
    id = "principle-4"
    title = "More transformations in A_t, better results; and the parameterisation matters"
    source = "coefficient-dynamics paper, Figure 3"
    profiles = ("live", "quick", "standard", "paper")
    about = (
        "phi = identity, eta = 1, b = 1/sqrt(n), type 2 blocks (short convolution, output norm "
        "and gate), 8 heads, no positional embedding. Varied: the structure of A_t and how its "
        "parts are parameterised. Learned beta is 2 sigmoid(W x). Quick: shorter tasks, d = 64, "
        "one learning rate, 600 steps. Live: parity with the Mamba-2 scalar and the "
        "Householder with k and beta = 2, 300 steps. Standard: also parity and S3, A = I, and"
        " the scaled Householder (Gated DeltaNet with negative eigenvalues), which contains the "
        "scalar and the Householder; at most 3000 steps."
    )

    def plan(self, profile: str) -> Plan:
        if profile == STANDARD:
            rungs = [(task, design) for task in standard_tasks() for design in LADDER]
            variants = [self._standard_variant(*rung) for rung in rungs]
            return standard_plan(variants, standard_training(3000), pilot=1)
        cells = [(task, *design) for task in TASKS for design in DESIGNS]
        if profile == "live":
            cells = [("parity", *design) for design in SHOWN]
        return Plan(
            variants=tuple(self._variant(*cell, profile) for cell in cells),
            train=trained_for(SelectiveCopyingConfig.quick(), "quick"),
            learning_rates=LEARNING_RATES if profile == "paper" else (3e-3,),
            weight_decays=WEIGHT_DECAYS if profile == "paper" else (0.0,),
            seeds=(0, 1) if profile == "quick" else (0,),
        )

    def _standard_variant(self, task: str, design: str) -> Variant:
        one = self._variant("selective copying", "scalar", "Mamba-2", "quick")
        options, mixer = LADDER[design], "DesignMixer"
        if design == "scaled Householder":
            options, mixer = {"n_heads": 8, **options}, "GatedDeltaNet"
        else:
            rest = {"readout": "identity", "scaling": "inverse_sqrt", "normalizer": "one"}
            options = {"n_heads": 8, **rest, **options}
        return replace(
            one,
            facets={"task": task, "design": design},
            task=standard_tasks()[task],
            model=replace(one.model, mixer=mixer, options=options),
            train=None,
            diagnostics=AT_LENGTH.get(task, ()),
        )

    def _variant(self, name: str, structure: str, parameters: str, profile: str) -> Variant:
        task = (standard_tasks() if name == "parity" else tasks_of(profile))[name]
        options = {
            "n_heads": 8,
            "readout": "identity",
            "scaling": "inverse_sqrt",
            "normalizer": "one",
            **DESIGNS[structure, parameters],
        }
        build = mad_model if profile == "paper" else quick_model
        shorter = trained_for(SelectiveCopyingConfig.quick(), profile)
        return Variant(
            facets={"task": name, "structure": structure, "parameters": parameters},
            task=task,
            model=build(options, block="gated"),
            train=trained_for(task, profile) if profile == "paper" else shorter,
            diagnostics=AT_LENGTH.get(name, ()),
        )

    def draw(self, result: Result) -> Figure:
        tasks = list(dict.fromkeys(v.facets["task"] for v in result.variants))
        if result.profile == "live":
            return beyond_figure(result)
        if result.profile == STANDARD:
            drawn, (axes,) = new_figure(width=9.0, height=3.8)
            cells = {
                {"identity": "identity, $A = I$"}.get(design, design): [
                    result.one(task=task, design=design) for task in tasks
                ]
                for design in LADDER
            }
            grouped_points(axes, tasks, cells)
            return drawn
        drawn, panels = new_figure(1, len(tasks), width=6.4, height=3.8)
        for axes, task in zip(panels, tasks, strict=True):
            series = {
                parameters: [
                    result.one(task=task, structure=structure, parameters=parameters)
                    for structure in STRUCTURES
                ]
                for parameters in dict.fromkeys(name for _, name in DESIGNS)
            }
            grouped_points(axes, STRUCTURES, series)
            axes.set_title(f"{task} ({result.profile} profile)", loc="left")
        return drawn


def beyond_figure(result: Result) -> Figure:
    """Parity, position by position, on texts four times as long as those of the training.

    Per design the mean over the seeds and its interval; Householder-like ones solid, the others
    dashed.
    """
    found = [one for one in result.find(task="parity") if one is not None]
    if not found:
        return empty_figure("parity has not been run")
    drawn, (axes,) = new_figure(width=5.8, height=4.4)
    names = [_in_words(outcome) for outcome in found]
    for color, name, outcome in zip(PALETTE, names, found, strict=False):
        rows = [record["diagnostics"]["longer"]["by_position"] for record in outcome.records]
        mean = [sum(shares) / len(shares) for shares in zip(*rows, strict=True)]
        line = "-" if "Householder" in name else "--"
        axes.plot(range(1, len(mean) + 1), mean, line, color=color, lw=1.4, label=name)
        draw_band(axes, range(1, len(mean) + 1), rows, color)
    trained = found[0].variant.task.seq_len
    axes.axvline(trained, color="0.6", lw=0.8)
    axes.annotate(
        "trained up to here", (trained, 0.41), xytext=(4, 0), textcoords="offset points", fontsize=9
    )
    axes.axhline(0.5, color="0.6", lw=0.8, ls=":")
    axes.set(xlabel="position", ylabel="share of right answers", ylim=(0.38, 1.02))
    drawn.legend(handles=legend_entries([axes]), loc="outside lower center", ncols=2, frameon=False)
    return drawn


def learning_figure(
    result: Result, tasks: Sequence[str] = ("parity", "selective copying")
) -> Figure:
    """Validation accuracy while the designs of ``LADDER`` learn, a panel per task.

    Each at the learning rate that its pilot chose; the mean over the seeds and its interval. A run
    that has solved its task keeps its last value.
    """
    complete = [task for task in tasks if _complete(result, task)]
    if not complete:
        return empty_figure("no task has been run")
    drawn, panels = new_figure(len(complete), width=3.7, height=3.6)
    for axes, task in zip(panels, complete, strict=True):
        for color, name in zip(PALETTE, LADDER, strict=False):
            outcome = result.one(task=task, design=name)
            assert outcome is not None, "the task is complete"
            steps, curves = _curves(outcome)
            mean = [sum(values) / len(values) for values in zip(*curves, strict=True)]
            line = "-" if "Householder" in name else "--"
            axes.plot(steps, mean, line, color=color, lw=1.4, label=name)
            draw_band(axes, steps, curves, color)
        axes.set(xlabel="steps", ylim=(0, 1.02))
        axes.set_title(task, loc="left")
    panels[0].set_ylabel("validation accuracy")
    drawn.legend(handles=legend_entries(panels), loc="outside lower center", ncols=3, frameon=False)
    return drawn


def _complete(result: Result, task: str) -> bool:
    """Return whether every design of a task has the seeds that a verdict needs."""
    found = [result.one(task=task, design=design) for design in LADDER]
    return all(one is not None and len(one.records) >= MIN_SEEDS for one in found)


def _curves(outcome: Outcome) -> tuple[list[int], list[list[float]]]:
    """Steps, and a curve per seed; after its last step a run keeps its last value."""
    runs = [record["metrics"] for record in outcome.records]
    steps = max((run["step"] for run in runs), key=len)
    levels = [
        run["accuracy"] + [run["accuracy"][-1]] * (len(steps) - len(run["step"])) for run in runs
    ]
    return steps, levels


def _in_words(outcome: Outcome) -> str:
    facets = outcome.variant.facets
    return facets.get("design") or f"{facets['structure']}, {facets['parameters']}"


EXPERIMENT = Principle4()
run, load, figure, claims = EXPERIMENT.functions()
