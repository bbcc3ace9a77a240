"""Principle 2 (Figures 2, 6, 7): a readout with a larger zero set suppresses tokens more easily.

The identity divided by its signed row sum meets that sum's poles. So the standard profile has the
identity with eta = 1 and with a floored row sum beside it: what it loses there is the readout's.
"""

from __future__ import annotations

import math
from itertools import product
from typing import TYPE_CHECKING, Any

from coefdyn import readout as readouts
from coefdyn.analysis import near_zero_set
from coefdyn.lab.experiments import plan
from coefdyn.lab.experiments.base import Experiment
from coefdyn.lab.experiments.figures import SHARE, legend_entries, new_figure, scatter_outcome
from coefdyn.lab.experiments.result import Result
from coefdyn.lab.tasks import FuzzyRecallConfig, MemorizationConfig, SelectiveCopyingConfig

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["EXPERIMENT", "claims", "figure", "load", "run", "variant"]

READOUTS = ("exp", "softplus", "relu", "identity")
DIAGNOSTICS = ("near_zero_fraction", "large_fraction", "large_to_near_zero")
#: what is drawn against accuracy, and the settings of its axis
QUANTITIES: dict[str, dict[str, str]] = {
    "near_zero_fraction": {"xlabel": "fraction of |coefficients| <= 0.001"},
    "large_to_near_zero": {"xlabel": "number in [0.9, 1] / number near zero", "xscale": "log"},
}
#: the controls of the standard profile: the identity without a row sum that may vanish
CONTROLS = {"identity, eta = 1": "one", "identity, floored": "floored"}
#: task -> its configurations, what the standard profile changes of the quick one, and steps there
TASKS: dict[str, tuple[Any, dict[str, int], int]] = {
    "selective copying": (SelectiveCopyingConfig, {"seq_len": 64, "tokens_to_copy": 12}, 3000),
    "fuzzy recall": (FuzzyRecallConfig, {}, 4000),
    "memorization": (MemorizationConfig, {"vocab_size": 1024, "seq_len": 32}, 1000),
}


def variant(name: str, readout: str, profile: str) -> plan.Variant:
    """A readout, or a control, on a task: A = I, b = 1/sqrt(n), rotary positions, eta = row sum."""
    paper, (kind, changes, steps) = profile == "paper", TASKS[name]
    task, train = kind.paper() if paper else kind.quick(), None
    if profile == plan.STANDARD:
        task, train = task.with_changes(changes), plan.standard_training(steps)
    options = {
        "n_heads": 16 if paper else 8,
        "readout": "identity" if readout in CONTROLS else readout,
        "evolution": "identity",
        "scaling": "inverse_sqrt",
        "normalizer": CONTROLS.get(readout, "row_sum"),
    }
    return plan.Variant(
        facets={"task": name, "readout": readout},
        task=task,
        model=(plan.mad_model if paper else plan.quick_model)(options, position="rotary"),
        diagnostics=DIAGNOSTICS,
        train=plan.mad_training(task) if paper else train,
    )


def _all(profile: str, *controls: str) -> list[plan.Variant]:
    return [variant(task, readout, profile) for task in TASKS for readout in (*READOUTS, *controls)]


def _draw(result: Result) -> Figure:
    tasks = list(dict.fromkeys(v.facets["task"] for v in result.variants))
    drawn, panels = new_figure(2, len(tasks) + 1, height=2.8)
    for axes, (task, quantity) in zip(panels, product(tasks, QUANTITIES), strict=False):
        for place, readout in enumerate((*READOUTS, *CONTROLS)):
            outcome = result.one(task=task, readout=readout)
            if outcome is not None:
                xs = outcome.diagnostic(quantity)
                words = f"{readout} (control)" if readout in CONTROLS else readout
                # a ratio is drawn on an axis without a zero
                least = min((x for x in xs if x), default=1.0) / 2
                bounds = SHARE if quantity == "near_zero_fraction" else (least, math.inf)
                scatter_outcome(axes, place, xs, outcome, words, bounds=bounds)
        axes.set(ylabel="test accuracy", ylim=(-0.03, 1.05), **QUANTITIES[quantity])
    for axes, task in zip(panels[::2], tasks, strict=False):
        axes.set_title(task)
    *_, theory, names = panels
    widths = [near_zero_set(getattr(readouts, name), epsilon=1e-3).measure for name in READOUTS]
    theory.barh(READOUTS, widths, color="#4A4A4A")
    theory.set(xlabel="length of the near-zero set in [-10, 10]", title="in theory")
    names.axis("off")
    names.legend(handles=legend_entries(panels), loc="center", fontsize="small")
    return drawn


EXPERIMENT = Experiment(
    id="principle-2",
    title="A larger near-zero set of the readout lets a model suppress tokens",
    source="coefficient-dynamics paper, Figures 2, 6 and 7",
    about="A = I, b = 1/sqrt(n), eta = row sum, rotary positions; the readout varies. The figures' "
    "legends are not in the paper's text: these are the readouts that it names, and the identity. "
    "Coefficients are counted raw and divided by eta. Quick: 8 of 48 tokens to copy, d = 64, 8 "
    "heads, one learning rate, 300 steps. Standard: 12 of 64 tokens to copy, fuzzy recall, 511 "
    "pairs to memorize, at most 3000, 4000 and 1000 steps; also eta = 1 and a floored row sum.",
    plans={
        "quick": lambda: plan.quick_plan(_all("quick")[: len(READOUTS)], 300),
        plan.STANDARD: lambda: plan.standard_plan(
            _all(plan.STANDARD, *CONTROLS), plan.standard_training(3000)
        ),
        "paper": lambda: plan.paper_plan(
            _all("paper"), plan.mad_training(MemorizationConfig.paper())
        ),
    },
    drawing=_draw,
)
run, load, figure, claims = EXPERIMENT.functions()
