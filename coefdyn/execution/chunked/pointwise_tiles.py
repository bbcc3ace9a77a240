r"""Any pointwise readout, tile by tile: R rows of coefficients at a time, never L x L numbers.

For rows i of one tile and all columns j <= i (D_ij = exp(c_i - c_j), c the sum of a scalar log
decay):

    S = raw scores * D;   P = phi(S - m), m = 0 or the row maximum (exp)
    numerator = P V,  total = row sum of P,  offset = m

Where raw scores come from is the business of a ``Scores`` object, one per structure of A_t. The
backward pass recomputes each tile: dS = phi'(S) * (dnumerator V^T + dtotal), and the gradient of
c_i is the row sum of dS * S minus the column sum.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol, runtime_checkable

import torch

from coefdyn.execution.chunked.readouts import Rule
from coefdyn.execution.chunked.tiles import WIDE
from coefdyn.execution.stabilize import RESET
from coefdyn.shapes import Float, Tensor

__all__ = ["Scores", "groups", "tiled_backward", "tiled_forward"]

#: bytes of the row buffer of one tile; two or three of them are in use at a time
BUFFER_BYTES = 2 * 1024 * 1024


@runtime_checkable
class Scores(Protocol):
    """q_i^T R_i ... R_{j+1} k_j of one group of batch entries, without the scalar decay."""

    def raw(self, start: int, stop: int) -> Float[Tensor, "g R stop"]:
        """Rows start .. stop - 1 against columns 0 .. stop - 1; called for increasing rows.

        Entries above the diagonal are arbitrary. The result may be overwritten.
        """

    def back(self, grad: Float[Tensor, "g R stop"], start: int, stop: int) -> None:
        """Add the gradient of the rows that ``raw`` gave last (zeros above the diagonal)."""


def groups(batch: int, length: int, rows: int, element: int) -> Iterator[tuple[slice, int]]:
    """(slice of the batch, rows per tile) such that the row buffer stays near BUFFER_BYTES."""
    while rows > 32 and rows * length * element > BUFFER_BYTES:
        rows //= 2
    step = max(1, BUFFER_BYTES // (rows * length * element))
    for start in range(0, batch, step):
        yield slice(start, min(start + step, batch)), rows


class _Decays:
    """D of a scalar decay, tile by tile, from float64 sums."""

    def __init__(self, log_decay: Float[Tensor, "g L"] | None, dtype: torch.dtype) -> None:
        self.sums = None if log_decay is None else log_decay.double().clamp(min=RESET).cumsum(-1)
        self.dtype = dtype

    def __call__(self, start: int, stop: int) -> Tensor | None:
        if self.sums is None:
            return None
        rows = self.sums[:, start:stop] - self.sums[:, start : start + 1]
        columns = self.sums[:, :stop] - self.sums[:, start : start + 1]
        if float(rows.abs().amax()) <= WIDE:  # small numbers lose nothing in float32
            rows, columns = rows.to(self.dtype), columns.to(self.dtype)
        pairs = (rows[:, :, None] - columns[:, None, :]).to(self.dtype).exp_()
        pairs[:, :, start:].tril_()
        return pairs


def _shifted(
    scores: Tensor, start: int, offset: Tensor | None, below: float
) -> tuple[Tensor, Tensor]:
    """Scores minus an offset per row, future scores at -inf; and the offset.

    It is the row maximum over j <= i where that is at most ``below``, else 0.
    """
    rows = scores.shape[1]
    future = torch.ones(rows, rows, dtype=torch.bool, device=scores.device).triu_(1)
    scores[:, :, start:].masked_fill_(future, -torch.inf)
    if offset is None:
        offset = scores.amax(-1)
        if below < torch.inf:
            offset.masked_fill_(offset > below, 0.0)
    return scores.sub_(offset[..., None]), offset


def _may_shift(scores: Tensor, start: int, below: float) -> bool:
    """Return whether a row's largest score may be at most ``below``, judged by its own (i, i)."""
    if below == torch.inf:
        return True
    return bool(scores[:, :, start:].diagonal(dim1=1, dim2=2).amin() <= below)


def tiled_forward(
    scores: Scores, rule: Rule, v: Tensor, log_decay: Tensor | None, rows: int, shift: bool
) -> Iterator[tuple[slice, Tensor, Tensor, Tensor | None]]:
    """(rows, numerator, total, offset) of every tile of one group."""
    decays = _Decays(log_decay, v.dtype)
    length = v.shape[1]
    for start in range(0, length, rows):
        stop = min(start + rows, length)
        s, d, offset = scores.raw(start, stop), decays(start, stop), None
        if d is not None:
            s.mul_(d)
        if shift and _may_shift(s, start, rule.shift_below):
            s, offset = _shifted(s, start, None, rule.shift_below)
        faint = offset is not None and rule.shift_below < torch.inf
        p = rule.shifted(s, offset)[0] if faint else rule.value(s)
        p[:, :, start:].tril_()
        yield slice(start, stop), torch.bmm(p, v[:, :stop]), p.sum(-1), offset


def tiled_backward(
    scores: Scores,
    rule: Rule,
    v: Tensor,
    log_decay: Tensor | None,
    rows: int,
    offset: Tensor | None,
    grads: tuple[Tensor, Tensor],
    dv: Tensor,
) -> Tensor | None:
    """Run every tile of one group backwards; fills dv and the scores' gradients, returns dg."""
    decays = _Decays(log_decay, v.dtype)
    dsums = None if log_decay is None else torch.zeros_like(log_decay)
    dv.zero_()
    for start in range(0, v.shape[1], rows):
        stop = min(start + rows, v.shape[1])
        grad = grads[0][:, start:stop]
        s, d = scores.raw(start, stop), decays(start, stop)
        if d is not None:
            s.mul_(d)
        kept, m = s, None if offset is None else offset[:, start:stop]
        if m is not None and (rule.shift_below == torch.inf or bool((m < 0).any())):
            kept = s.clone() if d is not None else s
            s, _ = _shifted(s, start, m, rule.shift_below)
            p, slope = rule.shifted(s, m)
        else:
            p, slope = rule.both(s)
        p[:, :, start:].tril_()
        dv[:, :stop].baddbmm_(p.transpose(1, 2), grad)
        ds = torch.bmm(grad, v[:, :stop].transpose(1, 2))
        ds.add_(grads[1][:, start:stop, None]).mul_(slope)
        ds[:, :, start:].tril_()
        if d is not None:
            kept[:, :, start:].tril_(-1)  # a pair (i, i) has no decay: its share would cancel
            along = kept.mul_(ds)
            dsums[:, start:stop] += along.sum(2)
            dsums[:, :stop] -= along.sum(1)
            ds.mul_(d)
        scores.back(ds, start, stop)
    if dsums is None:
        return None
    return dsums.double().flip(-1).cumsum(-1).flip(-1).to(dsums.dtype)
