"""The views of a design, each drawn on an axis that the caller gives.

The numbers come from ``coefdyn.analysis`` or from the dynamics; nothing is computed while drawing
beyond picking one head.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import torch

from coefdyn.analysis import NearZeroSet, ScoreVariance, Spectrum
from coefdyn.analysis.spectra import EDGES
from coefdyn.plots.style import COEFFICIENT_CMAP, INGREDIENT_COLORS, centered_norm

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes
    from matplotlib.image import AxesImage

    from coefdyn.dynamics.coefficients import CoefficientDynamics

__all__ = [
    "plot_coefficients",
    "plot_eigenvalues",
    "plot_impulse_response",
    "plot_moduli",
    "plot_readout",
    "plot_state_path",
    "plot_variance",
]


def _one_head(values: torch.Tensor, axes: int) -> torch.Tensor:
    """The first entry of every leading axis."""
    while values.ndim > axes:
        values = values[0]
    return values.detach()


def plot_coefficients(
    axis: Axes, alpha: torch.Tensor, title: str = "", largest: float | None = None
) -> AxesImage:
    """The L x L matrix: row i reads, column j was written; white is zero.

    Args:
        axis: where to draw.
        alpha: ``(..., L, L)``; the first of every leading axis is shown.
        title: above the axis.
        largest: magnitude at the ends of the colour scale; that of the matrix by default.
    """
    matrix = _one_head(alpha, 2)
    biggest = matrix.abs().max().item() or 1.0
    masked = torch.where(torch.ones_like(matrix).tril() > 0, matrix, torch.nan)
    image = axis.imshow(
        masked.numpy(),
        cmap=COEFFICIENT_CMAP,
        norm=centered_norm(largest or biggest),
        interpolation="nearest",
    )
    axis.set(xlabel="written at j", ylabel="read at i", title=title)
    axis.grid(visible=False)
    return image


def plot_impulse_response(axis: Axes, dynamics: CoefficientDynamics, j: int) -> None:
    """alpha_{i,j} for i >= j: what is left of token j as time goes on."""
    column = _one_head(dynamics.coefficients(), 2)[j:, j]
    steps = torch.arange(j, dynamics.length)
    axis.axhline(0.0, color="0.6", linewidth=0.8)
    axis.plot(steps, column, marker="o", color=INGREDIENT_COLORS["evolution"])
    axis.set(xlabel="read at i", ylabel=r"$\alpha_{i,j}$", title=f"impulse response of token {j}")


def plot_state_path(axis: Axes, dynamics: CoefficientDynamics, j: int) -> None:
    """h_{i,j} in the plane of its first two coordinates, from the writing (large dot) onwards."""
    path = _one_head(dynamics.states(j), 2)[:, :2]
    axis.axhline(0.0, color="0.8", linewidth=0.8)
    axis.axvline(0.0, color="0.8", linewidth=0.8)
    axis.plot(path[:, 0], path[:, 1], marker="o", color=INGREDIENT_COLORS["evolution"])
    axis.plot(path[0, 0], path[0, 1], marker="o", markersize=9, color=INGREDIENT_COLORS["scaling"])
    axis.set(xlabel="coordinate 1", ylabel="coordinate 2", title=f"path of $h_{{i,{j}}}$")
    axis.set_aspect("equal", adjustable="datalim")


def plot_readout(axis: Axes, found: NearZeroSet, name: str) -> None:
    """phi with its near-zero set shaded."""
    for start, end in found.intervals:
        axis.axvspan(start, end, color=INGREDIENT_COLORS["readout"], alpha=0.15, linewidth=0)
    axis.plot(found.scores, found.values, color=INGREDIENT_COLORS["readout"])
    axis.set(
        xlabel="score $q_i^T h_{i,j}$",
        ylabel=r"$\phi$",
        title=f"{name}: near-zero set of length {found.measure:.3g}",
    )


def plot_eigenvalues(axis: Axes, found: Spectrum, transition: bool = False) -> None:
    """Eigenvalues of every A_t (or Lambda_t) in the complex plane with the unit circle."""
    values = _one_head(found.transition if transition else found.eigenvalues, 2)[1:].flatten()
    angle = torch.linspace(0, 2 * torch.pi, 200)
    axis.plot(angle.cos(), angle.sin(), color="0.5", linewidth=0.8)
    axis.scatter(values.real, values.imag, color=INGREDIENT_COLORS["evolution"], alpha=0.6, s=18)
    axis.set(xlabel="real part", ylabel="imaginary part")
    axis.set_aspect("equal", adjustable="datalim")


def plot_moduli(
    axis: Axes,
    share: Sequence[float],
    deviation: Sequence[float] | None = None,
    *,
    color: str,
    below: bool = False,
    filled: bool = False,
) -> None:
    """A histogram of abs(eigenvalue) over the bins of ``EDGES``; all beyond 2 in the last one.

    Args:
        axis: where to draw.
        share: per bin, of ``modulus_histogram`` or a record.
        deviation: over the sequences, drawn as vertical bars; None for none.
        color: of the line or the area.
        below: hangs from the axis, to set two histograms against each other.
        filled: a pale area instead of a line.
    """
    edges = [*EDGES[:-1], 2 * EDGES[-2] - EDGES[-3]]
    sign = -1.0 if below else 1.0
    heights = [sign * value for value in share]
    if filled:
        axis.stairs(heights, edges, fill=True, color=color, alpha=0.35, linewidth=0)
    else:
        axis.stairs(heights, edges, color=color, linewidth=1.3)
    if deviation is not None:
        middles = [(a + b) / 2 for a, b in pairwise(edges)]
        axis.errorbar(middles, heights, deviation, fmt="none", ecolor=color, elinewidth=0.7)
    axis.axhline(0.0, color="0.6", linewidth=0.6)
    axis.axvline(1.0, color="0.6", linewidth=0.6, linestyle=":")
    axis.set_xticks([0, 0.5, 1, 1.5, 2], ["0", "", "1", "", "2+"])
    axis.set_xlim(0, edges[-1])


def plot_variance(axis: Axes, found: ScoreVariance, label: str) -> None:
    """Variance of the scores against n on two logarithmic axes."""
    axis.loglog(
        found.key_dims, found.variances, marker="o", label=f"{label} (slope {found.slope:.2f})"
    )
    axis.set(xlabel="key dimension $n$", ylabel=r"variance of $q_i^T h_{i,j}$")
