"""Input selectivity: how many coefficients a design sets to (nearly) zero (Principle 2)."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from coefdyn.analysis.common import admitted, check_not_empty
from coefdyn.dynamics.coefficients import CoefficientDynamics
from coefdyn.dynamics.readout import Pointwise
from coefdyn.shapes import Float, Int, Tensor

__all__ = ["NearZeroSet", "Selectivity", "near_zero_set", "selectivity", "simultaneous_zeros"]

#: the paper's threshold for "near zero" (Section 5)
EPSILON = 1e-3


@dataclass(frozen=True, kw_only=True)
class Selectivity:
    """Counts over the admitted pairs: j <= i, and not masked.

    Attributes:
        near_zero_fraction: share of coefficients with abs(alpha) <= epsilon.
        large_fraction: share in [0.9, 1].
        large_to_near_zero: their ratio (Figure 7 of the paper); NaN where nothing is near zero.
        epsilon: the threshold.
    """

    near_zero_fraction: float
    large_fraction: float
    large_to_near_zero: float
    epsilon: float


def selectivity(
    dynamics: CoefficientDynamics, epsilon: float = EPSILON, normalized: bool = True
) -> Selectivity:
    """Count near-zero and large coefficients of one design on one input.

    Args:
        dynamics: the design.
        epsilon: threshold on abs(alpha), > 0.
        normalized: look at alpha / eta (default) or at alpha.

    Raises:
        ValueError: for a batch without sequences.
    """
    check_not_empty("selectivity", dynamics.batch_shape)
    alpha = dynamics.coefficients(normalized=normalized)
    alpha = alpha[admitted(dynamics).expand_as(alpha)]
    small = (alpha.abs() <= epsilon).double().mean().item()
    large = ((alpha >= 0.9) & (alpha <= 1.0)).double().mean().item()
    return Selectivity(
        near_zero_fraction=small,
        large_fraction=large,
        large_to_near_zero=large / small if small > 0 else float("nan"),
        epsilon=epsilon,
    )


def simultaneous_zeros(
    dynamics: CoefficientDynamics, epsilon: float = 1e-6
) -> Int[Tensor, "*batch L"]:
    """Number of abs(alpha_{i,j}) <= epsilon for each i (Principle 2.2, Figure 9).

    Counted are the j <= i that the mask admits. With an identity readout and linearly independent
    states it is at most n - 1 for a nonzero query (Corollary 2.2); repeated tokens give more for
    free.
    """
    alpha = dynamics.coefficients()
    return ((alpha.abs() <= epsilon) & admitted(dynamics)).sum(dim=-1)


@dataclass(frozen=True, kw_only=True, eq=False)
class NearZeroSet:
    """Set of scores in an interval where abs(phi(s)) <= epsilon.

    Attributes:
        scores: the grid, increasing.
        values: phi on it.
        inside: True where the score is near zero.
        measure: length of the near-zero set within the interval.
        intervals: its connected pieces as (start, end).
        epsilon: the threshold.
    """

    scores: Float[Tensor, " m"]
    values: Float[Tensor, " m"]
    inside: Tensor
    measure: float
    intervals: tuple[tuple[float, float], ...]
    epsilon: float


def near_zero_set(
    readout: Pointwise,
    epsilon: float = EPSILON,
    low: float = -10.0,
    high: float = 10.0,
    points: int = 200_001,
) -> NearZeroSet:
    """The near-zero set of a pointwise readout on [low, high] (Lemma 2 with its interval stated).

    The set of the whole line can be infinite (ReLU, exp), so the interval belongs to the answer.

    Raises:
        ValueError: for a readout that is not pointwise, or an empty range.
    """
    if not isinstance(readout, Pointwise):
        raise ValueError(f"near_zero_set needs a pointwise readout, got {readout!r}.")
    if not low < high:
        raise ValueError(f"near_zero_set needs low < high, got [{low}, {high}].")
    scores = torch.linspace(low, high, points, dtype=torch.float64)
    values = readout(scores)
    inside = values.abs() <= epsilon
    edges = torch.diff(torch.nn.functional.pad(inside.int(), (1, 1)))
    starts, ends = (edges == 1).nonzero().flatten(), (edges == -1).nonzero().flatten() - 1
    pieces = tuple((scores[a].item(), scores[b].item()) for a, b in zip(starts, ends, strict=True))
    return NearZeroSet(
        scores=scores,
        values=values,
        inside=inside,
        measure=sum(b - a for a, b in pieces),
        intervals=pieces,
        epsilon=epsilon,
    )
