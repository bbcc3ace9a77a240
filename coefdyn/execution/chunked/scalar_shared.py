r"""Linear readout, A_t = exp(g_t) I, heads that share q and k (Mamba-2): chunked, as scalar.py.

With the letters there and heads h side by side, (C, H d_v) where one matrix product serves all,

    O_h = ((Q K^T) * D_h) (b V)_h + e^{c_h} (Q S)_h
    S_h <- e^{c_Ch} S_h + K^T (e^{c_C - c} b V)_h

so Q K^T is one matrix for all heads, and neither q and k nor their gradients exist once per head.
The gradient of c_i is then read off the pairs, without those (i, i), which no decay touches: the
sum of row i less that of column i of dO (b V)^T * D * Q K^T, with what passes through the states.
"""

from __future__ import annotations

from typing import NamedTuple

import torch

from coefdyn.execution.chunked.operators import Kernel
from coefdyn.execution.chunked.scalar import output_shapes, tile_bytes, write_factor
from coefdyn.execution.chunked.tiles import (
    ChunkDecay,
    Decay,
    batch_groups,
    chunk_bounds,
    cut,
    scaled,
    suffix_sums,
)
from coefdyn.shapes import Float, Tensor

__all__ = ["pays", "scalar_shared_kernel"]

#: fewest heads of a group; with less, the products of matrices are too narrow
MANY = 4
#: times as many heads at once as the tiles of ``batch_groups`` would have: one product serves them
HEADS = 2


def pays(groups: int, v: Float[Tensor, "B L dv"]) -> bool:
    """Return whether this is faster than q and k once per head; on a CPU only."""
    return v.device.type == "cpu" and groups > 0 and v.shape[0] // groups >= MANY


class _Chunk(NamedTuple):
    """One chunk of some heads of a group."""

    q: Float[Tensor, "C n"]
    k: Float[Tensor, "C n"]
    values: Float[Tensor, "H C dv"]
    decay: Decay

    def state_after(self, state: Float[Tensor, "n Hdv"] | None) -> Float[Tensor, "n Hdv"]:
        """e^{c_C} S + K^T (e^{c_C - c} b V)."""
        written = side_by_side(self.values, self.decay.fade)
        if state is None:
            return self.k.T @ written
        return faded(state, self.decay).addmm_(self.k.T, written)


class _Heads:
    """Some heads of one group, cut into chunks."""

    def __init__(self, group: int, rows: slice, q, k, v, weight, log_decay, chunk, scale) -> None:
        self.q, self.k, self.v = q[group], k[group], v[rows]
        self.weight, self.scale = cut(weight, rows), scale
        self.decays = ChunkDecay(log_decay[rows], chunk, q.dtype)

    def factor(self, start: int, stop: int) -> Tensor | float | None:
        """b_j of one chunk."""
        return write_factor(self.weight, self.scale, start, stop)

    def chunk(self, start: int, stop: int, pairs: bool = True) -> _Chunk:
        """Of these tokens; without ``pairs`` for passes that only carry the state."""
        here = slice(start, stop)
        values = scaled(self.v[:, here], self.factor(start, stop))
        decay = self.decays(start, stop) if pairs else self.decays.edges(start, stop)
        return _Chunk(self.q[here], self.k[here], values, decay)


def side_by_side(x: Float[Tensor, "H C dv"], factor: Float[Tensor, "H C 1"]) -> Tensor:
    """x * factor as ``(C, H dv)``."""
    out = x.new_empty(x.shape[1], x.shape[0], x.shape[2])
    return torch.mul(x.transpose(0, 1), factor.transpose(0, 1), out=out).flatten(1)


def per_head(x: Float[Tensor, "C Hdv"], heads: int) -> Float[Tensor, "H C dv"]:
    """The inverse of ``side_by_side``, as a view."""
    return x.unflatten(1, (heads, -1)).transpose(0, 1)


def faded(state: Float[Tensor, "n Hdv"], decay: Decay) -> Float[Tensor, "n Hdv"]:
    """e^{c_C} S."""
    return (state.unflatten(1, (decay.whole.shape[0], -1)) * decay.whole.view(-1, 1)).flatten(1)


def _parts(q: Tensor, v: Tensor, chunk: int):
    """(group, batch entries) of some heads whose tiles stay in cache together."""
    heads = v.shape[0] // q.shape[0]
    for group in range(q.shape[0]):
        for some in batch_groups(heads, tile_bytes(q, v, chunk) // HEADS):
            yield group, slice(group * heads + some.start, group * heads + some.stop)


def _flat(state: Float[Tensor, "H n dv"]) -> Float[Tensor, "n Hdv"]:
    return state.transpose(0, 1).flatten(1)


def forward(q, k, v, weight, log_decay, state, chunk: int, scale: float) -> tuple[Tensor, Tensor]:
    """(O, state after the last token); see the module's equations."""
    out = torch.empty_like(v)
    final = v.new_empty(v.shape[0], q.shape[-1], v.shape[-1])
    for group, rows in _parts(q, v, chunk):
        inputs = _Heads(group, rows, q, k, v, weight, log_decay, chunk, scale)
        s = None if state is None else _flat(state[rows])
        for start, stop in chunk_bounds(q.shape[1], chunk):
            c = inputs.chunk(start, stop)
            tile = torch.bmm(c.decay.pairs.mul(c.q @ c.k.T), c.values)
            if s is not None:
                tile.addcmul_(per_head(c.q @ s, len(tile)), c.decay.reach)
            out[rows, start:stop] = tile
            s = c.state_after(s)
        final[rows] = per_head(s, rows.stop - rows.start)
    return out, final


def backward(
    q, k, v, weight, log_decay, state, out, final, grad_out, grad_final, chunk: int, scale: float
) -> tuple[Tensor | None, ...]:
    """Gradients of (q, k, v, weight, log_decay, state); states are computed again."""
    dq, dk = torch.zeros_like(q), torch.zeros_like(k)
    dv, dg = torch.empty_like(v), torch.empty_like(log_decay)
    dweight, dstate = (None if x is None else torch.empty_like(x) for x in (weight, state))
    bounds = chunk_bounds(q.shape[1], chunk)
    for group, rows in _parts(q, v, chunk):
        inputs = _Heads(group, rows, q, k, v, weight, log_decay, chunk, scale)
        path = [None if state is None else _flat(state[rows])]
        for start, stop in bounds:
            path.append(inputs.chunk(start, stop, pairs=False).state_after(path[-1]))
        ds = _flat(grad_final[rows])
        for start, stop in reversed(bounds):
            here, end = (rows, slice(start, stop)), path.pop()
            c = inputs.chunk(start, stop)
            tile = chunk_backward(c, grad_out[here], path[-1], ds)
            dg[here] = suffix_sums(tile.sums, per_head(end * ds, len(tile.sums)).sum((1, 2)))
            dq[group, start:stop] += tile.q
            dk[group, start:stop] += tile.k
            if dweight is not None:
                dweight[here] = (v[here] * tile.values).sum(-1).mul_(scale)
            dv[here] = scaled(tile.values, inputs.factor(start, stop))
            ds = tile.state
        if dstate is not None:
            dstate[rows] = per_head(ds, rows.stop - rows.start)
    return dq, dk, dv, dweight, dg, dstate


class _Gradients(NamedTuple):
    """Of Q, K, b V, the sums c (without what lies after the chunk) and the first state."""

    q: Float[Tensor, "C n"]
    k: Float[Tensor, "C n"]
    values: Float[Tensor, "H C dv"]
    sums: Float[Tensor, "H C"]
    state: Float[Tensor, "n Hdv"]


def chunk_backward(
    c: _Chunk, grad: Float[Tensor, "H C dv"], state: Tensor | None, ds: Float[Tensor, "n Hdv"]
) -> _Gradients:
    """Back through one chunk; ds is the gradient of the state after it."""
    heads, decay, scores = len(grad), c.decay, c.q @ c.k.T
    dscores = torch.bmm(grad, c.values.transpose(1, 2)).mul_(decay.pairs)
    dvalues = torch.bmm(decay.pairs.mul_(scores).transpose(1, 2), grad)
    carried = per_head(c.k @ ds, heads) * decay.fade
    reached, written = side_by_side(grad, decay.reach), side_by_side(c.values, decay.fade)
    common = dscores.sum(0)
    dq, dk = common @ c.k, (common.T @ c.q).addmm_(written, ds.T)
    dscores *= scores
    dscores.diagonal(dim1=1, dim2=2).zero_()
    sums = dscores.sum(2) - dscores.sum(1) - (c.values * carried).sum(-1)
    if state is not None:
        dq.addmm_(reached, state.T)
        sums += (per_head(reached, heads) * per_head(c.q @ state, heads)).sum(-1)
    dstate = faded(ds, decay).addmm_(c.q.T, reached)
    return _Gradients(dq, dk, dvalues.add_(carried), sums, dstate)


scalar_shared_kernel = Kernel(
    "chunked_scalar_shared",
    forward,
    backward,
    tensors=("q", "k", "v", "weight?", "log_decay", "state?"),
    options=("int chunk", "float scale"),
    shapes=output_shapes,
    outputs=2,
)
