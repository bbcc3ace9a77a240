r"""Linear readout, A_t = exp(g_t) (I - beta_t z_t z_t^T) with a direction z of its own.

With w_t = beta_t (e^{g_t} S_{t-1})^T z_t, what is erased, the state changes by two outer products
per token, S_t = e^{g_t} S_{t-1} + b_t k_t v_t^T - z_t w_t^T. Stacking columns, K' = [K; Z] and V'
= [b V; -W], a chunk is again scalar.py's scan (c, D and S as there):

    (I + tril(beta (Z Z^T) * D, -1)) W = beta (Z e^c) S + tril(beta (Z K^T) * D, -1) (b V)
    O  = ((Q K'^T) * D) V' + (Q e^c) S
    S <- e^{c_C} S + (K' e^{c_C - c})^T V'
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import torch

from coefdyn.execution.chunked.householder import solve_lower, solve_upper
from coefdyn.execution.chunked.scalar import (
    DecayingGroup,
    next_state,
    scan_backward,
    scan_outputs,
)
from coefdyn.execution.chunked.scan import Piece, scan_kernel
from coefdyn.execution.chunked.tiles import ChunkDecay, Decay, steady_chunk, suffix_sums
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


class _Group(DecayingGroup):
    own = ("z", "beta")

    def __init__(self, tensors: Mapping[str, Any], chunk: int, scale: float) -> None:
        super().__init__(tensors, chunk, scale)
        if self.decays is None:
            self.decays = ChunkDecay(torch.zeros_like(tensors["beta"]), chunk, self.k.dtype)

    @staticmethod
    def steady(tensors: Mapping[str, Any], chunk: int) -> int:
        return steady_chunk(tensors["log_decay"], tensors["z"], tensors["beta"], chunk)

    def _chunk(self, piece: Piece) -> _Chunk:
        k, z, beta = self.of(piece, "k", "z", "beta")
        beta, decay = beta[..., None], self.decays(*piece)
        doubled = decay._replace(
            pairs=torch.cat([decay.pairs, decay.pairs], 2), fade=torch.cat([decay.fade] * 2, 1)
        )
        kz = torch.cat([k, z], 1)
        rows = torch.bmm(z * beta, kz.transpose(1, 2)).mul_(doubled.pairs)
        rows[:, :, : k.shape[1]].tril_(-1)
        return _Chunk(kz, self.written(piece), z, beta, doubled, rows)

    def forward(self, piece: Piece, state: Tensor | None) -> tuple[Tensor, Tensor]:
        (q,) = self.of(piece, "q")
        c = self._chunk(piece)
        values = stacked_values(c, state)
        out = scan_outputs(q, c.kz, values, state, c.decay)
        return out, next_state(c.kz, values, state, c.decay)

    def advance(self, piece: Piece, state: Tensor | None) -> tuple[Tensor, Tensor]:
        c = self._chunk(piece)
        values = stacked_values(c, state)
        return next_state(c.kz, values, state, c.decay), values

    def backward(self, piece: Piece, seen: Tensor, state, end, grad, ds):
        (q,) = self.of(piece, "q")
        c, size = self._chunk(piece), q.shape[1]
        tile = chunk_backward(q, c, seen, grad, state, ds)
        along = (c.z * tile.row).sum(-1)
        found = {"v": tile.written, "beta": along}
        if self.log_decay is not None:
            terms = (q * tile.q).sum(-1).addcmul_(along, c.beta[..., 0])
            columns = (c.kz * tile.kz).sum(-1)
            terms -= columns[:, :size] + columns[:, size:]
            found["log_decay"] = suffix_sums(terms, (end * ds).sum((1, 2)))
        first, second = tile.own[:, :size], tile.own[:, size:]
        found["q"] = tile.q.addcmul_(first, c.kz[:, :size]).addcmul_(second, c.z)
        found["k"] = tile.kz[:, :size].addcmul_(first, q)
        found["z"] = tile.kz[:, size:].addcmul_(second, q) + tile.row * c.beta
        return found, tile.state


def stacked_values(c: _Chunk, state: Tensor | None) -> Tensor:
    """V' = [b V; -W]."""
    size = c.z.shape[1]
    right = torch.bmm(c.rows[:, :, :size], c.written)
    if state is not None:
        right.baddbmm_(c.z * (c.beta * c.decay.reach), state)
    erased = solve_lower(c.rows[:, :, size:], right)
    return torch.cat([c.written, -erased], 1)


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


householder_general_kernel = scan_kernel("chunked_householder_general", _Group)
