"""Dynamical systems framework, Table 2: which map of x_i normalises linear attention best."""

from __future__ import annotations

from typing import TYPE_CHECKING

from coefdyn.lab.experiments import mqar_models as mqar
from coefdyn.lab.experiments import plan
from coefdyn.lab.experiments.base import Experiment
from coefdyn.lab.experiments.baselines import accuracy_by_place
from coefdyn.lab.experiments.figures import bars
from coefdyn.lab.experiments.result import Result
from coefdyn.lab.tasks import MqarConfig

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["EXPERIMENT", "claims", "figure", "load", "run"]

MAPS = ("exp", "softplus", "sigmoid")


def _variant(eta: str, task: MqarConfig, width: int, n: int, taps: int) -> plan.Variant:
    model = mqar.attention("NormalizedAttention", width, n, taps, scaling="one", eta=eta)
    return plan.Variant(facets={"eta": eta}, task=task, model=model)


def _paper() -> plan.Plan:
    task = MqarConfig.paper(512)
    return plan.paper_plan(
        [_variant(eta, task, 512, 128, 0) for eta in MAPS],
        mqar.trained_as_zoology(task),
        learning_rates=mqar.LEARNING_RATES,
        weight_decays=(0.1,),
    )


def _draw(result: Result) -> Figure:
    task = result.variants[0].task
    assert isinstance(task, MqarConfig), "every variant's task is MQAR"
    return bars(
        result,
        {eta: {"eta": eta} for eta in MAPS},
        {"mean": {}},
        title=f"{task.pairs} pairs in {task.seq_len} tokens",
        width=5.4,
        height=3.4,
        guess=(accuracy_by_place(task), "guess by the query's place"),
    )


EXPERIMENT = Experiment(
    id="dsf-normalizers",
    title="Three normalisers of normalized attention, close together, exp ahead",
    source="dynamical systems framework, Table 2",
    about="Normalized attention on multi-query associative recall, trained as in dsf-mqar. Varied: "
    "eta = exp, softplus or sigmoid of W x_i, which the paper finds right in 85.9, 84.3 and 84.7 "
    "of 100 answers. The table does not name d and n; the paper profile takes d = 512 and n = 128, "
    "those of its Figures 1 and 2. Quick: exp alone; 4 pairs in 16 tokens, d = 64, n = 4, a short "
    "convolution, one learning rate, 200 steps. Standard: 8 pairs in 32 tokens, n = 8, 3000 steps, "
    "eight seeds.",
    plans={
        "quick": lambda: mqar.quick_mqar([_variant("exp", mqar.quick_task(), 64, 4, 4)]),
        plan.STANDARD: lambda: plan.standard_plan(
            [_variant(eta, mqar.standard_task(), 64, 8, 4) for eta in MAPS],
            plan.standard_training(3000),
            weight_decay=0.1,
            seeds=8,
        ),
        "paper": _paper,
    },
    drawing=_draw,
)
run, load, figure, claims = EXPERIMENT.functions()
