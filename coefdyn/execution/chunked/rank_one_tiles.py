r"""A_t = diag(exp(g_t)) - left_t right_t^T under any pointwise readout: tiles of R tokens.

A tile is summarised by four things, as a Householder tile is (see ``HouseholderScores``, which
joins the tiles): queries pulled back to the tile's start, keys carried to its end, its whole
transition and its inner scores. With l the inclusive sum of g in the tile, T its total and
D(a, b)_ij = sum_c a_ic b_jc exp(l_ic - l_jc) for j <= i,

    N = tril(D(right, left), -1),  P = tril(D(right, k), -1)   with right as of one token earlier
    Y = (I + N)^-1 (right e^{l_{t-1}}),   E = (I + N)^-1 P
    q' = q e^l - D(q, left) Y,            k' = k e^{T - l} - E^T (left e^{T - l})
    M = diag(e^T) - (left e^{T - l})^T Y,  inner = D(q, k) - D(q, left) E

No exponent is positive where g is not, so that decays of any strength are exact.
"""

from __future__ import annotations

import torch
from torch.nn import functional

from coefdyn.execution.chunked.operators import Kernel
from coefdyn.execution.chunked.pointwise_scores import (
    lower_scores,
    lower_scores_backward,
    sums_after,
)
from coefdyn.execution.chunked.tiles import RESET
from coefdyn.shapes import Float, Tensor

__all__ = ["rank_one_tiles"]


def _pairs(q, early, k, left, log_decay) -> tuple[Tensor, Tensor, Tensor]:
    """The four (reader, key) pairs as one batch: (q, k), (q, left), (right, k), (right, left)."""
    return torch.cat([q, q, early, early]), torch.cat([k, left] * 2), torch.cat([log_decay] * 4)


def forward(q, early, k, left, log_decay) -> tuple[Tensor, Tensor]:
    """[D(q, k), D(q, left)] and [D(early, k), D(early, left)] of every tile, (N, R, 2 R).

    ``early`` is right, moved one token earlier; R is a power of two, at least 4.
    """
    parts = lower_scores(*_pairs(q, early, k, left, log_decay)).chunk(4)
    return torch.cat(parts[:2], 2), torch.cat(parts[2:], 2)


def backward(q, early, k, left, log_decay, read, erased, dread, derased) -> tuple[Tensor, ...]:
    """Gradients of the five; pairs (i, i) have no decay and would cancel in that of g."""
    rows, columns, g = _pairs(q, early, k, left, log_decay)
    grad = torch.cat([*dread.chunk(2, 2), *derased.chunk(2, 2)]).tril_()
    diagonal = grad.diagonal(dim1=1, dim2=2)
    own = diagonal[..., None].clone()
    diagonal.zero_()
    drows, dcolumns = lower_scores_backward(rows, columns, g, grad)
    terms = (rows * drows).sub_(columns * dcolumns).unflatten(0, (4, -1)).sum(0).double()
    dg = terms.flip(1).cumsum(1).flip(1).to(q.dtype)
    drows = drows.addcmul(own, columns).unflatten(0, (4, -1))
    dcolumns = dcolumns.addcmul(own, rows).unflatten(0, (4, -1))
    return (
        drows[0] + drows[1],
        drows[2] + drows[3],
        dcolumns[0] + dcolumns[2],
        dcolumns[1] + dcolumns[3],
        dg,
    )


def _shapes(q: Tensor, *rest: Tensor) -> tuple:
    return ((q.shape[0], q.shape[1], 2 * q.shape[1]),) * 2


decayed_scores = Kernel(
    "chunked_decayed_scores",
    forward,
    backward,
    tensors=("q", "early", "k", "left", "log_decay"),
    options=(),
    shapes=_shapes,
    outputs=2,
)


def rank_one_tiles(
    q: Float[Tensor, "b T R n"],
    k: Float[Tensor, "b T R n"],
    left: Float[Tensor, "b T R n"],
    right: Float[Tensor, "b T R n"],
    log_decay: Float[Tensor, "b T R n"],
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """(pulled queries, carried keys, whole transitions, inner scores) of all tiles."""
    n, size = q.shape[-1], q.shape[-2]
    g = log_decay.clamp(min=RESET)
    early = functional.pad(right[..., 1:, :], (0, 0, 0, 1))
    read, erase = decayed_scores(*(x.flatten(0, 1) for x in (q, early, k, left, g)))
    read, erase = (x.unflatten(0, q.shape[:2]) for x in (read, erase))
    keys, taken = read.split(size, -1)
    erased, overlap = functional.pad(erase[..., :-1, :], (0, 0, 1, 0)).split(size, -1)
    sums = g.cumsum(-2)
    before = functional.pad(sums[..., :-1, :], (0, 0, 1, 0)).exp()
    reach, fade, whole = sums.exp(), sums_after(g).exp(), sums[..., -1, :].exp()
    solved = torch.linalg.solve_triangular(
        overlap, torch.cat([right * before, erased], -1), upper=False, unitriangular=True
    )
    y, e = solved.split([n, size], -1)
    faded = left * fade
    return (
        q * reach - taken @ y,
        k * fade - e.transpose(-1, -2) @ faded,
        torch.diag_embed(whole) - faded.transpose(-1, -2) @ y,
        keys - taken @ e,
    )
