"""Positional information: do two identical tokens get different coefficients? (Lemma 3)"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch

from coefdyn.analysis.common import check_not_empty, widened
from coefdyn.dynamics.coefficients import CoefficientDynamics
from coefdyn.shapes import Float, Tensor

__all__ = ["PositionalInformation", "duplicate_token", "positional_information"]


@dataclass(frozen=True, kw_only=True, eq=False)
class PositionalInformation:
    """Coefficients of two copies of one token.

    Attributes:
        first: alpha_{i,j} for i >= later, of the earlier copy.
        second: alpha_{i,later}, of the later copy.
        largest_gap: max over i of their absolute difference, where one of them is finite.
        separated: whether a gap exceeds the tolerance.
    """

    first: Float[Tensor, "*batch m"]
    second: Float[Tensor, "*batch m"]
    largest_gap: float
    separated: bool


def duplicate_token(dynamics: CoefficientDynamics, j: int, later: int) -> CoefficientDynamics:
    """The same dynamics with key and scaling of token j copied to position ``later``.

    The evolution is left as it is: for input-dependent A_t that is a change of the input too, as
    far as A_t at ``later`` is concerned.
    """
    if not 0 <= j < later < dynamics.length:
        raise ValueError(
            f"duplicate_token needs 0 <= j < later < L={dynamics.length}, got j={j}, later={later}."
        )
    index = torch.arange(dynamics.length, device=dynamics.device)
    index[later] = j
    scaling, log_scaling = dynamics.scaling, dynamics.log_scaling
    return replace(
        dynamics,
        k=dynamics.k.index_select(-2, index),
        scaling=scaling.index_select(-1, index) if isinstance(scaling, Tensor) else scaling,
        log_scaling=None if log_scaling is None else log_scaling.index_select(-1, index),
    )


def positional_information(
    dynamics: CoefficientDynamics, j: int, later: int, tolerance: float = 1e-9
) -> PositionalInformation:
    """Copy token j to position ``later``; compare the two coefficients seen from every i >= later.

    With A_t = I they are equal for every readout. With A_t != I they differ for a generic query
    whenever the product A_later ... A_{j+1} is not the identity; a reflection applied twice is.
    An outer decay separates them likewise, and so does a mask that tells them apart. Computed in
    float64 where the readout allows that.

    Args:
        dynamics: the design.
        j: the token that is copied, 0-based.
        later: where to, j < later < L.
        tolerance: the least gap that counts, relative to coefficients larger than 1.

    Raises:
        ValueError: for positions that do not fit, or a batch without sequences.
    """
    check_not_empty("positional_information", dynamics.batch_shape)
    alpha = duplicate_token(widened(dynamics), j, later).coefficients()
    first, second = alpha[..., later:, j], alpha[..., later:, later]
    gap = (first - second).abs().nan_to_num(nan=0.0, posinf=torch.inf)  # both beyond the range
    size = torch.maximum(first.abs(), second.abs()).clamp(min=1.0)
    least = max(tolerance, 10 * torch.finfo(alpha.dtype).eps)
    apart = (gap > least * size) | (first.isinf() != second.isinf())
    return PositionalInformation(
        first=first.to(dynamics.dtype),
        second=second.to(dynamics.dtype),
        largest_gap=gap.max().item(),
        separated=bool(apart.any()),
    )
