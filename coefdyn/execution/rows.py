"""From scores to normalized rows, without overflow: shared by every method that sees whole rows.

A row is kept as ``values * exp(offset)``. The offset is the running maximum of softmax and the
stabiliser m_t of mLSTM in one: where eta_i cancels a common factor of its row (RowSum) or can be
told of it (FlooredRowSum), the factor never has to be formed, and a row whose coefficients are all
too small or too large for the dtype is still divided exactly.
"""

from __future__ import annotations

from typing import NamedTuple

import torch

from coefdyn.dynamics import readout as readouts
from coefdyn.dynamics.checks import can_read
from coefdyn.dynamics.normalizer import FlooredRowSum, Given, Normalizer, One, RowSum
from coefdyn.dynamics.readout import Pointwise
from coefdyn.execution.restrictions import with_own, with_sink
from coefdyn.shapes import Float, Tensor

__all__ = [
    "SOFTPLUS_IS_EXP",
    "Rows",
    "averaged",
    "concentrated",
    "loud",
    "normalize",
    "read",
    "rest",
    "safe_divide",
]

#: below this score softplus(s) is exp(s) to the last digit of float64
SOFTPLUS_IS_EXP = -40.0

#: a score whose rounding is still small beside a gradient of size 1
LOUD, LOUD_FLOAT64 = 1e3, 1e5


class Rows(NamedTuple):
    """Rows of coefficients: alpha = values * exp(offset); offset None means 0."""

    values: Float[Tensor, "*#batch i j"]
    offset: Float[Tensor, "*#batch i 1"] | None


def largest(logs: Tensor, mask: Tensor | None) -> Tensor:
    """The maximum of each row over its causal entries; no gradient flows through an offset."""
    logs = logs.detach()
    if mask is not None:
        logs = logs.masked_fill(~mask, -torch.inf)
    top = logs.amax(dim=-1, keepdim=True)
    return top.masked_fill(top == -torch.inf, 0.0)  # a row without any pair


def own_for_future(x: Tensor, mask: Tensor | None) -> Tensor:
    """x with every entry above the diagonal replaced by its row's entry on the diagonal.

    A score that no output depends on may lie outside the range of phi, or of the dtype: its value
    would be masked, but its gradient would be 0 * inf.
    """
    if mask is None:
        return x
    start = mask.shape[-1] - mask.shape[-2]
    own = x.detach().diagonal(start, dim1=-2, dim2=-1)[..., None]
    return torch.where(mask, x, own)


def log_size(scores: Tensor) -> Tensor:
    """log |s|; for 0 so low that only faded coefficients lie below, yet exp(-it) times an input is
    finite."""
    return scores.detach().abs().clamp(min=torch.finfo(scores.dtype).tiny ** 0.75).log()


def read(
    scores: Float[Tensor, "*#batch i j"],
    log_weights: Float[Tensor, "*#batch i j"] | None,
    mask: Tensor | None,
    readout: Pointwise,
    normalizer: Normalizer,
    outer: Float[Tensor, "*#batch i j"] | None = None,
    own: Float[Tensor, "*#batch i"] | None = None,
) -> Rows:
    """phi(scores * exp(log_weights)), masked; the row's scale is taken out where eta allows it.

    ``mask`` is True where a pair counts, its last column square on the diagonal; None for a full
    row. ``outer`` are the logs of factors outside phi, ``own`` is added to the diagonal.
    """
    values, offset = _read(scores, log_weights, mask, readout, normalizer, outer)
    if own is not None:
        values, offset = _add_own(values, offset, own)
    if mask is not None:
        values = values.masked_fill(~mask, 0.0)
    return Rows(values, offset)


def _add_own(values: Tensor, offset: Tensor | None, own: Tensor) -> tuple[Tensor, Tensor | None]:
    """own on the diagonal that ends in the last column."""
    rows, columns = values.shape[-2:]
    eye = torch.ones(rows, columns, dtype=values.dtype, device=values.device)
    eye = eye.tril(columns - rows).triu(columns - rows)
    return with_own(values, offset, own, eye)


def _read(
    scores: Tensor,
    log_weights: Tensor | None,
    mask: Tensor | None,
    readout: Pointwise,
    normalizer: Normalizer,
    outer: Tensor | None,
) -> Rows:
    offset, tracked = None, normalizer.cancels_scale
    if outer is not None and readout.is_homogeneous:
        log_weights = outer if log_weights is None else log_weights + outer
        outer = None
    if not readout.is_linear:
        scores = own_for_future(scores, mask)
    if log_weights is not None:
        log_weights = own_for_future(log_weights, mask)
        if tracked and readout.is_homogeneous:
            size = scores if readout.is_linear else readout(scores)
            offset = largest(log_weights + log_size(size), mask)
            log_weights, offset = log_weights - offset, offset.to(scores.dtype)
        scores = scores * log_weights.exp().to(scores.dtype)
    if outer is not None:
        outer = own_for_future(outer, mask)
        if readout.same_as(readouts.exp):
            scores, outer = scores + outer, None
    if tracked and readout.same_as(readouts.exp):
        offset = largest(scores, mask)
        values = (scores - offset).exp()
    elif tracked and readout.same_as(readouts.softplus):
        offset = largest(scores, mask)
        offset = offset.masked_fill(offset > SOFTPLUS_IS_EXP, 0.0)
        faint = scores - offset  # 0 at the largest, where the gradient of a clamp is torch's choice
        faint = faint.masked_fill(faint > 0, 0.0).exp()
        values = torch.where(offset == 0, readout(scores), faint)
    else:
        values = readout(scores)
    if outer is None:
        return Rows(values, offset)
    if not tracked:
        return Rows(values * outer.exp(), offset)
    top = largest(outer + log_size(values), mask)
    return Rows(values * (outer - top).exp(), top if offset is None else offset + top)


def concentrated(total: Float[Tensor, "*#batch i 1"], offset: Tensor | None) -> bool:
    """Return whether one pair holds every row up to eps^(1/3), or one with a score above LOUD.

    1 is the largest value of a row that was divided by exp(offset).

    The gradient of its score, the value's share less that of the mean, is then a difference of two
    equal numbers, which have to be rounded alike. Asked where a gradient is recorded and numbers
    can be read without waiting for them: not on CUDA.
    """
    if offset is None or not torch.is_grad_enabled() or not total.requires_grad:
        return False
    if total.device.type != "cpu" or not can_read(total) or total.numel() == 0:
        return False
    alone = total.detach() - 1 <= rest(total.dtype)
    return bool(alone.all()) or bool((alone & (offset.abs() > loud(total.dtype))).any())


def loud(dtype: torch.dtype) -> float:
    """LOUD of a dtype."""
    return LOUD_FLOAT64 if dtype == torch.float64 else LOUD


def rest(dtype: torch.dtype) -> float:
    """Most that all other pairs of a concentrated row may hold together, the largest holding 1."""
    return torch.finfo(dtype).eps ** (1 / 3)


def averaged(rows: Rows, v: Float[Tensor, "*#batch j c"], normalizer: Normalizer) -> Tensor:
    """sum_j alpha_ij v_j / eta_i, divided after the sum: c numbers per row instead of j.

    Before it where rows are concentrated, as in the reference.
    """
    values, offset = rows
    total = values.sum(-1, keepdim=True)
    if concentrated(total, offset):
        return normalize(values, total, offset, normalizer) @ v
    return normalize(values @ v, total, offset, normalizer)


def safe_divide(values: Tensor, total: Tensor) -> Tensor:
    """values / total, and 0 with zero gradient where total is 0 (or below the dtype's range)."""
    empty = total.abs() < torch.finfo(total.dtype).tiny
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
        case RowSum(sink=sink):
            if sink is not None:
                sink = torch.as_tensor(sink, dtype=total.dtype, device=total.device)
                sink = sink[..., None] if sink.ndim else sink[None, None]
                numerator, total = with_sink(numerator, total, offset, sink)
            return safe_divide(numerator, total)
        case FlooredRowSum(floor=floor):
            return floored(numerator, total, offset, floor)
    raise ValueError(f"no rule for the normalizer {normalizer!r}; use one of coefdyn.normalizer.")


def floored(numerator: Tensor, total: Tensor, offset: Tensor | None, floor: float) -> Tensor:
    """numerator / max(|total|, floor): the side of the quotient that is small is scaled, never
    the one that would overflow."""
    if offset is None:
        return numerator / total.abs().clamp(min=floor)
    down = offset.clamp(max=0.0).exp()
    numerator, total = numerator * down, total * down
    # far below every total that is not a rounding error, far above numbers whose inverse overflows
    least = torch.finfo(total.dtype).tiny ** 0.75
    floors = (floor * (-offset.clamp(min=0.0)).exp()).clamp(min=least)
    return numerator / torch.maximum(total.abs(), floors)
