"""Heads at a fixed number of key channels: does a model recall by its heads or by its state?

H heads of n / H key channels keep H states of (n / H) x (d / H) numbers, n d / H in all. Along one
n the state shrinks with every further head; along one n / H it stays, and only the heads multiply.
"""

from __future__ import annotations

from dataclasses import replace
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
from coefdyn.lab.experiments.dsf_standard import (
    LINEAR,
    SOFTMAX,
    standard_task,
)
from coefdyn.lab.experiments.figures import (
    INK,
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

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["EXPERIMENT", "claims", "figure", "load", "run"]

MIXERS = {LINEAR: "LinearAttention", SOFTMAX: "SoftmaxAttention"}
#: key channels of all heads together and number of heads; no head has fewer than four
GRID = tuple((n, heads) for n in (4, 8, 16, 32) for heads in (1, 2, 4, 8) if n >= 4 * heads)
#: the cells of softmax attention, which is the control
CONTROLS = ((32, 1), (32, 8))


class Heads(Experiment):
    id = "heads"
    title = "Heads at a fixed number of key channels"
    source = "this book, after Principle 2.2"
    profiles = ("quick", "standard", "paper")
    borrows_from = "dsf-mqar"  # its models with one head
    about = (
        "Linear attention on multi-query associative recall, trained as in dsf-mqar. Varied: the "
        "key channels n of all heads together and the number H of heads, each with n / H of them "
        "and d / H of the values. Softmax attention with one and with eight heads is the control. "
        "Standard: 8 pairs in 32 tokens, d = 64. Quick: 4 pairs in 16 tokens, 400 steps. Paper: "
        "64 pairs in 512 tokens, d = 128, four times the channels."
    )

    def plan(self, profile: str) -> Plan:
        paper = profile == "paper"
        cells = [(LINEAR, *cell) for cell in GRID] + [(SOFTMAX, *cell) for cell in CONTROLS]
        variants = [_variant(*cell, profile) for cell in cells]
        if profile == STANDARD:
            return standard_plan(variants, standard_training(3000), weight_decay=0.1, pilot=1)
        return Plan(
            variants=tuple(variants),
            train=trained_as_zoology(MqarConfig.paper(512)) if paper else quick_training(400),
            learning_rates=LEARNING_RATES if paper else (3e-3,),
            weight_decays=(0.1,),
            seeds=(0, 1),
        )

    def draw(self, result: Result) -> Figure:
        """Against n, a line per number of heads; the same models against the size of the state."""
        drawn, panels = new_figure(2, width=4.4, height=4.0)
        task = result.variants[0].task
        assert isinstance(task, MqarConfig), "every variant's task is MQAR"
        sizes = (("n", "key channels of all heads"), ("n / H", "key channels per head"))
        for axes, (name, words) in zip(panels, sizes, strict=True):
            draw_plateau(axes, accuracy_by_place(task), "guess by the query's place")
            for place, heads in enumerate((1, 2, 4, 8)):
                xs, ys, color = [], [], PALETTE[place]
                for n in [n for n, some in GRID if some == heads]:
                    one = result.one(**_at(LINEAR, n, heads))
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
                one = result.one(**_at(SOFTMAX, n, heads))
                if one is not None:
                    x = (n if name == "n" else n // heads) * 1.26
                    label = "softmax, 1 and 8 heads (control)"
                    axes.plot(
                        [x / 1.04] * len(one.values()), one.values(), "x", color=INK, label=label
                    )
                    draw_interval(axes, x * 1.04, one.values())
        drawn.legend(
            handles=legend_entries(panels), loc="outside lower center", ncols=3, fontsize="small"
        )
        return drawn


def _at(model: str, n: int, heads: int) -> dict[str, str]:
    return {"model": model, "n": str(n), "H": str(heads)}


def _variant(model: str, n: int, heads: int, profile: str) -> Variant:
    paper = profile == "paper"
    task = {"quick": quick_task, STANDARD: standard_task}.get(
        profile, lambda: MqarConfig.paper(512)
    )
    width, scale = (128, 4) if paper else (64, 1)
    options = {} if model == SOFTMAX else {"scaling": "one"}
    network = attention(MIXERS[model], width, scale * n // heads, 0 if paper else 4, **options)
    network = replace(network, options={**network.options, "n_heads": heads})  # type: ignore[dict-item]
    return Variant(facets=_at(model, n, heads), task=task(), model=network)


EXPERIMENT = Heads()
run, load, figure, claims = EXPERIMENT.functions()
