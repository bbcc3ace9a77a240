"""Dynamical systems framework on MQAR (its Figures 1 to 3 and 5 to 7): state size and gates.

The models of the source's six figures; what the standard profile trains and claims is in
`dsf_standard`. A little over 400 lines: six figures share these models and their drawing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from coefdyn.lab.experiments.base import Experiment
from coefdyn.lab.experiments.baselines import accuracy_by_place
from coefdyn.lab.experiments.dsf_standard import (
    EXPANDED,
    GATED_STEPS,
    GATES,
    LINEAR,
    NORMALIZED,
    ONE_PER_CHANNEL,
    REVERSED,
    RG_LRU,
    S6,
    SOFTMAX,
    SSD,
    STANDARD_SIZES,
    STEPS,
    gated_task,
    standard_task,
)
from coefdyn.lab.experiments.figures import (
    PALETTE,
    draw_interval,
    draw_plateau,
    legend_entries,
    new_figure,
)
from coefdyn.lab.experiments.plan import (
    STANDARD,
    Plan,
    Variant,
    standard_plan,
    standard_training,
)
from coefdyn.lab.experiments.result import Result
from coefdyn.lab.tasks import MqarConfig
from coefdyn.lab.training import TrainConfig
from coefdyn.models import ModelConfig

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = [
    "EXPERIMENT",
    "LEARNING_RATES",
    "attention",
    "claims",
    "figure",
    "load",
    "quick_task",
    "quick_training",
    "run",
    "trained_as_zoology",
]

#: np.logspace(-4, -2, 4)
LEARNING_RATES = tuple(10.0 ** (-4 + 2 * step / 3) for step in range(4))


def quick_task() -> MqarConfig:
    """Four pairs in 16 tokens, 15 keys and 16 values: solved in seconds by softmax attention."""
    return MqarConfig(vocab_size=32, seq_len=16, pairs=4, train_examples=6_400, test_examples=640)


def quick_training(steps: int) -> TrainConfig:
    """One CPU core: batches of 64, a warm-up over a tenth of the steps, then a cosine to 0."""
    return TrainConfig(
        steps=steps,
        batch=64,
        warmup=steps // 10,
        final_learning_rate=0.0,
        evaluate_every=100,
        stop_accuracy=None,
    )


def trained_as_zoology(task: MqarConfig) -> TrainConfig:
    """The paper's Appendix J.1: 64 epochs, 10 % warm-up, batch 512, less for long sequences."""
    batch = 512 if task.seq_len <= 128 else 256 if task.seq_len <= 256 else 128
    per_epoch = task.train_examples // batch
    return TrainConfig(
        steps=64 * per_epoch,
        batch=batch,
        betas=(0.9, 0.999),
        warmup=64 * per_epoch // 10,
        final_learning_rate=0.0,
        cosine_per_epoch=True,
        evaluate_every=per_epoch,
        stop_accuracy=0.99,
        precision="tf32",
    )


def attention(mixer: str, width: int, n: int, taps: int, **options: str) -> ModelConfig:
    """One head with n channels for keys and d for values, learned positions; two layers."""
    sizes = {"n_heads": 1, "key_dim": n, "bias": True, "short_convolution": taps}
    return _model(mixer, width, {**sizes, **options}, "learned")


def _model(mixer: str, width: int, options: dict[str, Any], position: str) -> ModelConfig:
    return ModelConfig(
        width=width, layers=2, mlp=2 * width, mixer=mixer, options=options, position=position
    )


def _build(model: str, width: int, n: int, taps: int) -> ModelConfig:
    """A model by its name in the figures; ``taps`` of a short convolution, 0 for none.

    The two SSMs have no gate and no positions; without convolution, S6 reads x itself.
    """
    bare = {"short_convolution": taps, "output_gate": "none", "output_norm": "none"}
    if model == SOFTMAX:
        return attention("SoftmaxAttention", width, n, taps)
    if model == LINEAR:
        return attention("LinearAttention", width, n, taps, scaling="one")
    if model == NORMALIZED:
        return attention("NormalizedAttention", width, n, taps, scaling="one")
    if model == S6:
        return _model("S6", width, {"key_dim": n, "input_projection": taps > 0, **bare}, "none")
    if model == SSD:
        return _model("Mamba2", width, {"n_heads": 1, "key_dim": n, **bare}, "none")
    options: dict[str, Any] = {"short_convolution": 4, "output_gate": "silu"}
    if model == RG_LRU:
        return _model("RGLRU", width, options, "learned")
    options["forget_gate"] = "reversed" if model == REVERSED else "sigmoid"
    return _model("QLSTM", width, options, "learned")


class DsfMqar(Experiment):
    id = "dsf-mqar"
    title = "A larger state recalls more, and so does a normaliser that reads the token"
    source = "dynamical systems framework, Figures 1 to 3 and 5 to 7"
    profiles = ("live", "quick", "standard", "paper")
    about = (
        "Multi-query associative recall, 2 layers, one head, weight decay 0.1, warm-up 10 %. "
        "Varied: the mixer, the width d, the state expansion n. Attention and qLSTM have learned "
        "positions, S6 and SSD none, no convolution and no gate; qLSTM keeps its authors' "
        "convolution and gate (SiLU for GELU). Each mixer is followed by a SwiGLU (the paper: an "
        "MLP; its code has none for some models). No dropout on the embedding. Paper: lengths 64 "
        "to 512, d 64 to 512, n 32 to 256, four learning rates, 64 epochs; its Figures 5 and 6 "
        "repeat parts with 10 seeds (--seeds 0 1 2 ...). Quick: 4 pairs in 16 tokens, d = 64, two "
        "values of n, one learning rate, 400 steps, and a short convolution in every mixer: "
        "without it, looking back one token takes too long to learn. Live: softmax and linear "
        "attention, 200 steps. Standard: 8 pairs in 32 tokens, n from 4 to 32, at most 3000 steps "
        "(qLSTM 12 000, and 4 pairs in 16 as well, as RG-LRU), a short convolution in every mixer."
    )

    def plan(self, profile: str) -> Plan:
        if profile == STANDARD:
            task = standard_task()
            small = [(task, model, n) for model, sizes in STANDARD_SIZES.items() for n in sizes]
            small += [(gated_task(), model, 1) for model in (*GATES, RG_LRU)]
            variants = [_standard_variant(*cell) for cell in small]
            return standard_plan(variants, standard_training(STEPS), weight_decay=0.1, pilot=1)
        paper, live = profile == "paper", profile == "live"
        tasks = [MqarConfig.paper(length) for length in (64, 128, 256, 512)]
        cells = [
            (task, model, width, n)
            for task in (tasks if paper else [quick_task()])
            for width in ((64, 128, 256, 512) if paper else (64,))
            for model, sizes in _sizes(profile).items()
            for n in sizes
            if not (model in GATES and task.seq_len == 512)
        ]
        return Plan(
            variants=tuple(_variant(*cell, paper=paper) for cell in cells),
            train=trained_as_zoology(tasks[0]) if paper else quick_training(200 if live else 400),
            learning_rates=LEARNING_RATES if paper else (3e-3,),
            weight_decays=(0.1,),
            seeds=(0, 1) if profile == "quick" else (0,),
        )

    def draw(self, result: Result) -> Figure:
        tasks, widths = _values(result, "task"), _values(result, "d")
        views: list[tuple[str, tuple[str, ...], dict[str, str]]] = [
            ("n", EXPANDED, {"d": widths[-1]}),
            ("d", EXPANDED, {"n": "128"}),
            ("d", (*GATES, RG_LRU), {}),
        ]
        wanted = [
            (along, models, {"task": task, **fixed})
            for along, models, fixed in views
            for task in tasks
            if _planned(result, models, {"task": task, **fixed})
        ]
        columns = min(2, len(tasks))
        drawn, panels = new_figure(columns, -(-len(wanted) // columns), width=5.0, height=3.6)
        for axes, (along, models, fixed) in zip(panels, wanted, strict=False):
            _draw_lines(axes, result, models, along, fixed)
        for axes in panels[len(wanted) :]:
            axes.axis("off")
        return drawn


def _standard_variant(task: MqarConfig, model: str, n: int) -> Variant:
    one = _variant(task, model, 64, n, paper=False)
    longer = (
        standard_training(GATED_STEPS, evaluate_every=300) if model in (*GATES, RG_LRU) else None
    )
    return replace(one, method="chunked" if model in ONE_PER_CHANNEL else None, train=longer)


def _sizes(profile: str) -> dict[str, tuple[int, ...]]:
    """Model -> the values of n; qLSTM has n = 1."""
    if profile == "live":
        return {SOFTMAX: (16,), LINEAR: (16,)}
    sizes = (32, 64, 128, 256) if profile == "paper" else (4, 16)
    return {**dict.fromkeys(EXPANDED, sizes), **dict.fromkeys(GATES, (1,))}


def _variant(task: MqarConfig, model: str, width: int, n: int, *, paper: bool) -> Variant:
    return Variant(
        facets={
            "task": f"{task.pairs} pairs in {task.seq_len}",
            "model": model,
            "d": str(width),
            "n": str(n),
        },
        task=task,
        model=_build(model, width, n, taps=0 if paper else 4),
        train=trained_as_zoology(task) if paper else None,
    )


def _values(result: Result, facet: str) -> list[str]:
    return list(dict.fromkeys(variant.facets[facet] for variant in result.variants))


def _planned(result: Result, models: Sequence[str], fixed: dict[str, str]) -> list[Variant]:
    """The variants of these models with these facets, run or not."""
    return [
        variant
        for variant in result.variants
        if variant.facets["model"] in models
        and all(variant.facets[name] == value for name, value in fixed.items())
    ]


def _draw_lines(
    axes: Axes, result: Result, models: Sequence[str], along: str, fixed: dict[str, str]
) -> None:
    """Accuracy against n or d: a line through the means, their intervals, a point per seed."""
    planned = [
        v for v in result.variants
        if v.facets["model"] in models and all(v.facets[k] == x for k, x in fixed.items())
    ]  # fmt: skip
    ticks = list(dict.fromkeys(v.facets[along] for v in planned))
    models = [model for model in models if any(v.facets["model"] == model for v in planned)]
    for place, model in enumerate(models):
        shift, color = 0.14 * (place - (len(models) - 1) / 2), PALETTE[place]
        found = [result.outcome(v) for v in planned if v.facets["model"] == model]
        pairs = [(ticks.index(one.variant.facets[along]) + shift, one) for one in found if one]
        for x, one in pairs:
            values = one.values()
            aside = 0.035 if draw_interval(axes, x + 0.035, values, color=color) else 0.0
            axes.plot(
                [x - aside] * len(values), values, "o", color=color, markersize=3.5, alpha=0.7
            )
        xs, means = [x for x, _ in pairs], [one.accuracy for _, one in pairs]
        axes.plot(xs, means, "_-", color=color, markersize=11, markeredgewidth=2, label=model)
    if not any(result.outcome(v) for v in planned):
        axes.text(0.5, 0.6, "not run", transform=axes.transAxes, ha="center")
    task = next(v.task for v in result.variants if v.facets["task"] == fixed["task"])
    assert isinstance(task, MqarConfig), "every variant's task is MQAR"
    control = " (control)" if result.profile == STANDARD else ""
    draw_plateau(axes, accuracy_by_place(task), f"guess by the query's place{control}")
    axes.set_xticks(range(len(ticks)), ticks)
    axes.set(xlim=(-0.5, max(len(ticks), 1) - 0.5), ylim=(0, 1.05), xlabel=f"${along}$")
    axes.set_ylabel("test accuracy")
    words = [fixed["task"], *(f"{name} = {x}" for name, x in fixed.items() if name != "task")]
    axes.set_title(", ".join(words), loc="left")
    below = {"loc": "upper center", "bbox_to_anchor": (0.5, -0.16)}
    axes.legend(handles=legend_entries([axes]), fontsize="small", ncols=2, **below)


EXPERIMENT = DsfMqar()
run, load, figure, claims = EXPERIMENT.functions()
