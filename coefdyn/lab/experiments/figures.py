"""Drawing shared by the experiments: means, one point per seed, and the interval that judges."""

from __future__ import annotations

import functools
import io
import math
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from coefdyn.lab.experiments import intervals, rule
from coefdyn.lab.experiments.result import Outcome, Result

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = [
    "CONTROL",
    "INK",
    "INTERVAL",
    "PALETTE",
    "SHARE",
    "bars",
    "draw_band",
    "draw_bar",
    "draw_curve",
    "draw_interval",
    "draw_plateau",
    "empty_figure",
    "grouped_points",
    "leaks",
    "legend_below",
    "legend_entries",
    "new_figure",
    "scatter_outcome",
]

#: The data colours of `coefdyn.plots`, which no ingredient has, and two lighter ones. Each series
#: has a marker of its own besides.
PALETTE = ("#2B3340", "#7C4DCC", "#0E96A8", "#C2562F", "#A3B545", "#8B95A3", "#B9A3E3", "#7CC3CC")
MARKERS = "osD^vP*X"
#: what an error bar is, and what a hatched bar is; said once by a legend of a figure that has one
INTERVAL = f"{100 * intervals.CONFIDENCE:.0f} % interval of the mean over seeds"
CONTROL = "hatched: control"
#: least and largest value of an accuracy or a share
SHARE = (0.0, 1.0)
INK = "#1D2430"


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
    """A figure that contains only the reason why it is empty."""
    figure, (axes,) = new_figure()
    axes.axis("off")
    axes.text(0.5, 0.5, note, ha="center", va="center", transform=axes.transAxes)
    return figure


def draw_plateau(axes: Axes, accuracy: float, words: str) -> None:
    """Draw a dotted line at the score of a guess; call before ``grouped_points``."""
    axes.axhline(accuracy, color="#4A4A4A", linestyle=":", linewidth=1.2, label=words, zorder=3)


def draw_interval(
    axes: Axes,
    place: float,
    values: Sequence[float],
    *,
    bounds: tuple[float, float] = SHARE,
    color: str = INK,
    along: str = "y",
    inside: bool = False,
) -> bool:
    """The interval of a mean as an error bar: ``intervals.t_interval``, by which claims are judged.

    None is drawn for fewer seeds than decide anything (``rule.MIN_SEEDS``). What lies beyond the
    bounds of the quantity is left out, and that end has no cap.

    Args:
        axes: where to draw.
        place: where on the other axis.
        values: one per seed.
        bounds: least and largest value that the quantity can have.
        color: of the bar.
        along: the axis along which the interval lies, "y" or "x".
        inside: ``place`` is a share of the panel's width or height instead of a value.

    Returns:
        whether there is one.
    """
    from matplotlib.patheffects import Normal, Stroke

    if len(values) < rule.MIN_SEEDS or not all(map(math.isfinite, values)):
        return False
    found = intervals.t_interval(values)
    ends = (max(found.low, bounds[0]), min(found.high, bounds[1]))
    caps = [n for n, end in enumerate((found.low, found.high)) if end == ends[n]]
    xs, ys = ((place, place), ends) if along == "y" else (ends, (place, place))
    panel = axes.get_yaxis_transform() if along == "y" else axes.get_xaxis_transform()
    axes.plot(
        xs,
        ys,
        color=color,
        linewidth=1.5,
        marker="_" if along == "y" else "|",
        markersize=6,
        markeredgewidth=1.5,
        markevery=caps,
        path_effects=[Stroke(linewidth=3, foreground="white"), Normal()],
        transform=panel if inside else axes.transData,
        zorder=4,
        gid=INTERVAL,
    )
    return True


def draw_band(axes: Axes, xs: Sequence[float], rows: Sequence[Sequence[float]], color: str) -> None:
    """The interval of every point of a mean curve as a light band; none for too few seeds.

    Args:
        axes: where to draw.
        xs: places of the points.
        rows: one per seed, with an accuracy per point.
        color: of the curve.
    """
    if len(rows) < rule.MIN_SEEDS:
        return
    found = [intervals.t_interval(values) for values in zip(*rows, strict=True)]
    low, high = ([one.low for one in found], [one.high for one in found])
    low, high = ([min(max(end, SHARE[0]), SHARE[1]) for end in ends] for ends in (low, high))
    axes.fill_between(xs, low, high, color=color, alpha=0.15, linewidth=0, gid=INTERVAL)


def draw_curve(
    axes: Axes, xs: Sequence[float], rows: Sequence[Sequence[float]], color: str, name: str
) -> None:
    """The mean over the seeds of a curve, and its interval; see ``draw_band``.

    Designs that reflect (Householder-like ones) have a solid line, the others a dashed one.
    """
    mean = [sum(values) / len(values) for values in zip(*rows, strict=True)]
    line = "-" if "Householder" in name else "--"
    axes.plot(xs, mean, line, color=color, lw=1.4, label=name)
    draw_band(axes, xs, rows, color)


def draw_bar(
    axes: Axes,
    place: float,
    values: Sequence[float],
    *,
    width: float = 0.8,
    color: str = PALETTE[0],
    bounds: tuple[float, float] = SHARE,
    control: bool = False,
) -> None:
    """The mean as a bar, on its left a point per seed and on its right the interval.

    Args:
        axes: where to draw.
        place: middle of the bar on the x axis.
        values: one per seed.
        width: of the bar's place; a twelfth of it stays free.
        color: of the bar.
        bounds: see ``draw_interval``.
        control: hatch the bar.
    """
    mean = sum(values) / len(values)
    hatch = {"hatch": "////", "edgecolor": "white", "linewidth": 0} if control else {}
    axes.bar(place, mean, width * 0.92, color=color, alpha=0.75, gid=CONTROL * control, **hatch)
    aside = min(0.25 * width, 0.1)
    shift = aside if draw_interval(axes, place + aside, values, bounds=bounds) else 0.0
    axes.plot([place - shift] * len(values), values, "o", color="black", markersize=3)


def legend_entries(panels: Sequence[Axes], control: str = CONTROL) -> list[Artist]:
    """The handles of one legend for several panels: series by name, then what the marks mean.

    A mark that another panel's legend has explained is left out. ``control`` says what the hatched
    bars are.
    """
    from matplotlib.collections import PolyCollection
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    series: dict[str, Artist] = {}
    for axes in panels:
        handles, names = axes.get_legend_handles_labels()
        series = dict(zip(names, handles, strict=True)) | series
    artists = [one for axes in panels for one in axes.get_children()]
    marks = {one.get_gid(): one for one in artists if one.get_gid() in (INTERVAL, CONTROL)}
    found = list(series.values())
    others = [axes.get_legend() for axes in panels[0].get_figure().axes]
    for said in [text.get_text() for one in others if one for text in one.get_texts()]:
        marks.pop(said, None)
    if CONTROL in marks:
        found.append(Patch(facecolor="#8B95A3", edgecolor="white", hatch="////", label=control))
    if isinstance(marks.get(INTERVAL), PolyCollection):
        found.append(Patch(facecolor="#8B95A3", alpha=0.4, label=f"band: {INTERVAL}"))
    elif INTERVAL in marks:
        bar = {"marker": r"$\mathrm{I}$", "markersize": 10, "linestyle": "none", "color": INK}
        found.append(Line2D([], [], label=INTERVAL, **bar))
    return found


def legend_below(
    figure: Figure,
    panels: Sequence[Axes],
    ncols: int = 1,
    *,
    control: str = CONTROL,
    **changes: Any,
) -> None:
    """One legend for several panels below them, see ``legend_entries``; none without a handle.

    ``changes`` replace options of the legend.
    """
    handles = legend_entries(panels, control)
    if handles:
        options = {"loc": "outside lower center", "fontsize": "small", **changes}
        figure.legend(handles=handles, ncols=ncols, **options)


def bars(
    result: Result,
    groups: Mapping[str, Mapping[str, str]],
    series: Mapping[str, Mapping[str, str]],
    *,
    title: str = "",
    width: float = 6.4,
    height: float = 3.8,
    guess: tuple[float, str] | None = None,
    controls: Collection[tuple[str, str]] = (),
) -> Figure:
    """One panel of ``grouped_points``: names with the facets of a group, and of a series.

    A group or a series of which no variant is planned is left out.

    Args:
        result: whose accuracies.
        groups: word on the x axis -> its facets.
        series: word in the legend -> its facets.
        title: of the panel.
        width, height: in inches.
        guess: accuracy of a guess and its words, see ``draw_plateau``.
        controls: (group, series) whose bars are hatched.
    """
    drawn, (axes,) = new_figure(width=width, height=height)
    if guess is not None:
        draw_plateau(axes, *guess)
    planned = [one.facets.items() for one in result.variants]
    pairs = {
        (group, name)
        for group, mine in groups.items()
        for name, own in series.items()
        if any((mine.items() | own.items()) <= facets for facets in planned)
    }
    shown = [group for group in groups if any(group == one for one, _ in pairs)]
    found = {
        name: [result.one(**groups[group], **own) for group in shown]
        for name, own in series.items()
        if any(name == one for _, one in pairs)
    }
    grouped_points(axes, shown, found, controls=controls)
    axes.set_title(title, loc="left")
    return drawn


def grouped_points(
    axes: Axes,
    groups: Sequence[str],
    series: dict[str, Sequence[Outcome | None]],
    *,
    metric: str = "accuracy",
    controls: Collection[tuple[str, str]] = (),
    legend: bool = True,
) -> None:
    """One group per label on the x axis, one colour per series: mean, interval, a point per seed.

    A variant with a diverged seed carries the word "NaN". The bars of a group stand side by side
    above its label; a variant that is not there (None) takes no place. ``controls`` names the
    (group, series) whose bars are hatched.
    """
    width = 0.8 / max(1, len(series))
    bounds = SHARE if metric == "accuracy" else (0.0, math.inf)
    colors = {name: PALETTE[place % len(PALETTE)] for place, name in enumerate(series)}
    for name, color in colors.items():
        axes.bar(0, 0, color=color, alpha=0.75, label=name)
    for group, label in enumerate(groups):
        found = [(name, outcomes[group]) for name, outcomes in series.items()]
        there = [(name, outcome) for name, outcome in found if outcome is not None]
        for place, (name, outcome) in enumerate(there):
            x, values = group + (place + 0.5 - len(there) / 2) * width, outcome.values(metric)
            drawn = {"width": width, "color": colors[name], "bounds": bounds}
            draw_bar(axes, x, values, control=(label, name) in controls, **drawn)
            if outcome.diverged:
                height = max(outcome.accuracy if metric == "accuracy" else 0.0, 0.0) + 0.02
                axes.text(x, height, "NaN", ha="center", fontsize="x-small", rotation=90)
    axes.set_xlim(-0.6, len(groups) - 0.4)
    axes.set_xticks(range(len(groups)), groups)
    axes.set_ylim(0, 1.08)
    axes.set_ylabel(f"test {metric}")
    if legend:
        below = {"loc": "upper center", "bbox_to_anchor": (0.5, -0.12)}
        axes.legend(handles=legend_entries([axes]), fontsize="small", ncols=2, **below)


def scatter_outcome(
    axes: Axes,
    place: int,
    xs: Sequence[float],
    outcome: Outcome,
    label: str,
    *,
    bounds: tuple[float, float] = SHARE,
) -> None:
    """Accuracy against another quantity: one point per seed, their mean, and its two intervals.

    ``bounds`` are those of the other quantity.
    """
    color, marker = PALETTE[place % len(PALETTE)], MARKERS[place % len(MARKERS)]
    pairs = [(x, y) for x, y in zip(xs, outcome.values(), strict=True) if x is not None]
    if not pairs:
        return
    x0 = sum(x for x, _ in pairs) / len(pairs)
    y0 = sum(y for _, y in pairs) / len(pairs)
    draw_interval(axes, y0, [x for x, _ in pairs], bounds=bounds, color=color, along="x")
    draw_interval(axes, x0, [y for _, y in pairs], color=color)
    for x, y in pairs:
        axes.plot([x0, x], [y0, y], "-", color=color, linewidth=0.6, alpha=0.4)
        axes.plot([x], [y], marker, color=color, markersize=4, alpha=0.7, zorder=4.5)
    axes.plot([x0], [y0], marker, color=color, markersize=8, label=label, zorder=5)


def leaks(task: str, profile: str) -> bool:
    """Return whether runs of this task were made on the withdrawn text; no figure shows them.

    Args:
        task: facet of a variant.
        profile: of the runs; at the paper's size language is another text.
    """
    return task == "language" and profile != "paper"
