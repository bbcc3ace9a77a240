"""Combinations of the values that a design can output (paper, Appendix A).

Convex: coefficients >= 0 and rows sum to 1. Conical: >= 0. Affine: rows sum to 1. Linear: anything.
The class follows from phi's range and eta; it can also be checked on data.
"""

from __future__ import annotations

from enum import Enum

import torch

from coefdyn.analysis.common import check_not_empty, widened
from coefdyn.dynamics.coefficients import CoefficientDynamics
from coefdyn.dynamics.normalizer import Given, One, RowSum
from coefdyn.dynamics.readout import FeatureMap
from coefdyn.shapes import Float, Tensor

__all__ = ["CombinationClass", "combination_class", "is_nonnegative", "observed_class"]


class CombinationClass(Enum):
    """The set an output can lie in, from the tightest to the loosest."""

    CONVEX = "convex"
    CONICAL = "conical"
    AFFINE = "affine"
    LINEAR = "linear"


def is_nonnegative(dynamics: CoefficientDynamics) -> bool:
    """Return whether phi >= 0 on a wide grid of scores (or psi >= 0 on one of keys).

    A grid cannot prove it for an arbitrary function; for exp, ReLU, softplus and the usual psi it
    decides correctly, and ``observed_class`` checks it on data.
    """
    readout = dynamics.readout
    grid = torch.linspace(-40.0, 40.0, 4001, dtype=torch.float64, device=dynamics.device)
    if isinstance(readout, FeatureMap):  # all channels alike, and in directions of their own
        wide, n = widened(dynamics).dtype, dynamics.key_dim
        generator = torch.Generator().manual_seed(0)
        spread = torch.randn(len(grid), n, generator=generator, dtype=torch.float64).to(grid)
        points = torch.cat([grid[:, None].expand(-1, n), grid[:, None] * spread]).to(wide)
        return not bool((readout.features(points) < 0).any())
    return bool((readout(grid) >= 0).all())  # type: ignore[operator]


def combination_class(dynamics: CoefficientDynamics) -> CombinationClass:
    """The class guaranteed by phi and eta for every input.

    A row of coefficients that are all zero outputs zero (see ``normalizer.RowSum``); with ReLU the
    class is therefore convex on every row that has a positive score.
    """
    eta = dynamics.normalizer
    nonnegative = is_nonnegative(dynamics)
    if dynamics.own is not None:
        nonnegative = nonnegative and bool((dynamics.own >= 0).all())
    if isinstance(eta, RowSum) and eta.sink is not None:  # the rest of a row goes to the sink
        return CombinationClass.CONICAL if nonnegative else CombinationClass.LINEAR
    if isinstance(eta, RowSum):
        return CombinationClass.CONVEX if nonnegative else CombinationClass.AFFINE
    if isinstance(eta, Given):
        nonnegative = nonnegative and bool((eta.eta > 0).all())
    elif not isinstance(eta, One):
        nonnegative = nonnegative and eta.cancels_scale
    return CombinationClass.CONICAL if nonnegative else CombinationClass.LINEAR


def observed_class(
    normalized: Float[Tensor, "*batch L L"], tolerance: float = 1e-6
) -> CombinationClass:
    """The tightest class that a given matrix alpha / eta satisfies.

    Args:
        normalized: from ``dynamics.coefficients(normalized=True)``.
        tolerance: how far below 0 a coefficient, or from 1 a row sum, may lie. Rows that are
            entirely zero are left out of the row-sum test.

    Raises:
        ValueError: for a batch without sequences.
    """
    check_not_empty("observed_class", tuple(normalized.shape[:-2]))
    rows = normalized.sum(dim=-1)
    empty = (normalized == 0).all(dim=-1)
    sums_to_one = bool((((rows - 1).abs() <= tolerance) | empty).all())
    nonnegative = bool((normalized >= -tolerance).all())
    if nonnegative:
        return CombinationClass.CONVEX if sums_to_one else CombinationClass.CONICAL
    return CombinationClass.AFFINE if sums_to_one else CombinationClass.LINEAR
