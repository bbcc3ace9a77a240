"""Heads at a fixed number of key channels: does a model recall by its heads or by its state?

H heads of n / H key channels keep H states of (n / H) x (d / H) numbers, n d / H in all. Along one
n the state shrinks with every further head; along one n / H it stays, and only the heads multiply.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from coefdyn.lab.experiments import mqar_models as mqar
from coefdyn.lab.experiments import plan
from coefdyn.lab.experiments.base import Experiment
from coefdyn.lab.experiments.baselines import accuracy_by_place
from coefdyn.lab.experiments.figures import (
    INK,
    PALETTE,
    draw_interval,
    draw_plateau,
    legend_below,
    new_figure,
)
from coefdyn.lab.experiments.result import Result
from coefdyn.lab.tasks import MqarConfig

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["EXPERIMENT", "claims", "figure", "load", "run"]

MIXERS = {mqar.LINEAR: "LinearAttention", mqar.SOFTMAX: "SoftmaxAttention"}
#: key channels of all heads together and number of heads; no head has fewer than four
GRID = tuple((n, heads) for n in (4, 8, 16, 32) for heads in (1, 2, 4, 8) if n >= 4 * heads)
#: the cells of softmax attention, which is the control
CONTROLS = ((32, 1), (32, 8))


def _at(model: str, n: int, heads: int) -> dict[str, str]:
    return {"model": model, "n": str(n), "H": str(heads)}


def _variants(task: MqarConfig, width: int, scale: int, taps: int) -> list[plan.Variant]:
    """Every cell with ``scale`` times its channels."""
    cells = [(mqar.LINEAR, *cell) for cell in GRID] + [(mqar.SOFTMAX, *cell) for cell in CONTROLS]
    variants = []
    for model, n, heads in cells:
        options = {"n_heads": heads} | ({} if model == mqar.SOFTMAX else {"scaling": "one"})
        network = mqar.attention(MIXERS[model], width, scale * n // heads, taps, **options)
        variants.append(plan.Variant(facets=_at(model, n, heads), task=task, model=network))
    return variants


def _draw(result: Result) -> Figure:
    """Against n, a line per number of heads; the same models against the channels of a head."""
    drawn, panels = new_figure(2, width=4.4, height=4.0)
    task = result.variants[0].task
    assert isinstance(task, MqarConfig), "every variant's task is MQAR"
    sizes = (("n", "key channels of all heads"), ("n / H", "key channels per head"))
    for axes, (name, words) in zip(panels, sizes, strict=True):
        draw_plateau(axes, accuracy_by_place(task), "guess by the query's place")
        for place, heads in enumerate((1, 2, 4, 8)):
            xs, ys, color = [], [], PALETTE[place]
            for n in [n for n, some in GRID if some == heads]:
                one = result.one(**_at(mqar.LINEAR, n, heads))
                if one is None:
                    continue
                x = (n if name == "n" else n // heads) * 1.09 ** (place - 1.5)
                aside = 1.04 if draw_interval(axes, x * 1.04, one.values(), color=color) else 1
                axes.plot([x / aside] * len(one.values()), one.values(), ".", color=color)
                xs.append(x)
                ys.append(one.accuracy)
            label = f"{heads} head{'s' if heads > 1 else ''}"
            axes.plot(xs, ys, "_-", color=color, markersize=11, label=label)
        axes.set_xscale("log", base=2)
        ticks = sorted({n for n, _ in GRID})
        axes.set_xticks(ticks, [str(tick) for tick in ticks])
        axes.set(xlim=(3.2, 46), ylim=(0, 1.05), xlabel=f"${name}$: {words}")
        axes.set_ylabel("test accuracy")
        for n, heads in CONTROLS:
            one = result.one(**_at(mqar.SOFTMAX, n, heads))
            if one is not None:
                x, values = (n if name == "n" else n // heads) * 1.26, one.values()
                label = "softmax, 1 and 8 heads (control)"
                axes.plot([x / 1.04] * len(values), values, "x", color=INK, label=label)
                draw_interval(axes, x * 1.04, values)
    legend_below(drawn, panels, 3)
    return drawn


EXPERIMENT = Experiment(
    id="heads",
    title="Heads at a fixed number of key channels",
    source="this book, after Principle 2.2",
    about="Linear attention on multi-query associative recall, trained as in dsf-mqar. Varied: the "
    "key channels n of all heads together and the number H of heads, each with n / H of them and "
    "d / H of the values. Softmax attention with one and with eight heads is the control. "
    "Standard: 8 pairs in 32 tokens, d = 64. Paper: 64 pairs in 512 tokens, d = 128, four times "
    "the channels.",
    plans={
        plan.STANDARD: lambda: plan.standard_plan(
            _variants(mqar.standard_task(), 64, 1, 4),
            plan.standard_training(3000),
            weight_decay=0.1,
            pilot=1,
        ),
        "paper": lambda: plan.paper_plan(
            _variants(MqarConfig.paper(512), 128, 4, 0),
            mqar.trained_as_zoology(MqarConfig.paper(512)),
            learning_rates=mqar.LEARNING_RATES,
            weight_decays=(0.1,),
            seeds=2,
        ),
    },
    drawing=_draw,
    borrows_from="dsf-mqar",  # its models with one head
)
run, load, figure, claims = EXPERIMENT.functions()
