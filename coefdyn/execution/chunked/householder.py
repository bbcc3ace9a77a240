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

from collections.abc import Mapping
from typing import Any, NamedTuple

import torch

from coefdyn.execution.chunked.scalar import (
    DecayingGroup,
    next_state,
    scan_backward,
    scan_outputs,
)
from coefdyn.execution.chunked.scan import Piece, scan_kernel
from coefdyn.execution.chunked.tiles import Decay, scaled, steady_chunk, suffix_sums
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


class _Seen(NamedTuple):
    """One chunk and the state at its start, kept from the way there for the way back."""

    k: Tensor
    beta: Tensor
    decay: Decay | None
    system: Tensor
    u: Tensor
    state: Tensor | None


class _Group(DecayingGroup):
    own = ("beta",)

    @staticmethod
    def steady(tensors: Mapping[str, Any], chunk: int) -> int:
        return steady_chunk(tensors["log_decay"], tensors["k"], tensors["beta"], chunk)

    def advance(self, piece: Piece, state: Tensor | None) -> tuple[Tensor, _Seen]:
        k, beta = self.of(piece, "k", "beta")
        beta, decay = beta[..., None], self.decay(piece)
        system = overlaps(k, beta, decay)
        u = pseudo_values(system, k, self.written(piece), beta, state, decay)
        seen = _Seen(k, beta, decay, system, u, state)
        return next_state(k, u, state, decay), seen

    def forward(self, piece: Piece, state: Tensor | None) -> tuple[Tensor, Tensor]:
        (q,) = self.of(piece, "q")
        end, seen = self.advance(piece, state)
        return scan_outputs(q, seen.k, seen.u, state, seen.decay), end

    def backward(self, piece: Piece, seen: _Seen, state, end, grad, ds):
        (q,) = self.of(piece, "q")
        tile = scan_backward(q, seen.k, seen.u, grad, state, ds, seen.decay)
        erase = erase_backward(seen, tile.values)
        torch.add(tile.k, erase.write, out=tile.k)
        along = (seen.k * erase.row).sum(-1)
        found = {"v": erase.values, "beta": along}
        if self.log_decay is not None:
            terms = (q * tile.q).sub_(seen.k * tile.k).sum(-1).addcmul_(along, seen.beta[..., 0])
            found["log_decay"] = suffix_sums(terms, (end * ds).sum((1, 2)))
        found["q"], written = tile.complete(q, seen.k)
        found["k"] = written + erase.row * seen.beta
        return found, tile.state if state is None else tile.state.add_(erase.state)


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


householder_kernel = scan_kernel("chunked_householder", _Group)
