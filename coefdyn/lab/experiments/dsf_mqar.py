"""Dynamical systems framework on MQAR (its Figures 1 to 3 and 5 to 7): state size and gates."""

from __future__ import annotations

from typing import TYPE_CHECKING

from coefdyn.lab.experiments import mqar_models as mqar
from coefdyn.lab.experiments import plan
from coefdyn.lab.experiments.base import Experiment
from coefdyn.lab.experiments.lines import lines_figure
from coefdyn.lab.experiments.mqar_models import quick_task, standard_task
from coefdyn.lab.experiments.result import Result
from coefdyn.lab.tasks import MqarConfig

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["EXPERIMENT", "claims", "figure", "load", "quick_task", "run", "standard_task"]

EXPANDED = (mqar.SOFTMAX, mqar.LINEAR, mqar.NORMALIZED, mqar.S6, mqar.SSD)
#: n = 1; the row that the reversed sigmoid is taken from stands beside the two, without a claim
GATES, GATED = (mqar.PLAIN, mqar.REVERSED), (mqar.PLAIN, mqar.REVERSED, mqar.RG_LRU)
#: the standard profile: model -> values of n; S6 and qLSTM last, they cost most
STANDARD_SIZES: dict[str, tuple[int, ...]] = {
    **dict.fromkeys((mqar.SOFTMAX, mqar.LINEAR, mqar.NORMALIZED, mqar.SSD), (4, 8, 16, 32)),
    mqar.S6: (4, 16),
    **dict.fromkeys(GATES, (1,)),
}
#: 3000 for all models at first, and with these no qLSTM passed the guess by the query's place
STEPS, GATED_STEPS = 3000, 12_000


def _variant(task: MqarConfig, model: str, n: int, profile: str, width: int = 64) -> plan.Variant:
    paper, standard = profile == "paper", profile == plan.STANDARD
    train = mqar.trained_as_zoology(task) if paper else None
    if standard and model in GATED:
        train = plan.standard_training(GATED_STEPS, evaluate_every=300)
    words = f"{task.pairs} pairs in {task.seq_len}"
    return plan.Variant(
        facets={"task": words, "model": model, "d": str(width), "n": str(n)},
        task=task,
        model=mqar.build(model, width, n, taps=0 if paper else 4),
        train=train,
        method="chunked" if standard and model in (mqar.S6, *GATED) else None,
    )


def _quick() -> plan.Plan:
    models = (mqar.SOFTMAX, mqar.LINEAR)
    return mqar.quick_mqar([_variant(quick_task(), model, 16, "quick") for model in models])


def _standard() -> plan.Plan:
    cells = [(standard_task(), model, n) for model, sizes in STANDARD_SIZES.items() for n in sizes]
    cells += [(mqar.gated_task(), model, 1) for model in GATED]
    return plan.standard_plan(
        [_variant(*cell, plan.STANDARD) for cell in cells],
        plan.standard_training(STEPS),
        weight_decay=0.1,
        pilot=1,
    )


def _paper() -> plan.Plan:
    tasks = [MqarConfig.paper(length) for length in (64, 128, 256, 512)]
    sizes = {**dict.fromkeys(EXPANDED, (32, 64, 128, 256)), **dict.fromkeys(GATES, (1,))}
    variants = [
        _variant(task, model, n, "paper", width)
        for task in tasks
        for width in (64, 128, 256, 512)
        for model, values in sizes.items()
        for n in values
        if not (model in GATES and task.seq_len == 512)
    ]
    train = mqar.trained_as_zoology(tasks[0])
    rates = mqar.LEARNING_RATES
    return plan.paper_plan(variants, train, learning_rates=rates, weight_decays=(0.1,))


def _draw(result: Result) -> Figure:
    """Against n at the largest width, against d at n = 128, and the gates against d, by task."""
    widths = [variant.facets["d"] for variant in result.variants]
    views = [
        ("n", EXPANDED, {"d": max(widths, key=int)}),
        ("d", EXPANDED, {"n": "128"}),
        ("d", GATED, {}),
    ]
    return lines_figure(result, views)


EXPERIMENT = Experiment(
    id="dsf-mqar",
    title="A larger state recalls more, and so does a normaliser that reads the token",
    source="dynamical systems framework, Figures 1 to 3 and 5 to 7",
    about="Multi-query associative recall, 2 layers, one head, weight decay 0.1, warm-up 10 %. "
    "Varied: the mixer, the width d, the state expansion n. Attention and qLSTM have learned "
    "positions, S6 and SSD none, no convolution and no gate; qLSTM keeps its authors' convolution "
    "and gate (SiLU for GELU). Each mixer is followed by a SwiGLU (the paper: an MLP; its code has "
    "none for some models). No dropout on the embedding. Paper: lengths 64 to 512, d 64 to 512, n "
    "32 to 256, four learning rates, 64 epochs; its Figures 5 and 6 repeat parts with 10 seeds "
    "(--seeds 0 1 2 ...). Quick: 4 pairs in 16 tokens, d = 64, n = 16, softmax and linear "
    "attention with a short convolution, one learning rate, 200 steps. Standard: 8 pairs in 32 "
    "tokens, n from 4 to 32, at most 3000 steps (qLSTM 12 000, and 4 pairs in 16 as well, as "
    "RG-LRU), a short convolution in every mixer: without it, looking back one token takes too "
    "long to learn.",
    plans={"quick": _quick, plan.STANDARD: _standard, "paper": _paper},
    drawing=_draw,
)
run, load, figure, claims = EXPERIMENT.functions()
