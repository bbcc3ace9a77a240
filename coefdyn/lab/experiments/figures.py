"""Drawing shared by the experiments: bars of accuracy with one point per seed, and spreads."""

from __future__ import annotations

import functools
import io
from collections.abc import Sequence
from typing import TYPE_CHECKING

from coefdyn.lab.experiments.result import Outcome

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = [
    "PALETTE",
    "draw_plateau",
    "empty_figure",
    "grouped_points",
    "new_figure",
    "scatter_outcome",
]

#: The data colours of `coefdyn.plots`, which no ingredient has, and two lighter ones. Each series
#: has a marker of its own besides.
PALETTE = ("#2B3340", "#7C4DCC", "#0E96A8", "#C2562F", "#A3B545", "#8B95A3", "#B9A3E3", "#7CC3CC")
MARKERS = "osD^vP*X"


@functools.cache
def _figure_type() -> type[Figure]:
    """A figure that a notebook shows as a cell's value, with or without pyplot."""
    from matplotlib.figure import Figure as PlainFigure

    class DrawnFigure(PlainFigure):
        def _repr_png_(self) -> bytes:
            buffer = io.BytesIO()
            self.savefig(buffer, format="png")
            return buffer.getvalue()

    return DrawnFigure


def new_figure(
    columns: int = 1, rows: int = 1, *, width: float = 4.2, height: float = 3.2
) -> tuple[Figure, list]:
    """A figure and its panels, row by row; sizes in inches per panel."""
    figure = _figure_type()(figsize=(width * columns, height * rows), layout="constrained")
    count = rows * columns
    return figure, [figure.add_subplot(rows, columns, place + 1) for place in range(count)]


def empty_figure(note: str) -> Figure:
    """A figure that says only why it is empty."""
    figure, (axes,) = new_figure()
    axes.axis("off")
    axes.text(0.5, 0.5, note, ha="center", va="center", transform=axes.transAxes)
    return figure


def draw_plateau(axes: Axes, accuracy: float, words: str) -> None:
    """A dotted line at what one gets without solving the task; call before ``grouped_points``."""
    axes.axhline(accuracy, color="#4A4A4A", linestyle=":", linewidth=1.2, label=words, zorder=3)


def grouped_points(
    axes: Axes,
    groups: Sequence[str],
    series: dict[str, Sequence[Outcome | None]],
    *,
    metric: str = "accuracy",
) -> None:
    """One group per label on the x axis, one colour per series: mean as a bar, seeds as points.

    A variant with a diverged seed carries the word "NaN". The bars of a group stand side by side
    above its label; a variant that is not there (None) takes no place.
    """
    width = 0.8 / max(1, len(series))
    colors = {name: PALETTE[place % len(PALETTE)] for place, name in enumerate(series)}
    for name, color in colors.items():
        axes.bar(0, 0, color=color, alpha=0.75, label=name)
    for group in range(len(groups)):
        found = [(name, outcomes[group]) for name, outcomes in series.items()]
        there = [(name, outcome) for name, outcome in found if outcome is not None]
        for place, (name, outcome) in enumerate(there):
            x = group + (place + 0.5 - len(there) / 2) * width
            _bar_with_points(axes, x, outcome, width, colors[name], metric)
    axes.set_xlim(-0.6, len(groups) - 0.4)
    axes.set_xticks(range(len(groups)), groups)
    axes.set_ylim(0, 1.08)
    axes.set_ylabel(f"test {metric}")
    axes.legend(fontsize="small", loc="upper center", bbox_to_anchor=(0.5, -0.12), ncols=2)


def _bar_with_points(
    axes: Axes, x: float, outcome: Outcome, width: float, color: str, metric: str
) -> None:
    values = outcome.values(metric)
    mean = sum(values) / len(values)
    axes.bar(x, mean, width * 0.92, color=color, alpha=0.75)
    axes.plot([x] * len(values), values, "o", color="black", markersize=3)
    if outcome.diverged:
        axes.text(x, max(mean, 0) + 0.02, "NaN", ha="center", fontsize="x-small", rotation=90)


def scatter_outcome(
    axes: Axes, place: int, xs: Sequence[float], outcome: Outcome, label: str
) -> None:
    """Accuracy against another quantity: one point per seed, joined to their mean."""
    color, marker = PALETTE[place % len(PALETTE)], MARKERS[place % len(MARKERS)]
    ys = outcome.values()
    pairs = [(x, y) for x, y in zip(xs, ys, strict=True) if x is not None]
    if not pairs:
        return
    x0 = sum(x for x, _ in pairs) / len(pairs)
    y0 = sum(y for _, y in pairs) / len(pairs)
    for x, y in pairs:
        axes.plot([x0, x], [y0, y], "-", color=color, linewidth=0.8, alpha=0.6)
        axes.plot([x], [y], marker, color=color, markersize=4, alpha=0.7)
    axes.plot([x0], [y0], marker, color=color, markersize=8, label=label)
