"""The explorer's views as a still picture: for print, for PDF, and where no script runs.

    explorer_still(Explorer("mamba2", decay=0.9))

draws the coefficient matrix, the impulse response of token j, the moving state and the readout at
the very settings of the explorer. Book: "How to read and run".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import matplotlib.pyplot as plt
import torch

from coefdyn import CoefficientDynamics
from coefdyn.analysis.classes import combination_class
from coefdyn.analysis.selectivity import selectivity
from coefdyn.dynamics.readout import FeatureMap
from coefdyn.plots.style import COEFFICIENT_CMAP, INGREDIENT_COLORS, centered_norm
from coefdyn.shapes import Float, Tensor

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["Still", "explorer_still", "take_still"]

_SCORES = (-8.0, 4.0)


@runtime_checkable
class _Explorer(Protocol):
    settings: Mapping[str, Any]

    def dynamics(self) -> CoefficientDynamics: ...


@dataclass(frozen=True, kw_only=True, eq=False)
class Still:
    """What a still shows; positions count from 0.

    Attributes:
        coefficients: alpha, or alpha / eta, ``(L, L)``.
        states: h_{i,j} of the chosen token for i >= j, ``(L - j, n)``.
        query: q_i of the chosen output, ``(n,)``.
        curve_scores, curve: the readout (one coordinate of psi for a feature map) on a grid.
        row, column: i and j.
        epsilon: threshold of the near-zero set.
        normalized: whether ``coefficients`` are divided by eta.
        summary: the numbers in one line.
    """

    coefficients: Float[Tensor, "L L"]
    states: Float[Tensor, "m n"]
    query: Float[Tensor, " n"]
    curve_scores: Float[Tensor, " p"]
    curve: Float[Tensor, " p"]
    is_feature_map: bool
    row: int
    column: int
    epsilon: float
    normalized: bool
    summary: str


def take_still(dynamics: CoefficientDynamics, settings: Mapping[str, Any]) -> Still:
    """Everything the picture needs.

    Args:
        dynamics: one head, shapes ``(L, n)``.
        settings: an explorer's: ``row``, ``column`` (from 1), ``view`` and ``epsilon`` are read.

    Raises:
        ValueError: for dynamics with leading axes.
    """
    if dynamics.batch_shape:
        raise ValueError(
            f"a still shows one head, got leading axes {dynamics.batch_shape}; pick one with "
            "Explorer.from_dynamics(dynamics, index)."
        )
    normalized = settings["view"] == "normalized"
    row, column = settings["row"] - 1, settings["column"] - 1
    scores = torch.linspace(*_SCORES, 241, dtype=torch.float64)
    phi = dynamics.readout
    is_feature_map = isinstance(phi, FeatureMap)
    curve = phi.fn(scores[:, None]).squeeze(-1)
    alpha = dynamics.coefficients()
    found = selectivity(dynamics, settings["epsilon"], normalized=normalized)
    summary = (
        f"near zero {found.near_zero_fraction:.1%}    row sum of output {row + 1}: "
        f"{alpha[row].sum().item():.3g}    {combination_class(dynamics).value} combinations"
    )
    return Still(
        coefficients=dynamics.coefficients(normalized=True) if normalized else alpha,
        states=dynamics.states(column),
        query=dynamics.q[row],
        curve_scores=scores,
        curve=curve,
        is_feature_map=is_feature_map,
        row=row,
        column=column,
        epsilon=settings["epsilon"],
        normalized=normalized,
        summary=summary,
    )


def explorer_still(explorer: _Explorer) -> Figure:
    """The explorer as it stands now, 7.6 inches wide."""
    still = take_still(explorer.dynamics(), explorer.settings)
    figure, axes = plt.subplot_mosaic(
        [["matrix", "impulse", "impulse"], ["matrix", "plane", "readout"]],
        figsize=(7.6, 4.0),
        width_ratios=[2.3, 1, 1],
        layout="constrained",
    )
    draw_matrix(axes["matrix"], still)
    draw_impulse(axes["impulse"], still)
    draw_plane(axes["plane"], still)
    draw_readout(axes["readout"], still)
    for axis in axes.values():
        axis.title.set_fontsize(9)
    figure.supxlabel(still.summary, fontsize=8)
    return figure


def draw_matrix(axis: Axes, still: Still) -> None:
    """Coefficients, with row i and column j marked."""
    length = still.coefficients.shape[-1]
    hidden = torch.ones(length, length).triu(1).bool()
    shown = still.coefficients.masked_fill(hidden, torch.nan)
    top = float(shown[~hidden & shown.isfinite()].abs().max())
    image = axis.imshow(shown.numpy(), cmap=COEFFICIENT_CMAP, norm=centered_norm(top or 1.0))
    scale = axis.inset_axes((0.56, 0.86, 0.4, 0.035))
    axis.figure.colorbar(image, cax=scale, orientation="horizontal")
    scale.tick_params(labelsize=7)
    row, column = still.row, still.column
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
    axis.set_title(r"$\alpha_{ij}/\eta_i$" if still.normalized else r"$\alpha_{ij}$")
    axis.spines[:].set_visible(False)
    axis.grid(False)


def draw_impulse(axis: Axes, still: Still) -> None:
    """Coefficients of token j over i, and the length of its state."""
    length = still.coefficients.shape[-1]
    positions = range(still.column + 1, length + 1)
    column = still.coefficients[still.column :, still.column]
    axis.bar(positions, column.tolist(), width=0.7, color="#0B4A86")
    axis.set_xlim(0.3, length + 0.7)
    axis.set_title(f"impulse response of token {still.column + 1}")
    axis.set_xlabel("output i")
    lengths = axis.twinx()
    lengths.plot(
        positions, still.states.norm(dim=-1).tolist(), color=INGREDIENT_COLORS["evolution"]
    )
    lengths.set_ylim(bottom=0)
    lengths.set_ylabel("|h|", color=INGREDIENT_COLORS["evolution"])
    lengths.grid(False)


def draw_plane(axis: Axes, still: Still) -> None:
    """The path of h in its first two axes, and the direction of the query."""
    path = still.states[:, :2]
    if path.shape[-1] < 2:
        path = torch.nn.functional.pad(path, (0, 1))
    color = INGREDIENT_COLORS["evolution"]
    reach = path[: max(still.row - still.column, 0) + 1].norm(dim=-1).max().clamp(min=1e-12).item()
    circle = plt.Circle((0, 0), path[0].norm().item(), fill=False, ec="#9aa5b1", lw=0.8)
    axis.add_patch(circle)
    axis.plot(*path.T.tolist(), "-o", color=color, markersize=2, lw=0.8)
    axis.plot(*path[:1].T.tolist(), "o", mfc="white", mec=color, markersize=5)
    query = torch.nn.functional.pad(still.query[:2], (0, max(0, 2 - len(still.query))))
    unit = query / query.norm().clamp(min=1e-300) * reach
    arrow = {"arrowstyle": "-|>", "color": INGREDIENT_COLORS["normalizer"]}
    axis.annotate("", unit.tolist(), (0, 0), arrowprops=arrow)
    axis.set(xlim=(-1.2 * reach, 1.2 * reach), ylim=(-1.2 * reach, 1.2 * reach), aspect="equal")
    axis.set_title("moving state h")
    axis.set_xticks([0], [""])
    axis.set_yticks([0], [""])


def draw_readout(axis: Axes, still: Still) -> None:
    """phi with its near-zero set shaded."""
    color = INGREDIENT_COLORS["readout"]
    axis.plot(still.curve_scores.tolist(), still.curve.tolist(), color=color)
    inside = (still.curve.abs() <= still.epsilon).tolist()
    if not still.is_feature_map:
        axis.fill_between(
            still.curve_scores.tolist(), 0, 1, where=inside, transform=axis.get_xaxis_transform(),
            color=color, alpha=0.15, lw=0,
        )  # fmt: skip
    axis.set(xlim=_SCORES, ylim=(-1.6, 4))
    axis.set_title(r"readout $\psi$, one axis" if still.is_feature_map else r"readout $\phi$")
    axis.set_xlabel("x" if still.is_feature_map else "score s")
