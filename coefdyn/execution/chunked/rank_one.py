r"""Linear readout, A_t = diag(exp(g_t)) - left_t right_t^T: chunked forward and backward.

With e_t = S_{t-1}^T right_t, what is erased, the state changes by two outer products per token,
S_t = diag(e^{g_t}) S_{t-1} + b_t k_t v_t^T - left_t e_t^T. As in diagonal.py, l is the inclusive
sum of g inside a piece, T its total, a = T / 2, and primes carry the anchored decay,

    q' = q e^{l - a},   k' = k e^{a - l},   left' = left e^{a - l},   S' = e^a S,
    right'_t = right_t e^{l_{t-1} - a}                  (it reads the state before token t)

Stacking K' = [k'; left'] and V' = [b V; -E] leaves a scan without decay:

    (I + tril(right' left'^T, -1)) E = right' S' + tril(right' k'^T, -1) (b V)
    O = tril(q' K'^T) V' + q' S',    S <- e^{T - a} (S' + K'^T V')

A piece whose exponents are not safe, or that grows, is cut into shorter ones, at last into single
inputs.

The gradient of l_i is q_i * dq_i - k_i * dk_i - left_i * dleft_i + right_{i+1} * dright_{i+1}.
Pairs between which no decay lies, (i, i) for q, (i, i - 1) for right, and a piece's last token and
the state at its end, are left out of it: their shares cancel, and would bury what a strong decay
leaves.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import torch

from coefdyn.execution.chunked.diagonal import AnchoredPiece, anchored_pieces
from coefdyn.execution.chunked.householder import solve_lower, solve_upper
from coefdyn.execution.chunked.scalar import own_pairs
from coefdyn.execution.chunked.scan import Group, scan_kernel
from coefdyn.execution.chunked.tiles import STEADY, cut, scaled
from coefdyn.execution.growth import LIMIT_NATS, most_rank_one_nats, rank_one_nats, rise
from coefdyn.execution.stabilize import RESET
from coefdyn.shapes import Float, Tensor

__all__ = ["adjacent_pairs", "rank_one_kernel"]


def _steady(g: Float[Tensor, "B C n"], nats: Float[Tensor, "B C"] | None) -> bool:
    """Return whether no channel of a piece grows beyond the limit of a triangular system."""
    if nats is None:
        return True
    grown = float(rise(g.double().clamp(min=RESET).mT).amax())
    whole = (g + nats[..., None]).double().clamp(min=RESET).mT
    return grown <= STEADY and float(rise(whole).amax()) <= LIMIT_NATS


class _Anchored(NamedTuple):
    """One piece in anchored variables, with E solved for."""

    q: Tensor
    right: Tensor
    before: Tensor  # e^{l_{t-1} - a}
    stacked: Tensor  # K' = [k'; left'], (B, 2 C, n)
    values: Tensor  # V' = [b V; -E], (B, 2 C, dv)
    rows: Tensor  # right' K'^T, strictly lower where it counts
    state: Tensor | None  # S'

    def end(self, piece: AnchoredPiece) -> Tensor:
        """The state after the piece."""
        found = torch.bmm(self.stacked.transpose(1, 2), self.values)
        if self.state is not None:
            found += self.state
        return scaled(found, piece.outer)


class _Group(Group):
    own = ("left", "right")
    log_decay_name = "log_decay"
    left: Tensor
    right: Tensor

    def pieces(self) -> Iterator[AnchoredPiece]:
        g, left, right = self.log_decay, self.left, self.right
        nats = None
        bound = (most_rank_one_nats(left, right, g) + float(g.amax())) * self.chunk
        if not bound <= STEADY:  # NaN, too
            nats = rank_one_nats(left, right, g)
            most = float((nats + g.amax(-1)).amax()) * self.chunk
            nats = None if most <= STEADY else nats
        return anchored_pieces(
            g,
            self.chunk,
            lambda tokens: _steady(g[:, tokens], cut(nats, (slice(None), tokens))),
        )

    def anchored(self, piece: AnchoredPiece, state: Tensor | None) -> _Anchored:
        here = (slice(None), slice(piece.start, piece.stop))
        size = piece.stop - piece.start
        before = torch.cat([1 / piece.inner.mT, piece.reach[:, :-1]], 1)
        values, right = self.written(piece), self.right[here] * before
        stacked = torch.cat([self.k[here] / piece.reach, self.left[here] / piece.reach], 1)
        rows = torch.bmm(right, stacked.transpose(1, 2))
        rows[:, :, :size].tril_(-1)
        erased = torch.bmm(rows[:, :, :size], values)
        inner = None if state is None else state * piece.inner
        if inner is not None:
            erased.baddbmm_(right, inner)
        erased = solve_lower(rows[:, :, size:], erased)
        values = torch.cat([values, -erased], 1)
        return _Anchored(self.q[here] * piece.reach, right, before, stacked, values, rows, inner)

    def forward(self, piece: AnchoredPiece, state: Tensor | None) -> tuple[Tensor, Tensor]:
        (q,) = self.of(piece, "q")
        if piece.reach is None:
            end = self._step(piece, state)
            return torch.bmm(q, end), end
        x = self.anchored(piece, state)
        out = torch.bmm(_causal(torch.bmm(x.q, x.stacked.transpose(1, 2))), x.values)
        return out if x.state is None else out.baddbmm_(x.q, x.state), x.end(piece)

    def advance(self, piece: AnchoredPiece, state: Tensor | None) -> tuple[Tensor, Any]:
        if piece.reach is None:
            return self._step(piece, state), None
        return self.anchored(piece, state).end(piece), None

    def backward(self, piece: AnchoredPiece, seen, state, end, grad, ds):
        back = _step_backward if piece.reach is None else _piece_backward
        found = back(self, piece, state, end, grad, ds)._asdict()
        return found, found.pop("state")

    def _step(self, piece: AnchoredPiece, state: Tensor | None) -> Tensor:
        """S_t of a single token, from its definition."""
        here = (slice(None), slice(piece.start, piece.stop))
        written = torch.bmm(self.k[here].transpose(1, 2), self.written(piece))
        if state is None:
            return written
        erased = torch.bmm(self.right[here], state)
        written.baddbmm_(self.left[here].transpose(1, 2), erased, alpha=-1)
        return written.addcmul_(state, piece.inner)


def _causal(scores: Tensor) -> Tensor:
    """Both squares of (B, C, 2 C) with zeros above their diagonals, in place."""
    size = scores.shape[1]
    scores[:, :, :size].tril_()
    scores[:, :, size:].tril_()
    return scores


class _Gradients(NamedTuple):
    """Gradients of Q, k, left, right, b V, g and the first state of one piece."""

    q: Tensor
    k: Tensor
    left: Tensor
    right: Tensor
    v: Tensor
    log_decay: Tensor
    state: Tensor


def _step_backward(inputs: _Group, piece: AnchoredPiece, state, end, grad, ds) -> _Gradients:
    """Back through S = e^g S_0 - left (right^T S_0) + b k v^T and o = S^T q."""
    here = (slice(None), slice(piece.start, piece.stop))
    q, k, left, right = (x[here] for x in (inputs.q, inputs.k, inputs.left, inputs.right))
    ds = torch.baddbmm(ds, q.transpose(1, 2), grad)
    dq = torch.bmm(grad, end.transpose(1, 2))
    dk, values = torch.bmm(inputs.written(piece), ds.transpose(1, 2)), torch.bmm(k, ds)
    kept = ds * piece.inner
    if state is None:
        nothing = torch.zeros_like(k)
        return _Gradients(dq, dk, nothing, nothing, values, nothing, kept)
    erased, derased = torch.bmm(right, state), torch.bmm(left, ds).neg_()
    return _Gradients(
        dq,
        dk,
        torch.bmm(erased, ds.transpose(1, 2)).neg_(),
        torch.bmm(derased, state.transpose(1, 2)),
        values,
        (kept * state).sum(2)[:, None],
        kept.baddbmm_(right.transpose(1, 2), derased),
    )


def _piece_backward(inputs: _Group, piece: AnchoredPiece, state, end, grad, ds) -> _Gradients:
    """Back through one piece; the erase rows' gradient is tril(R V'^T, -1), R = (I + N)^-T dE."""
    x, size = inputs.anchored(piece, state), piece.stop - piece.start
    dend = scaled(ds, piece.outer)
    scores = _causal(torch.bmm(x.q, x.stacked.transpose(1, 2)))
    dscores = _causal(torch.bmm(grad, x.values.transpose(1, 2)))
    dvalues = torch.bmm(scores.transpose(1, 2), grad).baddbmm_(x.stacked, dend)
    r = solve_upper(x.rows[:, :, size:], dvalues[:, size:].neg())
    drows = torch.bmm(r, x.values.transpose(1, 2))
    drows[:, :, :size].tril_(-1)
    drows[:, :, size:].tril_(-1)
    own, next_to = own_pairs(dscores).unflatten(1, (2, size)), adjacent_pairs(drows)

    dq, dright = torch.bmm(dscores, x.stacked), torch.bmm(drows, x.stacked)
    dstacked = torch.bmm(x.values, dend.transpose(1, 2))
    last = _last_tokens(dstacked)
    dstacked.baddbmm_(dscores.transpose(1, 2), x.q).baddbmm_(drows.transpose(1, 2), x.right)
    written = dvalues[:, :size].baddbmm(x.rows[:, :, :size].transpose(1, 2), r)
    dstate = torch.baddbmm(dend, x.q.transpose(1, 2), grad).baddbmm_(x.right.transpose(1, 2), r)
    if x.state is not None:
        dq.baddbmm_(grad, x.state.transpose(1, 2))
        dright.baddbmm_(r, x.state.transpose(1, 2))

    sums = (x.q * dq).sub_((x.stacked * dstacked).unflatten(1, (2, size)).sum(1))
    sums[:, :-1].addcmul_(x.right[:, 1:], dright[:, 1:])
    faded = _but_last(x.stacked).transpose(1, 2).bmm(_but_last(x.values))
    faded = (faded if x.state is None else faded.add_(x.state)).mul_(dend)
    sums = sums.flip(1).cumsum(1).flip(1).add_(faded.sum(2)[:, None])

    stacked, pairs = x.stacked.unflatten(1, (2, size)), dstacked.unflatten(1, (2, size))
    pairs[:, :, -1:] += last
    dq += (own * stacked).sum(1)
    pairs.addcmul_(own, x.q[:, None])
    dright[:, 1:] += (next_to * stacked[:, :, :-1]).sum(1)
    pairs[:, :, :-1].addcmul_(next_to, x.right[:, None, 1:])
    pairs = pairs / piece.reach[:, None]
    return _Gradients(
        dq.mul_(piece.reach),
        pairs[:, 0],
        pairs[:, 1],
        dright.mul_(x.before),
        written,
        sums,
        dstate.mul_(piece.inner),
    )


def adjacent_pairs(drows: Tensor) -> Float[Tensor, "B 2 C 1"]:
    """Take the entries (i, i - 1) out of two squares side by side."""
    entries = drows.unflatten(2, (2, -1)).diagonal(-1, dim1=1, dim2=3)
    taken = entries[..., None].clone()
    entries.zero_()
    return taken


def _last_tokens(dstacked: Tensor) -> Float[Tensor, "B 2 1 n"]:
    """Take the rows of the last token out of two blocks of C rows."""
    rows = dstacked.unflatten(1, (2, -1))[:, :, -1:]
    taken = rows.clone()
    rows.zero_()
    return taken


def _but_last(rows: Tensor) -> Tensor:
    """The rows of all tokens but the last, of two blocks of C rows."""
    return rows.unflatten(1, (2, -1))[:, :, :-1].flatten(1, 2)


rank_one_kernel = scan_kernel("chunked_rank_one", _Group)
