"""Heads of other libraries' models: attention targets and what remains in memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch

from coefdyn.plots.style import (
    COEFFICIENT_CMAP,
    DATA_COLORS,
    INGREDIENT_COLORS,
    centered_norm,
)
from coefdyn.plots.views import plot_coefficients

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.image import AxesImage

    from coefdyn.lens.read.reading import HeadReading
    from coefdyn.lens.read.survival import Survival

__all__ = [
    "plot_effects",
    "plot_head_maps",
    "plot_head_table",
    "plot_plans",
    "plot_profile",
    "plot_scores",
    "plot_survival",
]


def plot_profile(axis: Axes, found: HeadReading, title: str = "") -> None:
    """Share of |alpha| against the distance i - j, one line per head, mean over the batch."""
    profile = found.profile.flatten(0, -3).mean(0) if found.profile.ndim > 2 else found.profile
    for head, line in enumerate(profile):
        axis.plot(line, linewidth=1.0, label=f"head {head}")
    axis.set(xlabel="distance $i - j$ (tokens)", ylabel="share of $|\\alpha|$", title=title)


def plot_scores(axis: Axes, found: HeadReading, title: str = "") -> None:
    """First-token, previous-token and own share of every head, as bars that stand side by side."""
    named = {"first": found.first, "previous": found.previous, "own": found.own}
    colors = ("evolution", "scaling", "readout")
    for place, ((name, values), color) in enumerate(zip(named.items(), colors, strict=True)):
        heights = values.reshape(-1, values.shape[-1]).mean(0)
        where = torch.arange(len(heights)) + 0.27 * (place - 1)
        axis.bar(where, heights, width=0.25, color=INGREDIENT_COLORS[color], label=name)
    axis.set(xlabel="head", ylabel="share of $|\\alpha|$", ylim=(0, 1), title=title)
    axis.set_xticks(range(found.first.shape[-1]))
    axis.legend()


def plot_survival(
    axis: Axes,
    found: Survival,
    index: tuple[int, ...],
    j: int,
    words: Sequence[str] | None = None,
) -> None:
    """Plot the share of token j left in one head, with erasure and by the gates alone.

    Args:
        axis: where to draw.
        found: of a layer.
        index: of the head, one number per leading axis.
        j: the token, from 0.
        words: the tokens as text, shown along the axis.
    """
    size, gates = found.size[index][j:, j], found.gates_only[index][j:, j]
    steps = torch.arange(j, j + len(size))
    axis.plot(steps, gates, color="0.6", linestyle="--", label="by the gates alone")
    axis.plot(
        steps, size, color=INGREDIENT_COLORS["evolution"], marker="o", markersize=3, label="exact"
    )
    eraser = int(found.eraser[index][j])
    if eraser >= 0:
        axis.axvline(eraser, color=INGREDIENT_COLORS["readout"], linewidth=0.8)
    if words is not None:
        axis.set_xticks(steps, [words[step] for step in steps.tolist()], rotation=90, fontsize=6)
    axis.set(ylabel="left of what was written", ylim=(-0.02, None))
    axis.legend()


def plot_head_table(
    axis: Axes, scores: torch.Tensor, title: str = "", largest: float | None = None
) -> AxesImage:
    """One score of every head of a model: a row per layer, a column per head, white is zero.

    Args:
        axis: where to draw.
        scores: ``(layers, heads)``, such as ``head_scores(seen)[..., 0]``.
        title: above the axis.
        largest: score at the dark end of the scale; the largest there is by default.
    """
    top = largest or scores.abs().max().item() or 1.0
    image = axis.imshow(
        scores.numpy(),
        cmap=COEFFICIENT_CMAP,
        norm=centered_norm(top),
        interpolation="nearest",
        aspect="auto",
    )
    axis.set(xlabel="head", ylabel="layer", title=title)
    axis.grid(visible=False)
    return image


def plot_effects(
    axis: Axes, rows: Sequence[Mapping[str, Any]], what: str = "loss_change", title: str = ""
) -> AxesImage:
    """Plot the effect of each head: a row per layer, a column per head, teal for an increase.

    Args:
        axis: where to draw.
        rows: of ``coefdyn.lens.effects``, one per layer and head.
        what: the column to show.
        title: above the axis.

    Raises:
        ValueError: for rows without heads or without that column.
    """
    missing = [key for key in ("layer", "head", what) if any(key not in row for row in rows)]
    if missing or not rows:
        raise ValueError(
            f"plot_effects needs rows with a layer, a head and {what!r}, got "
            f"{'none' if not rows else 'rows without ' + ', '.join(map(repr, missing))}; "
            "pass what effects(model, ids) returns, one change for each head."
        )
    layers = list(dict.fromkeys(row["layer"] for row in rows))
    table = torch.full((len(layers), 1 + max(row["head"] for row in rows)), torch.nan)
    for row in rows:
        table[layers.index(row["layer"]), row["head"]] = float(row[what])
    image = plot_head_table(axis, table, title, table.nan_to_num().abs().max().item() or 1.0)
    axis.set_yticks(range(len(layers)), layers)
    axis.set_ylabel("")
    return image


def plot_plans(axis: Axes, rows: Sequence[Mapping[str, Any]]) -> None:
    """Rise of the loss for a smaller cache, a line per order in which heads are cut.

    Args:
        axis: where to draw.
        rows: with ``order``, ``share`` of the heads that are cut, ``rise`` of the loss in nats per
            token, and its interval ``low`` to ``high``, as ``python -m coefdyn.lab lens-plan``
            writes them. A row with a share of 1 belongs to every order.

    Raises:
        ValueError: for no rows, or rows without one of these.
    """
    needed = ("order", "share", "rise", "low", "high")
    missing = [key for key in needed if any(key not in row for row in rows)]
    if missing or not rows:
        raise ValueError(
            f"plot_plans needs rows with {', '.join(needed)}, got "
            f"{'none' if not rows else 'rows without ' + ', '.join(missing)}; pass the 'rows' of "
            "the file that python -m coefdyn.lab lens-plan writes."
        )
    orders = list(dict.fromkeys(row["order"] for row in rows))
    for place, order in enumerate(orders):
        mine = sorted(
            (row for row in rows if row["order"] == order or row["share"] == 1.0),
            key=lambda row: float(row["share"]),
        )
        share = [100 * row["share"] for row in mine]
        rise = [row["rise"] for row in mine]
        below = [row["rise"] - row["low"] for row in mine]
        above = [row["high"] - row["rise"] for row in mine]
        color = DATA_COLORS[place % len(DATA_COLORS)]
        style = "-" if place < len(DATA_COLORS) else "--"
        axis.errorbar(
            share, rise, [below, above], color=color, linestyle=style, marker="o", markersize=3,
            linewidth=1.2, elinewidth=0.8, capsize=2, label=order,
        )  # fmt: skip
    axis.set(xlabel="key-value heads cut (%)", ylabel="rise of the loss (nats per token)")
    axis.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=3)


def plot_head_maps(axes: Sequence[Axes], maps: torch.Tensor, titles: Sequence[str]) -> None:
    """One coefficient matrix per axis, all on one colour scale.

    Args:
        axes: as many as matrices.
        maps: ``(heads, L, L)``, such as ``dynamics.coefficients(normalized=True)[0]``.
        titles: one per matrix.
    """
    largest = maps.abs().max().item() or 1.0
    for axis, matrix, title in zip(axes, maps, titles, strict=True):
        plot_coefficients(axis, matrix, title, largest)
        axis.set(xticks=[], yticks=[], xlabel="", ylabel="")
