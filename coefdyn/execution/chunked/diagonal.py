r"""Linear readout, A_t = diag(exp(g_t)): chunked forward and hand-written backward.

Per channel, with l the inclusive sum of g inside a piece of the sequence, T its total and any
anchor a,

    q' = q e^{l - a},   k' = k e^{a - l},   S' = e^a S
    O  = tril(Q' K'^T) V + Q' S',    S <- e^{T - a} (S' + K'^T V)

which is scalar.py's scan without decay. The anchor a = T / 2 halves the exponents; a chunk whose
|l - a| exceeds SAFE nats somewhere (k e^{-l} would overflow) is cut into pieces of 16 tokens, and
these into pieces of 4 and, beyond about 15 nats per token, into single tokens, whose anchor is T:
nothing is divided by a decay there.

Many heads of one value channel go another way: diagonal_tokens.py.

The gradient of l_i is q_i * dq_i - k_i * dk_i per channel, that of g_t its sum over i >= t in the
piece plus the row sums of S_end * dS_end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch

from coefdyn.execution.chunked.scalar import scan_backward
from coefdyn.execution.chunked.scan import Group, scan_kernel
from coefdyn.execution.chunked.tiles import chunk_bounds, scaled
from coefdyn.shapes import Float, Tensor

__all__ = ["SAFE", "AnchoredPiece", "anchored_pieces", "anchored_sums", "diagonal_kernel"]

#: largest exponent of an anchored factor, in nats; products of two stay below float32's 88
SAFE = 30.0
#: tokens per piece where the decay is too strong for one anchor, tried in this order
SHORTER = (16, 4, 1)


def anchored_sums(g: Float[Tensor, "B C n"]) -> tuple[Tensor, Tensor, bool]:
    """(l - T / 2, T / 2, whether all exponents are safe)."""
    sums = g.cumsum(1)
    half = sums[:, -1:] * 0.5
    sums -= half
    if sums.numel() == 0:
        return sums, half, True
    low, high = sums.aminmax()  # NaN in both where one is
    return sums, half, float(low) >= -SAFE and float(high) <= SAFE


class AnchoredPiece(NamedTuple):
    """One piece: its bounds, and e^{l - a}, e^a and e^{T - a}; None for 1."""

    start: int
    stop: int
    reach: Tensor | None
    inner: Tensor
    outer: Tensor | None


def anchored_pieces(
    g: Float[Tensor, "B L n"],
    chunk: int,
    fits: Callable[[slice], bool] = lambda tokens: True,
) -> Iterator[AnchoredPiece]:
    """The sequence in pieces of ``chunk`` tokens, and of shorter ones where exponents are not safe
    or tokens do not ``fit``; a single token always does."""
    shorter = tuple(size for size in SHORTER if size < chunk)
    return _pieces(g, 0, g.shape[1], (chunk, *shorter), fits)


def _pieces(
    g: Tensor, start: int, stop: int, sizes: tuple[int, ...], fits: Callable[[slice], bool]
) -> Iterator[AnchoredPiece]:
    """Cut tokens start .. stop - 1 into pieces of sizes[0], and further where that is needed."""
    for a, b in chunk_bounds(stop - start, sizes[0]):
        a, b = start + a, start + b
        if b - a == 1:
            yield AnchoredPiece(a, b, None, g[:, a:b].exp().mT, None)
            continue
        sums, half, safe = anchored_sums(g[:, a:b])
        if safe and fits(slice(a, b)):
            edge = half.exp_().mT
            yield AnchoredPiece(a, b, sums.exp_(), edge, edge)
        else:
            yield from _pieces(g, a, b, sizes[1:], fits)


class _Group(Group):
    log_decay_name = "log_decay"

    def pieces(self) -> Iterator[AnchoredPiece]:
        return anchored_pieces(self.log_decay, self.chunk)

    def _keys(self, piece: AnchoredPiece) -> Tensor:
        """K'."""
        (k,) = self.of(piece, "k")
        return k if piece.reach is None else k / piece.reach

    def _queries(self, piece: AnchoredPiece) -> Tensor:
        """Q'."""
        (q,) = self.of(piece, "q")
        return scaled(q, piece.reach)

    def forward(self, piece: AnchoredPiece, state: Tensor | None) -> tuple[Tensor, Tensor]:
        q, k, values = self._queries(piece), self._keys(piece), self.written(piece)
        out = torch.bmm(torch.bmm(q, k.transpose(1, 2)).tril_(), values)
        end = torch.bmm(k.transpose(1, 2), values)
        if state is not None:
            inner = state * piece.inner
            out.baddbmm_(q, inner)
            end += inner
        return out, scaled(end, piece.outer)

    def advance(self, piece: AnchoredPiece, state: Tensor | None) -> tuple[Tensor, Any]:
        end = torch.bmm(self._keys(piece).transpose(1, 2), self.written(piece))
        end = end if state is None else end.addcmul_(state, piece.inner)
        return scaled(end, piece.outer), None

    def backward(self, piece: AnchoredPiece, seen, state, end, grad, ds):
        q, k = self._queries(piece), self._keys(piece)
        inner = None if state is None else state * piece.inner
        outer = scaled(ds, piece.outer)
        tile = scan_backward(q, k, self.written(piece), grad, inner, outer, None)
        sums = (q * tile.q).sub_(k * tile.k)
        dq, dk = tile.complete(q, k)
        if piece.reach is not None:
            dq, dk = dq.mul_(piece.reach), dk.div_(piece.reach)
        dg = sums.flip(1).cumsum(1).flip(1).add_((end * ds).sum(2)[:, None])
        found = {"q": dq, "k": dk, "v": tile.values, "log_decay": dg}
        return found, tile.state.mul_(piece.inner)


diagonal_kernel = scan_kernel("chunked_diagonal", _Group)
