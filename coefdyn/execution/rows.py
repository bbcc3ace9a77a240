"""From scores to normalized rows, without overflow: shared by every method that sees whole rows.

A row is kept as ``values * exp(offset)``. The offset is the running maximum of softmax and the
stabiliser m_t of mLSTM in one: where eta_i cancels a common factor of its row (RowSum) or can be
told of it (FlooredRowSum), the factor never has to be formed.
"""

from __future__ import annotations

from typing import NamedTuple

import torch

from coefdyn.dynamics import readout as readouts
from coefdyn.dynamics.normalizer import FlooredRowSum, Given, Normalizer, One, RowSum
from coefdyn.dynamics.readout import Pointwise
from coefdyn.shapes import Float, Tensor

__all__ = ["Rows", "masked_exp", "normalize", "read", "safe_divide"]


class Rows(NamedTuple):
    """Rows of coefficients: alpha = values * exp(offset); offset None means 0."""

    values: Float[Tensor, "*#batch i j"]
    offset: Float[Tensor, "*#batch i 1"] | None


def masked_exp(log_weights: Tensor, mask: Tensor | None) -> Tensor:
    """exp, with masked entries exactly 0. The mask comes before exp, so gradients stay finite."""
    if mask is not None:
        log_weights = log_weights.masked_fill(~mask, -torch.inf)
    return log_weights.exp()


def row_offset(logs: Tensor, mask: Tensor | None, normalizer: Normalizer) -> Tensor:
    """The largest log of each row, and never below 0 where eta has a floor to compare with."""
    if mask is not None:
        logs = logs.masked_fill(~mask, -torch.inf)
    offset = logs.detach().amax(dim=-1, keepdim=True)
    return offset.clamp(min=0.0) if isinstance(normalizer, FlooredRowSum) else offset


def read(
    scores: Float[Tensor, "*#batch i j"],
    log_weights: Float[Tensor, "*#batch #i j"] | None,
    mask: Tensor | None,
    readout: Pointwise,
    normalizer: Normalizer,
) -> Rows:
    """phi(scores * exp(log_weights)), masked; the row's scale is taken out where eta allows it."""
    offset = None
    if log_weights is not None:
        if normalizer.cancels_scale and readout.is_homogeneous:
            offset = row_offset(log_weights, mask, normalizer)
            log_weights = log_weights - offset
        scores = scores * masked_exp(log_weights, mask)
    if readout.same_as(readouts.exp) and normalizer.cancels_scale:
        offset = row_offset(scores, mask, normalizer)
        return Rows(masked_exp(scores - offset, mask), offset)
    values = readout(scores)
    if mask is not None:
        values = values.masked_fill(~mask, 0.0)
    return Rows(values, offset)


def safe_divide(values: Tensor, total: Tensor) -> Tensor:
    """values / total, and 0 with zero gradient where total is exactly 0."""
    empty = total == 0
    return (values / total.masked_fill(empty, 1.0)).masked_fill(empty, 0.0)


def normalize(
    numerator: Float[Tensor, "*#batch i c"],
    total: Float[Tensor, "*#batch i 1"],
    offset: Float[Tensor, "*#batch i 1"] | None,
    normalizer: Normalizer,
) -> Float[Tensor, "*batch i c"]:
    """numerator / eta, both known up to the factor exp(offset); total is the row sum."""
    match normalizer:
        case One():
            return numerator
        case Given(eta=eta):
            return numerator / eta[..., None]
        case RowSum():
            return safe_divide(numerator, total)
        case FlooredRowSum(floor=floor):
            least = floor if offset is None else floor * (-offset).exp()
            least = torch.as_tensor(least, dtype=total.dtype, device=total.device)
            return safe_divide(numerator, torch.maximum(total.abs(), least))
    raise ValueError(f"no rule for the normalizer {normalizer!r}; use one of coefdyn.normalizer.")
