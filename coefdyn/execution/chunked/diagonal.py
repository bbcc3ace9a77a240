r"""Linear readout, A_t = diag(exp(g_t)): chunked forward and hand-written backward.

Per channel, with l the inclusive sum of g inside a piece of the sequence, T its total and any
anchor a,

    q' = q e^{l - a},   k' = k e^{a - l},   S' = e^a S
    O  = tril(Q' K'^T) V + Q' S',    S <- e^{T - a} (S' + K'^T V)

which is scalar.py's scan without decay. The anchor a = T / 2 halves the exponents; a chunk whose
|l - a| exceeds SAFE nats somewhere (k e^{-l} would overflow) is cut into pieces of 16 tokens, and
these into pieces of 4. A piece still too wide (more than about 15 nats per token) sums its pairs
directly, with float64 exponents and the mask before exp.

Many heads of one value channel go another way: diagonal_tokens.py.

The gradient of l_i is q_i * dq_i - k_i * dk_i per channel, that of g_t its sum over i >= t in the
piece plus the row sums of S_end * dS_end.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import torch

from coefdyn.execution.chunked.scalar import own_pairs, scan_backward
from coefdyn.execution.chunked.scan import Group, scan_kernel
from coefdyn.execution.chunked.tiles import chunk_bounds
from coefdyn.execution.stabilize import RESET
from coefdyn.shapes import Float, Tensor

__all__ = ["SAFE", "anchored_sums", "diagonal_kernel", "pair_scores", "pair_scores_backward"]

#: largest exponent of an anchored factor, in nats; products of two stay below float32's 88
SAFE = 30.0
#: tokens per piece where the decay is too strong for one anchor, tried in this order
SHORTER = (16, 4)


def anchored_sums(g: Float[Tensor, "B C n"]) -> tuple[Tensor, Tensor, bool]:
    """(l - T / 2, T / 2, whether all exponents are safe)."""
    sums = g.cumsum(1)
    half = sums[:, -1:] * 0.5
    sums -= half
    if sums.numel() == 0:
        return sums, half, True
    low, high = sums.aminmax()  # NaN in both where one is
    return sums, half, float(low) >= -SAFE and float(high) <= SAFE


class _Piece(NamedTuple):
    """One piece: its bounds, and e^{l-a} and e^a (wide None), or l in float64 (wide)."""

    start: int
    stop: int
    reach: Tensor | None
    half: Tensor | None
    wide: Tensor | None


def _pieces(
    g: Float[Tensor, "B L n"], start: int, stop: int, sizes: tuple[int, ...]
) -> Iterator[_Piece]:
    """Cut tokens start .. stop - 1 into pieces of sizes[0], and further where that is unsafe."""
    for a, b in chunk_bounds(stop - start, sizes[0]):
        a, b = start + a, start + b
        sums, half, safe = anchored_sums(g[:, a:b])
        if safe:
            yield _Piece(a, b, sums.exp_(), half.exp_(), None)
        elif len(sizes) > 1:
            yield from _pieces(g, a, b, sizes[1:])
        else:
            yield _Piece(a, b, None, None, g[:, a:b].double().clamp(min=RESET).cumsum(1))


def pair_decays(wide: Float[Tensor, "B C n"], dtype: torch.dtype) -> Float[Tensor, "B C C n"]:
    """exp(l_i - l_j), 0 for j > i."""
    gaps = wide[:, :, None] - wide[:, None]
    future = torch.ones(gaps.shape[1:3], dtype=torch.bool, device=wide.device).triu(1)
    return gaps.masked_fill_(future[..., None], -torch.inf).to(dtype).exp_()


def pair_scores(q: Tensor, k: Tensor, pairs: Tensor) -> Float[Tensor, "B C C"]:
    """sum_c q_ic k_jc pairs_ijc."""
    return torch.einsum("bin,bjn,bijn->bij", q, k, pairs)


def pair_scores_backward(q, k, pairs, grad: Float[Tensor, "B C C"]) -> tuple[Tensor, Tensor]:
    """Gradients of q and k."""
    weights = grad[..., None] * pairs
    return (weights * k[:, None]).sum(2), (weights * q[:, :, None]).sum(1)


def piece_forward(q, k, values, state, piece: _Piece) -> tuple[Tensor, Tensor]:
    """(O, S_end) of one piece."""
    if piece.wide is None:
        qa, ka = q * piece.reach, k / piece.reach
        inner = None if state is None else state * piece.half.transpose(1, 2)
        out = torch.bmm(torch.bmm(qa, ka.transpose(1, 2)).tril_(), values)
        written = torch.bmm(ka.transpose(1, 2), values)
        if inner is not None:
            out.baddbmm_(qa, inner)
            written += inner
        return out, written.mul_(piece.half.transpose(1, 2))
    pairs = pair_decays(piece.wide, q.dtype)
    reach, fade, whole = _edges(piece.wide, q.dtype)
    out = torch.bmm(pair_scores(q, k, pairs), values)
    written = torch.bmm((k * fade).transpose(1, 2), values)
    if state is not None:
        out.baddbmm_(q * reach, state)
        written += state * whole
    return out, written


def _edges(wide: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor, Tensor]:
    """e^l, e^{T - l} and e^T as a column for the state's rows."""
    last = wide[:, -1:]
    return wide.exp().to(dtype), (last - wide).exp().to(dtype), last.exp().to(dtype).transpose(1, 2)


class _Gradients(NamedTuple):
    """Of q, k, b V, the sums l (without what lies after the piece) and the first state."""

    q: Tensor
    k: Tensor
    values: Tensor
    sums: Tensor
    state: Tensor


def piece_backward(q, k, values, grad, state, ds, piece: _Piece) -> _Gradients:
    """Back through one piece."""
    if piece.wide is not None:
        return _wide_backward(q, k, values, grad, state, ds, piece.wide)
    half = piece.half.transpose(1, 2)
    qa, ka = q * piece.reach, k / piece.reach
    inner = None if state is None else state * half
    tile = scan_backward(qa, ka, values, grad, inner, ds * half, None)
    sums = (qa * tile.q).sub_(ka * tile.k)
    dq, dk = tile.complete(qa, ka)
    dq, dk = dq.mul_(piece.reach), dk.div_(piece.reach)
    return _Gradients(dq, dk, tile.values, sums, tile.state.mul_(half))


def _wide_backward(q, k, values, grad, state, ds, wide: Tensor) -> _Gradients:
    pairs = pair_decays(wide, q.dtype)
    reach, fade, whole = _edges(wide, q.dtype)
    scores = pair_scores(q, k, pairs)
    dvalues = torch.bmm(scores.transpose(1, 2), grad).baddbmm_(k * fade, ds)
    dscores = torch.bmm(grad, values.transpose(1, 2)).tril_()
    own = own_pairs(dscores)
    dq, dk = pair_scores_backward(q, k, pairs, dscores)
    dk += torch.bmm(values, ds.transpose(1, 2)) * fade
    if state is not None:
        dq += torch.bmm(grad, state.transpose(1, 2)) * reach
    dstate = torch.baddbmm(ds * whole, (q * reach).transpose(1, 2), grad)
    sums = q * dq - k * dk
    return _Gradients(dq.addcmul_(own, k), dk.addcmul_(own, q), dvalues, sums, dstate)


class _Group(Group):
    log_decay_name = "log_decay"

    def pieces(self) -> Iterator[_Piece]:
        sizes = (self.chunk, *(size for size in SHORTER if size < self.chunk))
        return _pieces(self.log_decay, 0, self.log_decay.shape[1], sizes)

    def forward(self, piece: _Piece, state: Tensor | None) -> tuple[Tensor, Tensor]:
        q, k = self.of(piece, "q", "k")
        return piece_forward(q, k, self.written(piece), state, piece)

    def advance(self, piece: _Piece, state: Tensor | None) -> tuple[Tensor, Any]:
        values, (k,) = self.written(piece), self.of(piece, "k")
        if piece.wide is None:
            half = piece.half.transpose(1, 2)
            written = torch.bmm((k / piece.reach).transpose(1, 2), values)
            return (written if state is None else written.addcmul_(state, half)).mul_(half), None
        _, fade, whole = _edges(piece.wide, k.dtype)
        written = torch.bmm((k * fade).transpose(1, 2), values)
        return written if state is None else written.addcmul_(state, whole), None

    def backward(self, piece: _Piece, seen, state, end, grad, ds):
        q, k = self.of(piece, "q", "k")
        tile = piece_backward(q, k, self.written(piece), grad, state, ds, piece)
        after = (end * ds).sum(2)[:, None]
        dg = tile.sums.flip(1).cumsum(1).flip(1).add_(after)
        return {"q": tile.q, "k": tile.k, "v": tile.values, "log_decay": dg}, tile.state


diagonal_kernel = scan_kernel("chunked_diagonal", _Group)
