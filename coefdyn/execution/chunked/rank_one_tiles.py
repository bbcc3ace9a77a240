r"""A_t = diag(exp(g_t)) - left_t right_t^T under any pointwise readout: tiles of R tokens.

A tile is summarised by four things, which ``RankOneScores`` joins: queries pulled to its start,
keys carried to its end, its whole transition and its inner scores. With l the inclusive sum of g in
the tile, T its total and D(a, b)_ij = sum_c a_ic b_jc exp(l_ic - l_jc) for j <= i,

    N = tril(D(right, left), -1),  P = tril(D(right, k), -1)   with right as of one token earlier
    Y = (I + N)^-1 (right e^{l_{t-1}}),   E = (I + N)^-1 P
    q' = q e^l - D(q, left) Y,            k' = k e^{T - l} - E^T (left e^{T - l})
    M = diag(e^T) - (left e^{T - l})^T Y,  inner = D(q, k) - D(q, left) E

Householder evolutions have left = z, right = beta z and no g. Where all exponents are safe, D is
one product of anchored vectors (see diagonal.py); else no exponent is positive where g is not, so
that decays of any strength are exact.
"""

from __future__ import annotations

import torch
from torch.nn import functional

from coefdyn.execution.chunked.diagonal import anchored_sums
from coefdyn.execution.chunked.householder import solve_lower, solve_upper
from coefdyn.execution.chunked.operators import Kernel
from coefdyn.execution.chunked.pointwise_scores import (
    lower_scores,
    lower_scores_backward,
    sums_after,
)
from coefdyn.execution.chunked.rank_one import adjacent_pairs
from coefdyn.execution.chunked.scalar import own_pairs
from coefdyn.execution.chunked.scan import tile_bytes
from coefdyn.execution.chunked.tiles import RESET, batch_groups, cut, scaled
from coefdyn.shapes import Float, Tensor

__all__ = ["rank_one_tiles"]


def _earlier(x: Tensor) -> Tensor:
    """Rows moved one token earlier."""
    return functional.pad(x[:, 1:], (0, 0, 0, 1))


def _later(x: Tensor) -> Tensor:
    """Rows moved one token later."""
    return functional.pad(x[:, :-1], (0, 0, 1, 0))


class _Group:
    """Some tiles: [q; right], [k; left], their factors, and the four D as one square of 2 R."""

    def __init__(self, q, k, left, right, log_decay) -> None:
        self.size, self.g = q.shape[1], log_decay
        self.rows, self.columns = torch.cat([q, right], 1), torch.cat([k, left], 1)
        self.reach = self.fade = self.half = None
        self.whole, self.safe = 1.0, True
        if log_decay is not None:
            self._decay(log_decay)
        self.read, self.written = scaled(self.rows, self.reach), scaled(self.columns, self.fade)

    def _decay(self, g: Tensor) -> None:
        """Factors e^{l - a}, e^{a - l} and e^a for a = T / 2, or e^l, e^{T - l} and 1."""
        sums, half, self.safe = anchored_sums(g)
        if self.safe:
            self.whole = (2 * half[:, 0]).exp_()
            self.reach = torch.cat([sums, -half, sums[:, :-1]], 1).exp_()
            self.fade = self.reach[:, : self.size].reciprocal().repeat(1, 2, 1)
            self.half = half.exp_()
        else:
            self.g = g = g.clamp(min=RESET)
            sums = g.cumsum(1)
            self.whole = sums[:, -1].exp()
            self.reach = torch.cat([sums, _later(sums)], 1).exp_()
            self.fade = sums_after(g).exp_().repeat(1, 2, 1)

    def _pairs(self) -> tuple[Tensor, Tensor, Tensor]:
        """(q, k), (q, left), (right, k), (right, left) as one batch, right one token earlier."""
        (q, right), (k, left) = (x.chunk(2, 1) for x in (self.rows, self.columns))
        early = _earlier(right)
        return torch.cat([q, q, early, early]), torch.cat([k, left] * 2), torch.cat([self.g] * 4)

    def scores(self) -> tuple[Float[Tensor, "N rows R"], Float[Tensor, "N rows R"]]:
        """D of [q; right] with k, and with left; only their lower parts count."""
        if self.safe:
            both = torch.bmm(self.read, self.written.mT)
            return both[..., : self.size], both[..., self.size :]
        first, second, third, fourth = lower_scores(*self._pairs()).chunk(4)
        return torch.cat([first, _later(third)], 1), torch.cat([second, _later(fourth)], 1)

    def taken(self) -> Float[Tensor, "N rows R"]:
        """The second of ``scores``."""
        if self.safe:
            return torch.bmm(self.read, self.written[:, self.size :].mT)
        return self.scores()[1]

    def pair_gradients(self, dscores: Tensor) -> tuple[Tensor, Tensor]:
        """Of [q; right] and [k; left], through the scores."""
        if self.safe:
            drows, dcolumns = torch.bmm(dscores, self.written), torch.bmm(dscores.mT, self.read)
            return drows.mul_(self.reach), dcolumns.mul_(self.fade)
        top, bottom = dscores.split(self.size, 1)
        grad = torch.cat([*top.chunk(2, 2), *_earlier(bottom).chunk(2, 2)])
        drows, dcolumns = (x.chunk(4) for x in lower_scores_backward(*self._pairs(), grad))
        return (
            torch.cat([drows[0] + drows[1], _later(drows[2] + drows[3])], 1),
            torch.cat([dcolumns[0] + dcolumns[2], dcolumns[1] + dcolumns[3]], 1),
        )


def forward(q, k, left, right, log_decay) -> tuple[Tensor, ...]:
    """(pulled queries, carried keys, whole transitions, inner scores, [Y, E]) of every tile."""
    n, size = q.shape[-1], q.shape[1]
    pulled, carried = torch.empty_like(q), torch.empty_like(k)
    whole, inner, solved = (q.new_empty(shape) for shape in _shapes(q)[2:])
    for group in batch_groups(q.shape[0], tile_bytes(q, q, size)):
        x = _Group(q[group], k[group], left[group], right[group], cut(log_decay, group))
        keys, taken = x.scores()
        keys[:, size:].tril_(-1)
        top, erased = torch.cat([x.read, keys], 2).split(size, 1)
        solved[group] = found = solve_lower(taken[:, size:], erased)
        top = top.baddbmm(taken[:, :size].tril_(), found, alpha=-1)
        bottom = torch.bmm(found.mT, x.written[:, size:])
        pulled[group], inner[group] = scaled(top[:, :, :n], x.half), top[:, :, n:]
        carried[group] = scaled(x.written[:, :size] - bottom[:, n:], x.half)
        moved = scaled(bottom[:, :n], x.half).mT
        whole[group] = scaled(moved, x.half).neg_()
        whole[group].diagonal(dim1=1, dim2=2).add_(x.whole)
    return pulled, carried, whole, inner, solved


def backward(
    q, k, left, right, log_decay, _q, _k, _whole, _inner, solved, dq, dk, dwhole, dinner
) -> tuple[Tensor | None, ...]:
    """Gradients of (q, k, left, right, log_decay)."""
    inputs = (q, k, left, right, log_decay)
    grads = tuple(None if x is None else torch.empty_like(x) for x in inputs)
    for group in batch_groups(q.shape[0], tile_bytes(q, q, q.shape[1])):
        x = _Group(q[group], k[group], left[group], right[group], cut(log_decay, group))
        outer = (dq[group], dk[group], dwhole[group], dinner[group])
        for whole, found in zip(grads, _group_backward(x, solved[group], *outer), strict=True):
            if whole is not None:
                whole[group] = found
    return grads


def _group_backward(x: _Group, solved, dq, dk, dwhole, dinner) -> tuple[Tensor | None, ...]:
    """Back through [q', inner] = [q, D(q, k)] - D(q, left) X and [M, k'] = [I, k] - X^T left, where
    X = (I + N)^-1 [right, P]."""
    n, size = dq.shape[-1], x.size
    moved = scaled(scaled(dwhole, x.half).mT, x.half)
    top = torch.cat([scaled(dq, x.half), dinner], 2)
    bottom = torch.cat([moved, scaled(dk, x.half)], 1)
    read, overlap = x.taken().split(size, 1)
    dsolved = torch.bmm(read.tril_().mT, top).baddbmm_(x.written[:, size:], bottom.mT).neg_()
    r = solve_upper(overlap, dsolved)
    dscores = dq.new_empty(dq.shape[0], 2 * size, 2 * size)
    dscores[:, :size, :size] = dinner.tril()
    dscores[:, :size, size:] = torch.bmm(top, solved.mT).neg_().tril_()
    dscores[:, size:, :size] = r[:, :, n:].tril(-1)
    dscores[:, size:, size:] = torch.bmm(r, solved.mT).neg_().tril_(-1)
    dread = torch.cat([top[:, :, :n], r[:, :, :n]], 1)
    dwritten = torch.cat([bottom[:, n:], torch.bmm(solved, bottom).neg_()], 1)
    if x.g is None:
        drows = torch.baddbmm(dread, dscores, x.columns)
        return *_ordered(drows, torch.baddbmm(dwritten, dscores.mT, x.rows)), None

    own, next_to = own_pairs(dscores[:, :size]), adjacent_pairs(dscores[:, size:])
    drows, dcolumns = x.pair_gradients(dscores)
    drows += dread * x.reach
    terms, later = (x.rows * drows).chunk(2, 1)
    terms -= (x.columns * dcolumns).unflatten(1, (2, size)).sum(1)
    terms[:, :-1] += later[:, 1:]
    direct = dwritten.mul_(x.fade)
    faded = (x.columns * direct).unflatten(1, (2, size)).sum(1)
    dg = terms.flip(1).cumsum_(1).flip(1).add_(_later(faded.cumsum_(1)))
    dg += (dwhole.diagonal(dim1=1, dim2=2) * x.whole)[:, None]

    dcolumns += direct
    (rows, earlier), columns = x.rows.chunk(2, 1), x.columns.unflatten(1, (2, size))
    own, pairs = own.unflatten(1, (2, size)), dcolumns.unflatten(1, (2, size))
    drows[:, :size] += (own * columns).sum(1)
    pairs.addcmul_(own, rows[:, None])
    drows[:, size + 1 :] += (next_to * columns[:, :, :-1]).sum(1)
    pairs[:, :, :-1].addcmul_(next_to, earlier[:, None, 1:])
    return *_ordered(drows, dcolumns), dg


def _ordered(drows: Tensor, dcolumns: Tensor) -> tuple[Tensor, ...]:
    """Gradients of q, k, left and right from those of [q; right] and [k; left]."""
    (q, right), (k, left) = drows.chunk(2, 1), dcolumns.chunk(2, 1)
    return q, k, left, right


def _shapes(q: Tensor, *rest: Tensor | None) -> tuple:
    batch, size, n = q.shape
    return q.shape, q.shape, (batch, n, n), (batch, size, size), (batch, size, n + size)


tiles_kernel = Kernel(
    "chunked_rank_one_tiles",
    forward,
    backward,
    tensors=("q", "k", "left", "right", "log_decay?"),
    options=(),
    shapes=_shapes,
    outputs=5,
    constants=1,
)


def rank_one_tiles(
    q: Float[Tensor, "b T R n"],
    k: Float[Tensor, "b T R n"],
    left: Float[Tensor, "b T R n"],
    right: Float[Tensor, "b T R n"],
    log_decay: Float[Tensor, "b T R n"] | None = None,
) -> tuple[Tensor, ...]:
    """(pulled queries, carried keys, whole transitions, inner scores) of all tiles; R is a power of
    two, at least 4, where there are decays."""
    tensors = (None if x is None else x.flatten(0, 1) for x in (q, k, left, right, log_decay))
    return tuple(x.unflatten(0, q.shape[:2]) for x in tiles_kernel(*tensors)[:4])
