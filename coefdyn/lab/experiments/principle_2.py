"""Principle 2 (Figures 2, 6, 7): a readout with a larger zero set suppresses tokens more easily.

The identity divided by its signed row sum meets that sum's poles. So the standard profile has the
identity with eta = 1 and with a floored row sum beside it: what it loses there is the readout's.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from coefdyn.lab.experiments.base import Experiment
from coefdyn.lab.experiments.figures import SHARE, legend_entries, new_figure, scatter_outcome
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
from coefdyn.lab.experiments.result import Result
from coefdyn.lab.tasks import (
    FuzzyRecallConfig,
    MemorizationConfig,
    SelectiveCopyingConfig,
    TaskConfig,
)
from coefdyn.lab.training import TrainConfig

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = [
    "EXPERIMENT",
    "claims",
    "figure",
    "load",
    "near_zero_set",
    "readout_variant",
    "run",
    "tasks_of",
    "trained_for",
]

READOUTS = ("exp", "softplus", "relu", "identity")
DIAGNOSTICS = ("near_zero_fraction", "large_fraction", "large_to_near_zero")
#: the controls of the standard profile: the identity without a row sum that may vanish
CONTROLS = {"identity, eta = 1": "one", "identity, floored": "floored"}
POINTWISE = READOUTS[:3]


def tasks_of(profile: str) -> dict[str, TaskConfig]:
    """The three tasks of the figures at a profile's size."""
    if profile == STANDARD:
        return {
            "selective copying": SelectiveCopyingConfig.quick().with_changes(
                {"seq_len": 64, "tokens_to_copy": 12}
            ),
            "fuzzy recall": FuzzyRecallConfig.quick(),
            "memorization": MemorizationConfig(vocab_size=1024, test_examples=640),
        }
    kinds: dict[str, Any] = {
        "selective copying": SelectiveCopyingConfig,
        "fuzzy recall": FuzzyRecallConfig,
        "memorization": MemorizationConfig,
    }
    return {
        name: kind.paper() if profile == "paper" else kind.quick() for name, kind in kinds.items()
    }


def trained_for(task: TaskConfig, profile: str) -> TrainConfig:
    """Optimiser settings of a task: the paper's, or a number of steps that two cores can afford."""
    if profile == "paper":
        return mad_training(task)
    if profile == STANDARD:
        limits = {"selective-copying": 3000, "fuzzy-recall": 4000, "memorization": 1000}
        return standard_training(limits[task.task_name])
    steps = {"selective-copying": 600, "fuzzy-recall": 1200, "memorization": 200}[task.task_name]
    return TrainConfig(
        steps=300 if profile == "live" else steps,
        batch=min(32, task.train_examples),
        final_learning_rate=0.0,
        evaluate_every=100,
    )


def readout_variant(name: str, task: TaskConfig, readout: str, profile: str) -> Variant:
    """A = I, b = 1/sqrt(n), eta = row sum, rotary positions; the readout is what varies."""
    paper = profile == "paper"
    options = {
        "n_heads": 16 if paper else 8,
        "readout": readout,
        "evolution": "identity",
        "scaling": "inverse_sqrt",
        "normalizer": "row_sum",
    }
    return Variant(
        facets={"task": name, "readout": readout},
        task=task,
        model=(mad_model if paper else quick_model)(options, position="rotary"),
        diagnostics=DIAGNOSTICS,
        train=trained_for(task, profile),
    )


def identity_control(name: str, task: TaskConfig, readout: str) -> Variant:
    """One of ``CONTROLS``: the identity's variant of the standard profile with another eta."""
    one = readout_variant(name, task, "identity", STANDARD)
    options = {**one.model.options, "normalizer": CONTROLS[readout]}  # type: ignore[dict-item]
    facets = {"task": name, "readout": readout}
    return replace(one, facets=facets, model=replace(one.model, options=options))


def standard_variant(name: str, readout: str) -> Variant:
    """A readout, or a control of the identity, on a task of the standard profile."""
    task = tasks_of(STANDARD)[name]
    if readout in CONTROLS:
        return identity_control(name, task, readout)
    return readout_variant(name, task, readout, STANDARD)


def near_zero_set(readout: str, epsilon: float = 1e-3, reach: float = 10.0) -> float:
    """Length of {x in [-reach, reach] : abs(phi(x)) <= epsilon}: Figure 2's right panel, bounded.

    The set of exp, softplus and ReLU is an interval without end to the left; ``reach`` makes the
    lengths comparable. The identity's is [-epsilon, epsilon].
    """
    right = {
        "exp": math.log(epsilon),
        "softplus": math.log(math.expm1(epsilon)),
        "relu": epsilon,
    }
    return 2 * epsilon if readout == "identity" else right[readout] + reach


class Principle2(Experiment):
    id = "principle-2"
    title = "A larger near-zero set of the readout lets a model suppress tokens"
    source = "coefficient-dynamics paper, Figures 2, 6 and 7"
    profiles = ("live", "quick", "standard", "paper")
    about = (
        "A = I, b = 1/sqrt(n), eta = row sum, rotary positions; the readout varies. The figures' "
        "legends are not in the paper's text: these are the readouts that it names, and the "
        "identity. Coefficients are counted raw and divided by eta. Quick: shorter tasks, d = 64, "
        "8 heads, one learning rate, 200 to 1200 steps. Live: selective copying, 300 steps. "
        "Standard: 12 of 64 tokens to copy, the quick fuzzy recall, 511 pairs to memorize, at "
        "most 3000, 4000 and 1000 steps, and the identity with eta = 1 and with a floored row "
        "sum."
    )

    def plan(self, profile: str) -> Plan:
        if profile == STANDARD:
            readouts = (*READOUTS, *CONTROLS)
            cells = [(task, readout) for task in tasks_of(STANDARD) for readout in readouts]
            variants = [standard_variant(*cell) for cell in cells]
            return standard_plan(variants, standard_training(3000))
        live = profile == "live"
        return Plan(
            variants=tuple(
                readout_variant(name, task, readout, profile)
                for name, task in tasks_of(profile).items()
                for readout in READOUTS
                if not live or name == "selective copying"
            ),
            train=trained_for(MemorizationConfig.quick(), "quick"),
            learning_rates=LEARNING_RATES if profile == "paper" else (3e-3,),
            weight_decays=WEIGHT_DECAYS if profile == "paper" else (0.0,),
            seeds=(0, 1) if profile == "quick" else (0,),
        )

    def draw(self, result: Result) -> Figure:
        tasks = list(dict.fromkeys(v.facets["task"] for v in result.variants))
        drawn, panels = new_figure(2, len(tasks) + 1, height=2.8)
        left, right = panels[::2], panels[1::2]
        for near, ratio, task in zip(left, right, tasks, strict=False):
            self._draw_task(near, result, task, "near_zero_fraction")
            self._draw_task(ratio, result, task, "large_to_near_zero")
            near.set(xlabel="fraction of |coefficients| <= 0.001", title=task)
            ratio.set(xlabel="number in [0.9, 1] / number near zero", xscale="log")
        widths = [near_zero_set(readout) for readout in READOUTS]
        left[-1].barh(READOUTS, widths, color="#4A4A4A")
        left[-1].set(xlabel="length of the near-zero set in [-10, 10]", title="in theory")
        right[-1].axis("off")
        right[-1].legend(handles=legend_entries(panels), loc="center", fontsize="small")
        return drawn

    def _draw_task(self, axes: Axes, result: Result, task: str, quantity: str) -> None:
        for place, readout in enumerate((*READOUTS, *CONTROLS)):
            outcome = result.one(task=task, readout=readout)
            if outcome is not None:
                xs = outcome.diagnostic(quantity)
                words = f"{readout} (control)" if readout in CONTROLS else readout
                # a ratio is drawn on an axis without a zero
                least = min((x for x in xs if x), default=1.0) / 2
                bounds = SHARE if quantity == "near_zero_fraction" else (least, math.inf)
                scatter_outcome(axes, place, xs, outcome, words, bounds=bounds)
        axes.set(ylabel="test accuracy", ylim=(-0.03, 1.05))


EXPERIMENT = Principle2()
run, load, figure, claims = EXPERIMENT.functions()
