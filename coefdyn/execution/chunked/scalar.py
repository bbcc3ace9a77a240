r"""Linear readout, A_t = exp(g_t) I or I: chunked forward and hand-written backward.

With c the inclusive sum of g inside a chunk, D_ij = exp(c_i - c_j) for j <= i, and S the state at
the chunk's start (rows n, columns d_v):

    O  = ((Q K^T) * D) (b V) + e^c (Q S)
    S <- e^{c_C} S + K^T (e^{c_C - c} b V)

The gradient of c_i is q_i . dq_i - k_i . dk_i, and that of g_t its sum over i >= t inside the
chunk plus <S_end, dS_end>, which stands for everything after the chunk.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import torch

from coefdyn.execution.chunked.scan import Group, Piece, scan_kernel
from coefdyn.execution.chunked.tiles import ChunkDecay, Decay, chunk_bounds, suffix_sums
from coefdyn.shapes import Tensor

__all__ = [
    "DecayingGroup",
    "next_state",
    "own_pairs",
    "scalar_kernel",
    "scan_backward",
    "scan_outputs",
]


def causal_scores(q: Tensor, k: Tensor, decay: Decay | None) -> Tensor:
    """(Q K^T) * D, or its lower triangle without decay; one product where heads share both."""
    if decay is not None and len(q) > 1 and q.stride(0) == 0 == k.stride(0):
        return (q[0] @ k[0].T) * decay.pairs
    scores = torch.bmm(q, k.transpose(1, 2))
    return scores.tril_() if decay is None else scores.mul_(decay.pairs)


def scan_outputs(
    q: Tensor, k: Tensor, values: Tensor, state: Tensor | None, decay: Decay | None
) -> Tensor:
    """O = ((Q K^T) * D) values + e^c (Q S)."""
    out = torch.bmm(causal_scores(q, k, decay), values)
    if state is None:
        return out
    if decay is None:
        return out.baddbmm_(q, state)
    return out.addcmul_(torch.bmm(q, state), decay.reach)


def next_state(k: Tensor, values: Tensor, state: Tensor | None, decay: Decay | None) -> Tensor:
    """e^{c_C} S + K^T (e^{c_C - c} values)."""
    values = values if decay is None else values * decay.fade
    if state is None:
        return torch.bmm(k.transpose(1, 2), values)
    kept = state if decay is None else state * decay.whole
    return torch.baddbmm(kept, k.transpose(1, 2), values)


class DecayingGroup(Group):
    """Batch entries with one decay per token, or none, cut into equal chunks."""

    def __init__(self, tensors: Mapping[str, Any], chunk: int, scale: float) -> None:
        super().__init__(tensors, chunk, scale)
        g = self.log_decay
        self.decays = None if g is None else ChunkDecay(g, chunk, self.k.dtype)

    def pieces(self) -> Iterator[Piece]:
        yield from (Piece(*bounds) for bounds in chunk_bounds(self.v.shape[1], self.chunk))

    def decay(self, piece: Piece) -> Decay | None:
        """That of one chunk."""
        return None if self.decays is None else self.decays(*piece)


class _Group(DecayingGroup):
    def forward(self, piece: Piece, state: Tensor | None) -> tuple[Tensor, Tensor]:
        q, k = self.of(piece, "q", "k")
        values, decay = self.written(piece), self.decay(piece)
        out = scan_outputs(q, k, values, state, decay)
        return out, next_state(k, values, state, decay)

    def advance(self, piece: Piece, state: Tensor | None) -> tuple[Tensor, Any]:
        (k,) = self.of(piece, "k")
        edges = None if self.decays is None else self.decays.edges(*piece)
        return next_state(k, self.written(piece), state, edges), None

    def backward(self, piece: Piece, seen, state, end, grad, ds):
        q, k = self.of(piece, "q", "k")
        tile = scan_backward(q, k, self.written(piece), grad, state, ds, self.decay(piece))
        found = {"v": tile.values}
        if self.log_decay is not None:
            terms = (q * tile.q).sub_(k * tile.k).sum(-1)
            found["log_decay"] = suffix_sums(terms, (end * ds).sum((1, 2)))
        found["q"], found["k"] = tile.complete(q, k)
        return found, tile.state


class ScanGradients(NamedTuple):
    """Gradients of one chunk: of Q, K, the written values, and the state at the chunk's start.

    Those of Q and K lack the pairs (i, i), which no decay touches: in the gradient of the decay
    they would cancel, and their rounding would bury what a strong decay leaves.
    """

    q: Tensor
    k: Tensor
    values: Tensor
    state: Tensor
    own: Tensor

    def complete(self, q: Tensor, k: Tensor) -> tuple[Tensor, Tensor]:
        """The gradients of Q and K, pairs (i, i) included; in place."""
        return self.q.addcmul_(self.own, k), self.k.addcmul_(self.own, q)


def scan_backward(q, k, values, grad, state, ds, decay: Decay | None) -> ScanGradients:
    """Back through O = ((Q K^T) * D) values + e^c (Q S) and the state's update; ds is d S_end."""
    a = causal_scores(q, k, decay)
    da = causal_scores(grad, values, decay)
    own = own_pairs(da)
    dvalues = torch.bmm(a.transpose(1, 2), grad)
    if decay is None:
        dvalues.baddbmm_(k, ds)
        faded, reached, kept = values, grad, ds
    else:
        dvalues.addcmul_(torch.bmm(k, ds), decay.fade)
        faded, reached, kept = values * decay.fade, grad * decay.reach, ds * decay.whole
    dq, dk = torch.bmm(da, k), torch.bmm(faded, ds.transpose(1, 2))
    dk.baddbmm_(da.transpose(1, 2), q)
    if state is not None:
        dq.baddbmm_(reached, state.transpose(1, 2))
    dstate = torch.baddbmm(kept, q.transpose(1, 2), reached)
    return ScanGradients(dq, dk, dvalues, dstate, own)


def own_pairs(dscores: Tensor) -> Tensor:
    """Take the entries (i, i) out of one or two squares side by side: ``(B, C or 2 C, 1)``."""
    diagonal = dscores.unflatten(2, (-1, dscores.shape[1])).diagonal(dim1=1, dim2=3)
    own = diagonal.flatten(1)[..., None].clone()
    diagonal.zero_()
    return own


scalar_kernel = scan_kernel("chunked_scalar", _Group)
