r"""Linear readout, A_t = exp(g_t) (I - beta_t z_t z_t^T) with a direction z of its own.

With w_t = beta_t (e^{g_t} S_{t-1})^T z_t, what is erased, the state changes by two outer products
per token, S_t = e^{g_t} S_{t-1} + b_t k_t v_t^T - z_t w_t^T. Stacking columns, K' = [K; Z] and V'
= [b V; -W], a chunk is again scalar.py's scan (c, D and S as there):

    (I + tril(beta (Z Z^T) * D, -1)) W = beta (Z e^c) S + tril(beta (Z K^T) * D, -1) (b V)
    O  = ((Q K'^T) * D) V' + (Q e^c) S
    S <- e^{c_C} S + (K' e^{c_C - c})^T V'
"""

from __future__ import annotations

from typing import NamedTuple

import torch

from coefdyn.execution.chunked.householder import solve_lower, solve_upper
from coefdyn.execution.chunked.operators import Kernel
from coefdyn.execution.chunked.scalar import (
    causal_scores,
    next_state,
    output_shapes,
    scan_backward,
    tile_bytes,
    write_factor,
)
from coefdyn.execution.chunked.tiles import (
    ChunkDecay,
    Decay,
    batch_groups,
    chunk_bounds,
    cut,
    scaled,
    steady_chunk,
    suffix_sums,
)
from coefdyn.shapes import Tensor

__all__ = ["householder_general_kernel"]


class _Chunk(NamedTuple):
    """[K; Z], b V, Z, beta, the doubled decay, and the erase rows beta (Z [K; Z]^T) * D."""

    kz: Tensor
    written: Tensor
    z: Tensor
    beta: Tensor
    decay: Decay
    rows: Tensor


class _Group:
    """The inputs of one group of batch entries, cut into chunks."""

    def __init__(self, group, k, v, z, beta, weight, log_decay, chunk, scale) -> None:
        self.k, self.v, self.z, self.beta = k[group], v[group], z[group], beta[group, :, None]
        self.weight, self.scale = cut(weight, group), scale
        g = torch.zeros_like(beta[group]) if log_decay is None else log_decay[group]
        self.decays = ChunkDecay(g, chunk, k.dtype)

    def factor(self, start: int, stop: int) -> Tensor | float | None:
        """b_j of one chunk."""
        return write_factor(self.weight, self.scale, start, stop)

    def chunk(self, start: int, stop: int) -> _Chunk:
        here = (slice(None), slice(start, stop))
        z, beta, decay = self.z[here], self.beta[here], self.decays(start, stop)
        doubled = decay._replace(
            pairs=torch.cat([decay.pairs, decay.pairs], 2), fade=torch.cat([decay.fade] * 2, 1)
        )
        kz = torch.cat([self.k[here], z], 1)
        rows = torch.bmm(z * beta, kz.transpose(1, 2)).mul_(doubled.pairs)
        rows[:, :, : stop - start].tril_(-1)
        return _Chunk(kz, scaled(self.v[here], self.factor(start, stop)), z, beta, doubled, rows)


def stacked_values(c: _Chunk, state: Tensor | None) -> Tensor:
    """V' = [b V; -W]."""
    size = c.z.shape[1]
    right = torch.bmm(c.rows[:, :, :size], c.written)
    if state is not None:
        right.baddbmm_(c.z * (c.beta * c.decay.reach), state)
    erased = solve_lower(c.rows[:, :, size:], right)
    return torch.cat([c.written, -erased], 1)


def forward(
    q, k, v, z, beta, weight, log_decay, state, chunk: int, scale: float
) -> tuple[Tensor, Tensor]:
    """(O, state after the last token)."""
    chunk = steady_chunk(log_decay, z, beta, chunk)
    out = torch.empty_like(v)
    final = v.new_empty(q.shape[0], q.shape[-1], v.shape[-1])
    for group in batch_groups(q.shape[0], tile_bytes(q, v, chunk)):
        inputs = _Group(group, k, v, z, beta, weight, log_decay, chunk, scale)
        s = cut(state, group)
        for start, stop in chunk_bounds(q.shape[1], chunk):
            c = inputs.chunk(start, stop)
            qt = q[group, start:stop]
            values = stacked_values(c, s)
            tile = torch.bmm(causal_scores(qt, c.kz, c.decay), values)
            if s is not None:
                tile.baddbmm_(qt * c.decay.reach, s)
            out[group, start:stop] = tile
            s = next_state(c.kz, values, s, c.decay)
        final[group] = s
    return out, final


def _states(inputs: _Group, state: Tensor | None, bounds: list[tuple[int, int]]) -> list:
    """(state at the start, V') of every chunk, and the state after the last."""
    path = []
    for start, stop in bounds:
        c = inputs.chunk(start, stop)
        values = stacked_values(c, state)
        path.append((state, values))
        state = next_state(c.kz, values, state, c.decay)
    return [*path, (state, None)]


def backward(
    q,
    k,
    v,
    z,
    beta,
    weight,
    log_decay,
    state,
    out,
    final,
    grad_out,
    grad_final,
    chunk: int,
    scale: float,
) -> tuple[Tensor | None, ...]:
    """Gradients of (q, k, v, z, beta, weight, log_decay, state)."""
    dq, dk, dv, dz, dbeta = (torch.empty_like(x) for x in (q, k, v, z, beta))
    dweight, dg, dstate = (
        None if x is None else torch.empty_like(x) for x in (weight, log_decay, state)
    )
    chunk = steady_chunk(log_decay, z, beta, chunk)
    bounds = chunk_bounds(q.shape[1], chunk)
    for group in batch_groups(q.shape[0], tile_bytes(q, v, chunk)):
        inputs = _Group(group, k, v, z, beta, weight, log_decay, chunk, scale)
        path = _states(inputs, cut(state, group), bounds)
        ds = grad_final[group]
        for start, stop in reversed(bounds):
            here, size = (group, slice(start, stop)), stop - start
            end = path.pop()[0]
            c = inputs.chunk(start, stop)
            tile = chunk_backward(q[here], c, path[-1][1], grad_out[here], path[-1][0], ds)
            dbeta[here] = along = (c.z * tile.row).sum(-1)
            if dg is not None:
                terms = (q[here] * tile.q).sum(-1).addcmul_(along, c.beta[..., 0])
                columns = (c.kz * tile.kz).sum(-1)
                terms -= columns[:, :size] + columns[:, size:]
                dg[here] = suffix_sums(terms, (end * ds).sum((1, 2)))
            own, qt = tile.own, q[here]
            dq[here] = tile.q.addcmul_(own[:, :size], c.kz[:, :size]).addcmul_(own[:, size:], c.z)
            dk[here] = tile.kz[:, :size].addcmul_(own[:, :size], qt)
            dz[here] = tile.kz[:, size:].addcmul_(own[:, size:], qt) + tile.row * c.beta
            if dweight is not None:
                dweight[here] = (v[here] * tile.written).sum(-1).mul_(scale)
            dv[here] = scaled(tile.written, inputs.factor(start, stop))
            ds = tile.state
        if dstate is not None:
            dstate[group] = ds
    return dq, dk, dv, dz, dbeta, dweight, dg, dstate


class _Gradients(NamedTuple):
    """Gradients of Q, of [K; Z] as written, of Z as the eraser (before beta), of b V, of the state.

    The first two lack the pairs (i, i), whose factors are ``own`` (see ``ScanGradients``).
    """

    q: Tensor
    kz: Tensor
    row: Tensor
    written: Tensor
    state: Tensor
    own: Tensor


def chunk_backward(q, c: _Chunk, values, grad, state, ds) -> _Gradients:
    """Back through one chunk; the erase rows' gradient is tril(R V'^T, -1), R = (I + N)^-T dW."""
    size = c.z.shape[1]
    tile = scan_backward(q, c.kz, values, grad, state, ds, c.decay)
    r = solve_upper(c.rows[:, :, size:], tile.values[:, size:].neg())
    drows = torch.bmm(r, values.transpose(1, 2)).mul_(c.decay.pairs)
    drows[:, :, :size].tril_(-1)
    drows[:, :, size:].tril_(-1)
    row = torch.bmm(drows, c.kz)
    dkz = tile.k.baddbmm_(drows.transpose(1, 2), c.z * c.beta)
    written = torch.baddbmm(tile.values[:, :size], c.rows[:, :, :size].transpose(1, 2), r)
    if state is None:
        return _Gradients(tile.q, dkz, row, written, tile.state, tile.own)
    row += torch.bmm(r, state.transpose(1, 2)) * c.decay.reach
    reader = c.z * (c.beta * c.decay.reach)
    dstate = tile.state.baddbmm_(reader.transpose(1, 2), r)
    return _Gradients(tile.q, dkz, row, written, dstate, tile.own)


householder_general_kernel = Kernel(
    "chunked_householder_general",
    forward,
    backward,
    tensors=("q", "k", "v", "z", "beta", "weight?", "log_decay?", "state?"),
    options=("int chunk", "float scale"),
    shapes=output_shapes,
    outputs=2,
)
