r"""Linear readout, A_t = exp(g_t) I or I: chunked forward and hand-written backward.

With c the inclusive sum of g inside a chunk, D_ij = exp(c_i - c_j) for j <= i, and S the state at
the chunk's start (rows n, columns d_v):

    O  = ((Q K^T) * D) (b V) + (Q e^c) S
    S <- e^{c_C} S + (K e^{c_C - c})^T (b V)

The gradient of c_i is q_i . dq_i - k_i . dk_i, and that of g_t its sum over i >= t inside the
chunk plus <S_end, dS_end>, which stands for everything after the chunk.
"""

from __future__ import annotations

from typing import NamedTuple

import torch

from coefdyn.execution.chunked.operators import Kernel
from coefdyn.execution.chunked.tiles import (
    ChunkDecay,
    Decay,
    batch_groups,
    chunk_bounds,
    cut,
    scaled,
    suffix_sums,
)
from coefdyn.shapes import Tensor

__all__ = [
    "causal_scores",
    "next_state",
    "own_pairs",
    "scalar_kernel",
    "scan_backward",
    "write_factor",
]


def output_shapes(q: Tensor, k: Tensor, v: Tensor, *rest: Tensor | None) -> tuple:
    """O like v, and the final state (B, n, d_v)."""
    return v.shape, (v.shape[0], q.shape[-1], v.shape[-1])


def tile_bytes(q: Tensor, v: Tensor, chunk: int) -> int:
    """Size of the largest tile of one batch entry."""
    return chunk * max(q.shape[-1], v.shape[-1], chunk) * q.element_size()


def causal_scores(q: Tensor, k: Tensor, decay: Decay | None) -> Tensor:
    """(Q K^T) * D, or its lower triangle without decay."""
    scores = torch.bmm(q, k.transpose(1, 2))
    return scores.tril_() if decay is None else scores.mul_(decay.pairs)


def next_state(k: Tensor, values: Tensor, state: Tensor | None, decay: Decay | None) -> Tensor:
    """e^{c_C} S + (K e^{c_C - c})^T values."""
    faded = k if decay is None else k * decay.fade
    if state is None:
        return torch.bmm(faded.transpose(1, 2), values)
    kept = state if decay is None else state * decay.whole
    return torch.baddbmm(kept, faded.transpose(1, 2), values)


def write_factor(
    weight: Tensor | None, scale: float, start: int, stop: int
) -> Tensor | float | None:
    """b_j = scale * weight_j of one chunk, ``(B, C, 1)``; None for 1."""
    if weight is None:
        return None if scale == 1.0 else scale
    return weight[:, start:stop, None] * scale


class _Group:
    """The inputs of one group of batch entries, cut into chunks."""

    def __init__(self, group, k, v, weight, log_decay, chunk, scale) -> None:
        self.k, self.v = k[group], v[group]
        self.weight, self.scale = cut(weight, group), scale
        g = cut(log_decay, group)
        self.decays = None if g is None else ChunkDecay(g, chunk, k.dtype)

    def chunk(self, start: int, stop: int) -> tuple[Tensor, Tensor, Decay | None]:
        """(K, b V, decay)."""
        decay = None if self.decays is None else self.decays(start, stop)
        return *self._keys(start, stop), decay

    def factor(self, start: int, stop: int) -> Tensor | float | None:
        """b_j of one chunk."""
        return write_factor(self.weight, self.scale, start, stop)

    def _keys(self, start: int, stop: int) -> tuple[Tensor, Tensor]:
        here = (slice(None), slice(start, stop))
        return self.k[here], scaled(self.v[here], self.factor(start, stop))

    def states(self, state: Tensor | None, bounds: list[tuple[int, int]]) -> list[Tensor | None]:
        """The state at the start of every chunk, and after the last."""
        path = [state]
        for start, stop in bounds:
            decay = None if self.decays is None else self.decays.edges(start, stop)
            path.append(next_state(*self._keys(start, stop), path[-1], decay))
        return path


def forward(q, k, v, weight, log_decay, state, chunk: int, scale: float) -> tuple[Tensor, Tensor]:
    """(O, state after the last token); see the module's equations."""
    out = torch.empty_like(v)
    final = v.new_empty(q.shape[0], q.shape[-1], v.shape[-1])
    for group in batch_groups(q.shape[0], tile_bytes(q, v, chunk)):
        inputs = _Group(group, k, v, weight, log_decay, chunk, scale)
        s = cut(state, group)
        for start, stop in chunk_bounds(q.shape[1], chunk):
            kt, values, decay = inputs.chunk(start, stop)
            qt = q[group, start:stop]
            tile = torch.bmm(causal_scores(qt, kt, decay), values)
            if s is not None:
                tile.baddbmm_(qt if decay is None else qt * decay.reach, s)
            out[group, start:stop] = tile
            s = next_state(kt, values, s, decay)
        final[group] = s
    return out, final


def backward(
    q, k, v, weight, log_decay, state, out, final, grad_out, grad_final, chunk: int, scale: float
) -> tuple[Tensor | None, ...]:
    """Gradients of (q, k, v, weight, log_decay, state); states are recomputed group by group."""
    dq, dk, dv = (torch.empty_like(x) for x in (q, k, v))
    dweight, dg, dstate = (
        None if x is None else torch.empty_like(x) for x in (weight, log_decay, state)
    )
    bounds = chunk_bounds(q.shape[1], chunk)
    for group in batch_groups(q.shape[0], tile_bytes(q, v, chunk)):
        inputs = _Group(group, k, v, weight, log_decay, chunk, scale)
        path = inputs.states(cut(state, group), bounds)
        ds = grad_final[group]
        for start, stop in reversed(bounds):
            here = (group, slice(start, stop))
            end = path.pop()
            kt, values, decay = inputs.chunk(start, stop)
            tile = scan_backward(q[here], kt, values, grad_out[here], path[-1], ds, decay)
            if dg is not None:
                terms = (q[here] * tile.q).sub_(kt * tile.k).sum(-1)
                dg[here] = suffix_sums(terms, (end * ds).sum((1, 2)))
            dq[here], dk[here] = tile.complete(q[here], kt)
            if dweight is not None:
                dweight[here] = (v[here] * tile.values).sum(-1).mul_(scale)
            dv[here] = scaled(tile.values, inputs.factor(start, stop))
            ds = tile.state
        if dstate is not None:
            dstate[group] = ds
    return dq, dk, dv, dweight, dg, dstate


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
    """Back through O = ((Q K^T) * D) values + (Q e^c) S and the state's update; ds is d S_end."""
    a = causal_scores(q, k, decay)
    da = causal_scores(grad, values, decay)
    own = own_pairs(da)
    faded = k if decay is None else k * decay.fade
    dvalues = torch.bmm(a.transpose(1, 2), grad).baddbmm_(faded, ds)
    dq = torch.bmm(da, k)
    dk = torch.bmm(values, ds.transpose(1, 2))
    dk = scaled(dk, None if decay is None else decay.fade).baddbmm_(da.transpose(1, 2), q)
    reached = q if decay is None else q * decay.reach
    if state is not None:
        read = torch.bmm(grad, state.transpose(1, 2))
        dq += scaled(read, None if decay is None else decay.reach)
    kept = scaled(ds, None if decay is None else decay.whole)
    dstate = torch.baddbmm(kept, reached.transpose(1, 2), grad)
    return ScanGradients(dq, dk, dvalues, dstate, own)


def own_pairs(dscores: Tensor) -> Tensor:
    """Take the entries (i, i) out of one or two squares side by side: ``(B, C or 2 C, 1)``."""
    diagonal = dscores.unflatten(2, (-1, dscores.shape[1])).diagonal(dim1=1, dim2=3)
    own = diagonal.flatten(1)[..., None].clone()
    diagonal.zero_()
    return own


scalar_kernel = Kernel(
    "chunked_scalar",
    forward,
    backward,
    tensors=("q", "k", "v", "weight?", "log_decay?", "state?"),
    options=("int chunk", "float scale"),
    shapes=output_shapes,
    outputs=2,
)
