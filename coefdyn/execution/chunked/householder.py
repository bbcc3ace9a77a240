r"""Linear readout, A_t = exp(g_t) (I - beta_t k_t k_t^T): the erase direction is the key itself.

The state changes by one outer product per token, S_t = e^{g_t} S_{t-1} + k_t u_t^T, with the
pseudo-values

    u_t = b_t v_t - beta_t (e^{g_t} S_{t-1})^T k_t.

Inside a chunk (c, D and S as in ``scalar.py``) they solve a unit lower triangular system, by
forward substitution:

    (I + N) U = b V - beta (K e^c) S,   N = tril(beta (K K^T) * D, -1)
    O  = ((Q K^T) * D) U + (Q e^c) S
    S <- e^{c_C} S + (K e^{c_C - c})^T U

This is scalar.py's scan with U in the place of b V. Any b: DeltaNet's b = beta is not assumed.
"""

from __future__ import annotations

from typing import NamedTuple

import torch

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

__all__ = ["householder_kernel", "solve_lower", "solve_upper"]


def solve_lower(system: Tensor, right: Tensor) -> Tensor:
    """(I + tril(system, -1))^-1 right by forward substitution; the rest of system is not read."""
    return torch.linalg.solve_triangular(system, right, upper=False, unitriangular=True)


def solve_upper(system: Tensor, right: Tensor) -> Tensor:
    """(I + tril(system, -1))^-T right by back substitution."""
    return torch.linalg.solve_triangular(
        system.transpose(1, 2), right, upper=True, unitriangular=True
    )


def overlaps(k: Tensor, beta: Tensor, decay: Decay | None) -> Tensor:
    """beta_i (k_i . k_j) D_ij; only its strictly lower part is meant."""
    system = torch.bmm(k * beta, k.transpose(1, 2))
    return system if decay is None else system.mul_(decay.pairs)


def pseudo_values(system, k, values, beta, state, decay) -> Tensor:
    """U of one chunk."""
    if state is not None:
        erased = scaled(k * beta, None if decay is None else decay.reach)
        values = torch.baddbmm(values, erased, state, alpha=-1)
    return solve_lower(system, values)


class _Group:
    """The inputs of one group of batch entries, cut into chunks."""

    def __init__(self, group, k, v, beta, weight, log_decay, chunk, scale) -> None:
        self.k, self.v, self.beta = k[group], v[group], beta[group, :, None]
        self.weight, self.scale = cut(weight, group), scale
        g = cut(log_decay, group)
        self.decays = None if g is None else ChunkDecay(g, chunk, k.dtype)

    def chunk(self, start: int, stop: int) -> tuple[Tensor, Tensor, Tensor, Decay | None]:
        """(K, b V, beta, decay)."""
        here = (slice(None), slice(start, stop))
        decay = None if self.decays is None else self.decays(start, stop)
        values = scaled(self.v[here], self.factor(start, stop))
        return self.k[here], values, self.beta[here], decay

    def factor(self, start: int, stop: int) -> Tensor | float | None:
        """b_j of one chunk."""
        return write_factor(self.weight, self.scale, start, stop)


def forward(
    q, k, v, beta, weight, log_decay, state, chunk: int, scale: float
) -> tuple[Tensor, Tensor]:
    """(O, state after the last token)."""
    chunk = steady_chunk(log_decay, k, beta, chunk)
    out = torch.empty_like(v)
    final = v.new_empty(q.shape[0], q.shape[-1], v.shape[-1])
    for group in batch_groups(q.shape[0], tile_bytes(q, v, chunk)):
        inputs = _Group(group, k, v, beta, weight, log_decay, chunk, scale)
        s = cut(state, group)
        for start, stop in chunk_bounds(q.shape[1], chunk):
            kt, values, bt, decay = inputs.chunk(start, stop)
            qt = q[group, start:stop]
            u = pseudo_values(overlaps(kt, bt, decay), kt, values, bt, s, decay)
            tile = torch.bmm(causal_scores(qt, kt, decay), u)
            if s is not None:
                tile.baddbmm_(scaled(qt, None if decay is None else decay.reach), s)
            out[group, start:stop] = tile
            s = next_state(kt, u, s, decay)
        final[group] = s
    return out, final


class _Seen(NamedTuple):
    """One chunk and the state at its start, kept from the way there for the way back."""

    k: Tensor
    beta: Tensor
    decay: Decay | None
    system: Tensor
    u: Tensor
    state: Tensor | None


def _seen(
    inputs: _Group, state: Tensor | None, bounds: list[tuple[int, int]]
) -> tuple[list[_Seen], Tensor | None]:
    """Every chunk, and the state after the last."""
    path = []
    for start, stop in bounds:
        kt, values, bt, decay = inputs.chunk(start, stop)
        system = overlaps(kt, bt, decay)
        u = pseudo_values(system, kt, values, bt, state, decay)
        path.append(_Seen(kt, bt, decay, system, u, state))
        state = next_state(kt, u, state, decay)
    return path, state


def backward(
    q,
    k,
    v,
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
    """Gradients of (q, k, v, beta, weight, log_decay, state)."""
    dq, dk, dv, dbeta = (torch.empty_like(x) for x in (q, k, v, beta))
    dweight, dg, dstate = (
        None if x is None else torch.empty_like(x) for x in (weight, log_decay, state)
    )
    chunk = steady_chunk(log_decay, k, beta, chunk)
    bounds = chunk_bounds(q.shape[1], chunk)
    for group in batch_groups(q.shape[0], tile_bytes(q, v, chunk)):
        inputs = _Group(group, k, v, beta, weight, log_decay, chunk, scale)
        path, end = _seen(inputs, cut(state, group), bounds)
        ds = grad_final[group]
        for start, stop in reversed(bounds):
            here = (group, slice(start, stop))
            seen = path.pop()
            kt, bt, decay, u, s = seen.k, seen.beta, seen.decay, seen.u, seen.state
            tile = scan_backward(q[here], kt, u, grad_out[here], s, ds, decay)
            erase = erase_backward(seen, tile.values)
            torch.add(tile.k, erase.write, out=tile.k)
            dbeta[here] = along = (kt * erase.row).sum(-1)
            if dg is not None:
                terms = (q[here] * tile.q).sub_(kt * tile.k).sum(-1).addcmul_(along, bt[..., 0])
                dg[here] = suffix_sums(terms, (end * ds).sum((1, 2)))
            dq[here], written = tile.complete(q[here], kt)
            dk[here] = written + erase.row * bt
            if dweight is not None:
                dweight[here] = (v[here] * erase.values).sum(-1).mul_(scale)
            dv[here] = scaled(erase.values, inputs.factor(start, stop))
            ds = tile.state if s is None else tile.state.add_(erase.state)
            end = s
        if dstate is not None:
            dstate[group] = ds
    return dq, dk, dv, dbeta, dweight, dg, dstate


class Erase:
    """Gradients that pass through the triangular system: see ``erase_backward``."""

    def __init__(self, values, row, write, state) -> None:
        self.values, self.row, self.write, self.state = values, row, write, state


def erase_backward(c: _Seen, du: Tensor) -> Erase:
    """Back through (I + N) U = b V - beta (K e^c) S.

    With R = (I + N)^-T dU: d(b V) = R and dN = -tril(R U^T, -1). ``row`` is the gradient of k as
    the reader of the state, before the factor beta; ``write`` that of k as what was written.
    """
    r = solve_upper(c.system, du)
    dn = torch.bmm(r, c.u.transpose(1, 2)).neg_().tril_(-1)
    if c.decay is not None:
        dn.mul_(c.decay.pairs)
    row, keys = torch.bmm(dn, c.k), c.k * c.beta
    write = torch.bmm(dn.transpose(1, 2), keys)
    if c.state is None:
        return Erase(r, row, write, None)
    reach = None if c.decay is None else c.decay.reach
    read = scaled(torch.bmm(r, c.state.transpose(1, 2)), reach)
    reader = scaled(keys, reach)
    return Erase(r, row.sub_(read), write, torch.bmm(reader.transpose(1, 2), r).neg_())


householder_kernel = Kernel(
    "chunked_householder",
    forward,
    backward,
    tensors=("q", "k", "v", "beta", "weight?", "log_decay?", "state?"),
    options=("int chunk", "float scale"),
    shapes=output_shapes,
    outputs=2,
)
