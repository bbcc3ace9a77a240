"""The whole L x L matrix at once: any readout with any evolution, O(L^2) memory.

Scores come as ``scores * exp(log_weights)``; the common growth of A_t stays in the log.
"""

from __future__ import annotations

import torch

from coefdyn.dynamics.coefficients import CoefficientDynamics
from coefdyn.dynamics.evolution import (
    Diagonal,
    DiagonalPlusRankOne,
    Householder,
    Identity,
    Scalar,
    ScaledHouseholder,
)
from coefdyn.dynamics.normalizer import Normalizer, One
from coefdyn.dynamics.readout import FeatureMap, Pointwise
from coefdyn.execution import reference
from coefdyn.execution.rows import Rows, normalize, read
from coefdyn.shapes import Bool, Float, Tensor

__all__ = ["apply", "coefficients"]

#: rows per block of the diagonal structure
BLOCK = 16


def causal_mask(length: int, device: torch.device) -> Bool[Tensor, "L L"]:
    """True where j <= i."""
    return torch.ones(length, length, dtype=torch.bool, device=device).tril()


def segment_sums(log_decay: Float[Tensor, "*batch L"]) -> Float[Tensor, "*batch L L"]:
    """g_{j+1} + ... + g_i at (i, j), in float64 so that long sums lose nothing when subtracted.

    0 for j >= i: a pair (i, i) has no decay, and its share would only cancel in the gradient of g.
    """
    total = log_decay.double().cumsum(-1)
    return (total[..., :, None] - total[..., None, :]).to(log_decay.dtype).tril(-1)


def flips(sign: Tensor) -> Tensor:
    """s_{j+1} ... s_i at (i, j); signs are +-1, so a quotient is a product."""
    total = sign.cumprod(-1)
    return total[..., :, None] * total[..., None, :]


def diagonal_scores(q: Tensor, k: Tensor, evolution: Diagonal) -> Tensor:
    """sum_c q_ic k_jc exp(g_{j+1,c} + ... + g_{i,c}), by block rows.

    Each block row is anchored at its first position: with decays every exponent is then <= 0 away
    from the diagonal, where k exp(-cumulative sum) alone would overflow.
    """
    total = evolution.log_decay.double().cumsum(-2)
    if evolution.sign is not None:
        sign = evolution.sign.cumprod(-2)
        q, k = q * sign, k * sign
    blocks = []
    for start in range(0, q.shape[-2], BLOCK):
        here = slice(start, min(start + BLOCK, q.shape[-2]))
        anchor = total[..., start : start + 1, :]
        reach = (total[..., here, :] - anchor).to(q.dtype).exp()
        fade = (anchor - total[..., :start, :]).to(q.dtype).exp()
        far = (q[..., here, :] * reach) @ (k[..., :start, :] * fade).transpose(-1, -2)
        gap = (total[..., here, None, :] - total[..., None, here, :]).to(q.dtype)
        causal = causal_mask(gap.shape[-2], q.device)[..., None]
        near = gap.masked_fill(~causal, -torch.inf).exp()
        near = (q[..., here, None, :] * k[..., None, here, :] * near).sum(-1)
        rest = q.shape[-2] - here.stop
        batch = torch.broadcast_shapes(far.shape[:-2], near.shape[:-2])
        row = torch.cat(
            [far.expand(*batch, *far.shape[-2:]), near.expand(*batch, *near.shape[-2:])], -1
        )
        blocks.append(torch.nn.functional.pad(row, (0, rest)))
    return torch.cat(blocks, dim=-2)


def householder_scores(q: Tensor, k: Tensor, z: Tensor, beta: Tensor) -> Tensor:
    """q_i^T (I - beta_i z_i z_i^T) ... (I - beta_{j+1} z_{j+1} z_{j+1}^T) k_j by a triangular
    solve.

    The erased amounts u_{t,j} solve
    (I + tril(diag(beta) Z Z^T, -1)) U = tril(diag(beta) Z K^T, -1).
    """
    zt = z.transpose(-1, -2)
    overlap = (beta[..., None] * (z @ zt)).tril(-1)
    erased = (beta[..., None] * (z @ k.transpose(-1, -2))).tril(-1)
    batch = torch.broadcast_shapes(overlap.shape[:-2], erased.shape[:-2])
    size = overlap.shape[-2:]
    erased = torch.linalg.solve_triangular(
        overlap.expand(*batch, *size), erased.expand(*batch, *size), upper=False, unitriangular=True
    )
    return q @ k.transpose(-1, -2) - (q @ zt).tril() @ erased


def rank_one_scores(q: Tensor, k: Tensor, evolution: DiagonalPlusRankOne) -> Tensor:
    """q_i^T A_i ... A_{j+1} k_j for A_t = diag(d_t) - left_t right_t^T by a triangular solve.

    With D(a, b)_ij = a_i^T diag(d_i ... d_{j+1}) b_j and right moved one token earlier (it reads
    the state before its own token), the erased amounts solve
    (I + tril(D(right, left), -1)) U = tril(D(right, k), -1); the scores are D(q, k) - D(q, left) U.
    """
    left, right, decay = evolution.left, evolution.right, evolution.diagonal_part()
    early = torch.nn.functional.pad(right[..., 1:, :], (0, 0, 0, 1))

    def one_later(rows: Tensor) -> Tensor:
        return torch.nn.functional.pad(rows[..., :-1, :], (0, 0, 1, 0)).tril(-1)

    overlap = one_later(diagonal_scores(early, left, decay))
    erased = one_later(diagonal_scores(early, k, decay))
    batch = torch.broadcast_shapes(overlap.shape[:-2], erased.shape[:-2])
    size = overlap.shape[-2:]
    erased = torch.linalg.solve_triangular(
        overlap.expand(*batch, *size), erased.expand(*batch, *size), upper=False, unitriangular=True
    )
    return diagonal_scores(q, k, decay) - diagonal_scores(q, left, decay).tril() @ erased


def scores(dynamics: CoefficientDynamics) -> tuple[Tensor, Tensor | None]:
    """(scores, log weights) of all pairs; entries above the diagonal are arbitrary."""
    q, k, evolution = dynamics.q, dynamics.scaled_keys(), dynamics.evolution
    growth, log_b = evolution.common_log_decay, dynamics.log_scaling
    match evolution:
        case Identity() | Scalar():
            pairs = q @ k.transpose(-1, -2)
        case Diagonal():
            pairs = diagonal_scores(q, k, evolution)
        case Householder() | ScaledHouseholder():
            pairs = householder_scores(q, k, evolution.direction, evolution.beta)
        case DiagonalPlusRankOne():
            pairs = rank_one_scores(q, k, evolution)
        case _:
            pairs = (all_states(dynamics) @ q[..., :, :, None])[..., 0]
    if isinstance(evolution, (Scalar, ScaledHouseholder)) and evolution.sign is not None:
        pairs = pairs * flips(evolution.sign)
    log_weights = None if growth is None else segment_sums(growth)
    if log_b is not None:
        log_weights = (
            log_b[..., None, :] if log_weights is None else log_weights + log_b[..., None, :]
        )
    return pairs, None if log_weights is None else log_weights.expand(
        *log_weights.shape[:-2], *pairs.shape[-2:]
    )


def all_states(dynamics: CoefficientDynamics) -> Float[Tensor, "*batch L L n"]:
    """vectors of h_{i,j} without their log weights, zeros for j > i (dense A_t, feature maps)."""
    rows = []
    for i, stored in enumerate(reference.evolve(dynamics)):
        rows.append(torch.nn.functional.pad(stored.vectors, (0, 0, 0, dynamics.length - 1 - i)))
    return torch.stack(rows, dim=-3)


def feature_values(dynamics: CoefficientDynamics, psi: FeatureMap, mask: Tensor) -> Tensor:
    """psi(q_i)^T psi(h_{i,j})."""
    growth, log_b = dynamics.evolution.common_log_decay, dynamics.log_scaling
    if isinstance(dynamics.evolution, Identity):
        k = dynamics.scaled_keys()
        k = k if log_b is None else k * log_b.exp()[..., None]
        values = psi.features(dynamics.q) @ psi.features(k).transpose(-1, -2)
        return values.masked_fill(~mask, 0.0)
    h = all_states(dynamics)
    log_weights = None if growth is None else segment_sums(growth)
    if log_b is not None:
        log_weights = (
            log_b[..., None, :] if log_weights is None else log_weights + log_b[..., None, :]
        )
    if log_weights is not None:
        h = h * log_weights.masked_fill(~mask, -torch.inf).exp()[..., None]
    values = (psi.features(h) @ psi.features(dynamics.q)[..., :, :, None])[..., 0]
    return values.masked_fill(~mask, 0.0)


def _rows(dynamics: CoefficientDynamics, normalizer: Normalizer) -> Rows:
    mask = causal_mask(dynamics.length, dynamics.device)
    phi = dynamics.readout
    if isinstance(phi, FeatureMap):
        return Rows(feature_values(dynamics, phi, mask), None)
    assert isinstance(phi, Pointwise), f"unknown readout {phi!r}"
    pairs, log_weights = scores(dynamics)
    return read(pairs, log_weights, mask, phi, normalizer)


def coefficients(dynamics: CoefficientDynamics, normalized: bool) -> Float[Tensor, "*batch L L"]:
    """alpha, or alpha / eta; exact zeros above the diagonal."""
    eta = dynamics.normalizer if normalized else One()
    rows = _rows(dynamics, eta)
    return normalize(rows.values, rows.values.sum(-1, keepdim=True), rows.offset, eta)


def apply(dynamics: CoefficientDynamics, v: Tensor) -> Tensor:
    """y from the whole matrix; eta divides after the product, d_v numbers per row instead of L."""
    eta = dynamics.normalizer
    rows = _rows(dynamics, eta)
    return normalize(rows.values @ v, rows.values.sum(-1, keepdim=True), rows.offset, eta)
