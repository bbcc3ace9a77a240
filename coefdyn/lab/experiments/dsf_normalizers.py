"""Dynamical systems framework, Table 2: which map of x_i normalises linear attention best."""

from __future__ import annotations

from typing import TYPE_CHECKING

from coefdyn.lab.experiments.base import Experiment
from coefdyn.lab.experiments.baselines import accuracy_by_place
from coefdyn.lab.experiments.dsf_mqar import (
    LEARNING_RATES,
    attention,
    quick_task,
    quick_training,
    trained_as_zoology,
)
from coefdyn.lab.experiments.dsf_standard import standard_task
from coefdyn.lab.experiments.figures import draw_plateau, grouped_points, new_figure
from coefdyn.lab.experiments.plan import (
    STANDARD,
    Plan,
    Variant,
    standard_plan,
    standard_training,
)
from coefdyn.lab.experiments.result import Result
from coefdyn.lab.tasks import MqarConfig

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["EXPERIMENT", "REPORTED", "claims", "figure", "load", "run"]

#: accuracy of the paper's Table 2, MQAR with 64 pairs in 512 tokens
REPORTED = {"exp": 0.859, "softplus": 0.843, "sigmoid": 0.847}
#: the standard profile: steps and seeds
STEPS, SEEDS = 3000, 8


class DsfNormalizers(Experiment):
    id = "dsf-normalizers"
    title = "Three normalisers of normalized attention, close together, exp ahead"
    source = "dynamical systems framework, Table 2"
    profiles = ("live", "quick", "standard", "paper")
    about = (
        "Normalized attention on multi-query associative recall, trained as in dsf-mqar. Varied: "
        "eta = exp, softplus or sigmoid of W x_i. The table does not name d and n; the paper "
        "profile takes d = 512 and n = 128, those of its Figures 1 and 2. Quick: 4 pairs in 16 "
        "tokens, d = 64, n = 4, a short convolution, one learning rate, 400 steps, 3 seeds. Live: "
        "exp alone, 200 steps. Standard: 8 pairs in 32 tokens, n = 8, 3000 steps, eight seeds."
    )

    def plan(self, profile: str) -> Plan:
        paper, live = profile == "paper", profile == "live"
        task = MqarConfig.paper(512) if paper else quick_task()
        width, n, taps = (512, 128, 0) if paper else (64, 4, 4)
        if profile == STANDARD:
            task, n = standard_task(), 8
        maps = ("exp",) if live else tuple(REPORTED)
        variants = tuple(
            Variant(
                facets={"eta": eta},
                task=task,
                model=attention("NormalizedAttention", width, n, taps, scaling="one", eta=eta),
            )
            for eta in maps
        )
        if profile == STANDARD:
            training = standard_training(STEPS)
            return standard_plan(variants, training, weight_decay=0.1, seeds=SEEDS)
        return Plan(
            variants=variants,
            train=trained_as_zoology(task) if paper else quick_training(200 if live else 400),
            learning_rates=LEARNING_RATES if paper else (3e-3,),
            weight_decays=(0.1,),
            seeds=(0, 1, 2) if profile == "quick" else (0,),
        )

    def draw(self, result: Result) -> Figure:
        drawn, (axes,) = new_figure(width=5.4, height=3.4)
        task = result.variants[0].task
        assert isinstance(task, MqarConfig), "every variant's task is MQAR"
        draw_plateau(axes, accuracy_by_place(task), "guess by the query's place")
        maps = [variant.facets["eta"] for variant in result.variants]
        grouped_points(axes, maps, {"mean": [result.one(eta=eta) for eta in maps]})
        axes.set_title(f"{task.pairs} pairs in {task.seq_len} tokens", loc="left")
        return drawn


EXPERIMENT = DsfNormalizers()
run, load, figure, claims = EXPERIMENT.functions()
