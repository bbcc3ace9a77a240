"""The explorer's views as a still picture: for print, for PDF, and where no script runs.

    explorer_still(Explorer("mamba2", decay=0.9))

draws the coefficient matrix, the impulse response of token j, the moving state and the readout at
the very settings of the explorer, between two designs too. The pages carry one for each explorer
(``book/tools/stills.py``). Book: "How to read and run".
"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import matplotlib.pyplot as plt
import numpy as np
import torch
from matplotlib.colors import FuncNorm

from coefdyn.plots.style import COEFFICIENT_CMAP, INGREDIENT_COLORS
from coefdyn.shapes import Tensor

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["VIEWS", "explorer_still"]

VIEWS: tuple[str, ...] = ("matrix", "impulse", "plane", "readout")
"""Parts of an explorer that a still can show."""

TEXT = "#3A4554"
"""Colour of words along the axes, as in the style file."""

_WIDTH = 7.6


@runtime_checkable
class _Shown(Protocol):
    settings: Any
    query: Tensor
    row: int
    column: int
    matrix: Tensor
    path: Tensor
    normalized: bool
    is_feature_map: bool
    readout_range: tuple[float, float, float, float]

    def curve(self, scores: Tensor) -> Tensor: ...

    @property
    def labels(self) -> Sequence[str]: ...

    def words(self) -> str: ...


@runtime_checkable
class _Explorer(Protocol):
    parts: Sequence[str]

    def shown(self) -> Any: ...


def explorer_still(explorer: _Explorer, *, with_words: bool = True) -> Figure:
    """Draw the explorer in its present state, 7.6 inches wide, with the parts that are views.

    One that shows numbers or controls only gets all four views.

    Args:
        explorer: such as ``coefdyn.widgets.Explorer("gla")``.
        with_words: whether design, settings and numbers are written below.
    """
    shown = explorer.shown()
    views = [view for view in VIEWS if view in explorer.parts] or list(VIEWS)
    figure, axes = plt.subplot_mosaic(**_layout(views))
    draw = (draw_matrix, draw_impulse, draw_plane, draw_readout)
    for view, function in zip(VIEWS, draw, strict=True):
        if view in views:
            function(axes[view], shown)
            axes[view].title.set_fontsize(9)
    if with_words:
        lines = "\n".join(textwrap.wrap(shown.words(), 118))
        figure.supxlabel(lines, fontsize=7.5, x=0.02, ha="left")
    return figure


def _layout(views: Sequence[str]) -> dict[str, Any]:
    """The matrix beside the rest in at most two rows; else everything in one row."""
    others = [view for view in views if view != "matrix"]
    common: dict[str, Any] = {"layout": "constrained"}
    if "matrix" not in views:
        height = 2.9 if len(views) > 1 else 3.2
        return {**common, "mosaic": [others], "figsize": (_WIDTH, height)}
    if len(others) <= 1:
        return {**common, "mosaic": [["matrix", *others]], "figsize": (_WIDTH, 4.4)}
    lower = others[-2:]
    upper = [others[0]] * 2 if len(others) == 3 else [others[0]]
    rows = [upper, lower] if len(others) == 3 else [upper, [others[1]]]
    mosaic = [["matrix", *row] for row in rows]
    ratios = [2.3, 1, 1] if len(others) == 3 else [2.3, 2]
    return {**common, "mosaic": mosaic, "figsize": (_WIDTH, 4.3), "width_ratios": ratios}


def root_norm(top: float) -> FuncNorm:
    """Colours proportional to the root of a coefficient's size, as the live matrix has them."""

    def root(x: np.ndarray) -> np.ndarray:
        return np.sign(x) * np.sqrt(np.abs(x))

    def square(x: np.ndarray) -> np.ndarray:
        return np.sign(x) * np.square(x)

    return FuncNorm((root, square), vmin=-top, vmax=top)


def draw_matrix(axis: Axes, shown: _Shown) -> None:
    """Coefficients, with row i and column j marked."""
    length = shown.matrix.shape[-1]
    hidden = torch.ones(length, length).triu(1).bool()
    visible = shown.matrix.masked_fill(hidden, torch.nan)
    finite = visible[~hidden & visible.isfinite()].abs()
    top = float(finite.max()) if finite.numel() else 1.0
    image = axis.imshow(visible.numpy(), cmap=COEFFICIENT_CMAP, norm=root_norm(top or 1.0))
    scale = axis.inset_axes((0.56, 0.86, 0.4, 0.035))
    axis.figure.colorbar(image, cax=scale, orientation="horizontal")
    scale.tick_params(labelsize=7)
    row, column = shown.row, shown.column
    boxes = (
        (column, column, 1, length - column, "evolution"),
        (0, row, row + 1, 1, "normalizer"),
    )
    for x, y, width, height, ingredient in boxes:
        corner = (x - 0.5, y - 0.5)
        color = INGREDIENT_COLORS[ingredient]
        axis.add_patch(plt.Rectangle(corner, width, height, fill=False, ec=color, lw=1.2))
    axis.set_xticks([column], [f"j = {column + 1}"], color=INGREDIENT_COLORS["evolution"])
    axis.set_yticks([row], [f"i = {row + 1}"], color=INGREDIENT_COLORS["normalizer"])
    if shown.settings["tokens"] == "facts":
        places = range(len(shown.labels))
        axis.set_xticks(places, shown.labels, rotation=90, fontsize=7, color=TEXT)
        axis.set_yticks(places, shown.labels, fontsize=7, color=TEXT)
        axis.get_xticklabels()[column].set(color=INGREDIENT_COLORS["evolution"], weight="bold")
        axis.get_yticklabels()[row].set(color=INGREDIENT_COLORS["normalizer"], weight="bold")
    axis.set_title(r"$\alpha_{ij}/\eta_i$" if shown.normalized else r"$\alpha_{ij}$")
    axis.spines[:].set_visible(False)
    axis.grid(False)


def draw_impulse(axis: Axes, shown: _Shown) -> None:
    """Coefficients of token j over i, and the length of its state."""
    length = shown.matrix.shape[-1]
    positions = range(shown.column + 1, length + 1)
    column = shown.matrix[shown.column :, shown.column]
    colors = ["#5B2A8C" if value < 0 else "#0A4F59" for value in column.tolist()]
    axis.bar(positions, column.tolist(), width=0.7, color=colors)
    axis.set_xlim(0.3, length + 0.7)
    axis.set_title(f"impulse response of token {shown.column + 1}")
    axis.set_xlabel("output i")
    lengths = axis.twinx()
    lengths.plot(positions, shown.path.norm(dim=-1).tolist(), color=INGREDIENT_COLORS["evolution"])
    lengths.set_ylim(bottom=0)
    lengths.set_ylabel("|h|", color=INGREDIENT_COLORS["evolution"])
    lengths.grid(False)


def draw_plane(axis: Axes, shown: _Shown) -> None:
    """The path of h in its first two axes, and the direction of the query."""
    path = shown.path[:, :2]
    if path.shape[-1] < 2:
        path = torch.nn.functional.pad(path, (0, 1))
    color = INGREDIENT_COLORS["evolution"]
    reach = path[: max(shown.row - shown.column, 0) + 1].norm(dim=-1).max().clamp(min=1e-12).item()
    circle = plt.Circle((0, 0), path[0].norm().item(), fill=False, ec="#9aa5b1", lw=0.8)
    axis.add_patch(circle)
    axis.plot(*path.T.tolist(), "-o", color=color, markersize=2, lw=0.8)
    axis.plot(*path[:1].T.tolist(), "o", mfc="white", mec=color, markersize=5)
    query = torch.nn.functional.pad(shown.query[:2], (0, max(0, 2 - len(shown.query))))
    unit = query / query.norm().clamp(min=1e-300) * reach
    arrow = {"arrowstyle": "-|>", "color": INGREDIENT_COLORS["normalizer"]}
    axis.annotate("", unit.tolist(), (0, 0), arrowprops=arrow)
    axis.set(xlim=(-1.2 * reach, 1.2 * reach), ylim=(-1.2 * reach, 1.2 * reach), aspect="equal")
    axis.set_title("moving state h")
    axis.set_xticks([0], [""])
    axis.set_yticks([0], [""])


def draw_readout(axis: Axes, shown: _Shown) -> None:
    """phi with its near-zero set shaded."""
    color = INGREDIENT_COLORS["readout"]
    first, last, *limits = shown.readout_range
    scores = torch.linspace(first, last, 241, dtype=torch.float64)
    curve = shown.curve(scores)
    axis.plot(scores.tolist(), curve.tolist(), color=color)
    inside = (curve.abs() <= shown.settings["epsilon"]).tolist()
    if not shown.is_feature_map:
        axis.fill_between(
            scores.tolist(), 0, 1, where=inside, transform=axis.get_xaxis_transform(),
            color=color, alpha=0.15, lw=0,
        )  # fmt: skip
    axis.set(xlim=(first, last), ylim=limits)
    axis.set_title(r"readout $\psi$, one axis" if shown.is_feature_map else r"readout $\phi$")
    axis.set_xlabel("x" if shown.is_feature_map else "score s")
