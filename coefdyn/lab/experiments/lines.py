"""Accuracy on MQAR against a size: a line through the means, their intervals, a point per seed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from coefdyn.lab.experiments.baselines import accuracy_by_place
from coefdyn.lab.experiments.figures import (
    PALETTE,
    draw_interval,
    draw_plateau,
    legend_entries,
    new_figure,
)
from coefdyn.lab.experiments.plan import STANDARD, Variant
from coefdyn.lab.experiments.result import Result
from coefdyn.lab.tasks import MqarConfig

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["View", "lines_figure"]

#: facet along the x axis, models of which each has a line, and facets that are fixed
View = tuple[str, Sequence[str], dict[str, str]]


def lines_figure(result: Result, views: Sequence[View]) -> Figure:
    """A panel per view and task in which a variant is planned.

    Args:
        result: of an experiment with the facets "task" and "model" on MQAR.
        views: what is drawn.
    """
    tasks = list(dict.fromkeys(variant.facets["task"] for variant in result.variants))
    wanted = [
        (along, models, {"task": task, **fixed}) for along, models, fixed in views for task in tasks
    ]
    wanted = [view for view in wanted if _planned(result, view)]
    columns = min(2, len(tasks))
    drawn, panels = new_figure(columns, -(-len(wanted) // columns), width=5.0, height=3.6)
    for axes, view in zip(panels, wanted, strict=False):
        _draw_lines(axes, result, view)
    for axes in panels[len(wanted) :]:
        axes.axis("off")
    return drawn


def _planned(result: Result, view: View) -> list[Variant]:
    _, models, fixed = view
    return [
        v
        for v in result.variants
        if v.facets["model"] in models and fixed.items() <= v.facets.items()
    ]


def _draw_lines(axes: Axes, result: Result, view: View) -> None:
    along, models, fixed = view
    planned = _planned(result, view)
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
    task = planned[0].task
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
