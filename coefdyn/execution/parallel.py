"""The whole L x L matrix at once: any readout with any evolution, O(L^2) memory.

Scores come as ``scores * exp(log_weights)``; the common growth of A_t stays in the log. A linear
readout with an A_t that erases along the key never needs its coefficients: see ``erasing``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import torch
from torch.nn.functional import pad

from coefdyn.dynamics import readout as readouts
from coefdyn.dynamics.coefficients import CoefficientDynamics
from coefdyn.dynamics.evolution import (
    Diagonal,
    DiagonalPlusRankOne,
    Evolution,
    Householder,
    Identity,
    Scalar,
)
from coefdyn.dynamics.normalizer import Normalizer, One
from coefdyn.dynamics.readout import FeatureMap, Pointwise
from coefdyn.execution import reference
from coefdyn.execution.growth import grows, reflects
from coefdyn.execution.inputs import can_read
from coefdyn.execution.problem import decays, finish, flipped_sides, flips, lower, product
from coefdyn.execution.restrictions import allowed
from coefdyn.execution.rows import Rows, averaged, normalize, read
from coefdyn.execution.stabilize import RESET
from coefdyn.execution.state import Stored, has_finite_state
from coefdyn.shapes import Bool, Float, Tensor, broadcast_shapes

__all__ = ["SCORES", "apply", "coefficients"]

#: rows per block of the diagonal structure
BLOCK = 16


def causal_mask(length: int, device: torch.device) -> Bool[Tensor, "L L"]:
    """True where j <= i."""
    return torch.ones(length, length, dtype=torch.bool, device=device).tril()


def split_resets(log_decay: Tensor, dim: int) -> tuple[Tensor, Tensor]:
    """Inclusive sums of g in float64 without full resets, and how many of these came so far.

    A reset may be as large as the dtype (the usual mask value): in one sum with the other decays
    it would take all their digits.
    """
    reset = log_decay < RESET
    return log_decay.double().masked_fill(reset, 0.0).cumsum(dim), reset.cumsum(dim)


def segment_sums(
    log_decay: Float[Tensor, "*batch L"], start: int = 0, stop: int | None = None
) -> Float[Tensor, "*batch rows stop"]:
    """g_{j+1} + ... + g_i at (i, j), in float64 so that long sums lose nothing when subtracted.

    Rows start .. stop - 1, columns 0 .. stop - 1; all by default. -inf across a full reset. 0 for
    j >= i: a pair (i, i) has no decay, and its share would only cancel in the gradient of g.
    """
    total, resets = split_resets(log_decay, -1)
    sums = (total[..., start:stop, None] - total[..., None, :stop]).to(log_decay.dtype)
    if can_read(resets) and not bool(resets.any()):
        return sums.tril(start - 1)
    apart = resets[..., start:stop, None] != resets[..., None, :stop]
    return sums.masked_fill(apart, -torch.inf).tril(start - 1)


def plain_scores(q: Tensor, k: Tensor, evolution: Evolution) -> Tensor:
    """q_i^T k_j: a decay common to all channels is in the log weights."""
    return q @ k.transpose(-1, -2)


def diagonal_scores(q: Tensor, k: Tensor, evolution: Diagonal | DiagonalPlusRankOne) -> Tensor:
    """sum_c q_ic k_jc exp(g_{j+1,c} + ... + g_{i,c}), by block rows."""
    sums = split_resets(evolution.log_decay, -2)
    blocks = []
    for start in range(0, q.shape[-2], BLOCK):
        stop = min(start + BLOCK, q.shape[-2])
        row = diagonal_rows(q, k, sums, start, stop)
        blocks.append(pad(row, (0, q.shape[-2] - stop)))
    return torch.cat(blocks, dim=-2)


def diagonal_rows(
    q: Tensor, k: Tensor, sums: tuple[Tensor, Tensor], start: int, stop: int
) -> Float[Tensor, "*batch rows stop"]:
    """Rows start .. stop - 1, 0 for j > i.

    Anchored at the first row: with decays every exponent is then <= 0 away from the diagonal,
    where k exp(-cumulative sum) alone would overflow.
    """
    total, resets = sums
    here, past = slice(start, stop), slice(0, start)
    at, count = total[..., start : start + 1, :], resets[..., start : start + 1, :]

    def exp(log: Tensor, kept: Tensor) -> Tensor:
        return log.to(q.dtype).masked_fill(~kept, -torch.inf).exp()

    reach = exp(total[..., here, :] - at, resets[..., here, :] == count)
    fade = exp(at - total[..., past, :], resets[..., past, :] == count)
    far = (q[..., here, :] * reach) @ (k[..., past, :] * fade).transpose(-1, -2)
    gap = total[..., here, None, :] - total[..., None, here, :]
    kept = resets[..., here, None, :] == resets[..., None, here, :]
    near = exp(gap, kept & causal_mask(stop - start, q.device)[..., None])
    near = (q[..., here, None, :] * k[..., None, here, :] * near).sum(-1)
    batch = broadcast_shapes(far.shape[:-2], near.shape[:-2])
    return torch.cat([x.expand(*batch, *x.shape[-2:]) for x in (far, near)], -1)


def householder_scores(q: Tensor, k: Tensor, evolution: Householder) -> Tensor:
    """q_i^T (I - beta_i z_i z_i^T) ... (I - beta_{j+1} z_{j+1} z_{j+1}^T) k_j."""
    read, erased = erased_amounts(q, k, evolution)
    return q @ k.transpose(-1, -2) - read.tril() @ erased


def erased_amounts(q: Tensor, k: Tensor, evolution: Householder) -> tuple[Tensor, Tensor]:
    """Q Z^T, and the erased amounts u_{t,j} by a triangular solve:

    (I + tril(diag(beta) Z Z^T, -1)) U = tril(diag(beta) Z K^T, -1).
    """
    z, beta = evolution.direction, evolution.beta[..., None]
    zt = z.transpose(-1, -2)
    overlap = (beta * (z @ zt)).tril(-1)
    return q @ zt, solve(overlap, (beta * (z @ k.transpose(-1, -2))).tril(-1))


def rank_one_scores(q: Tensor, k: Tensor, evolution: DiagonalPlusRankOne) -> Tensor:
    """q_i^T A_i ... A_{j+1} k_j for A_t = diag(d_t) - left_t right_t^T, by a triangular solve."""
    read, erased = rank_one_amounts(q, k, evolution)
    return diagonal_scores(q, k, evolution) - read.tril() @ erased


def rank_one_amounts(q: Tensor, k: Tensor, evolution: DiagonalPlusRankOne) -> tuple[Tensor, Tensor]:
    """D(q, left) and the erased amounts U.

    With D(a, b)_ij = a_i^T diag(d_i ... d_{j+1}) b_j and right moved one token earlier (it reads
    the state before its own token), (I + tril(D(right, left), -1)) U = tril(D(right, k), -1).
    """
    left, right = flipped_sides(evolution)
    early = pad(right[..., 1:, :], (0, 0, 0, 1))

    def one_later(rows: Tensor) -> Tensor:
        return pad(rows[..., :-1, :], (0, 0, 1, 0)).tril(-1)

    overlap = one_later(diagonal_scores(early, left, evolution))
    return diagonal_scores(q, left, evolution), solve(
        overlap, one_later(diagonal_scores(early, k, evolution))
    )


def solve(system: Tensor, right: Tensor) -> Tensor:
    """(I + tril(system, -1))^-1 right."""
    batch = broadcast_shapes(system.shape[:-2], right.shape[:-2])
    system, right = (x.expand(*batch, *x.shape[-2:]) for x in (system, right))
    return torch.linalg.solve_triangular(system, right, upper=False, unitriangular=True)


#: structure -> scores without the growth common to all channels; any other A_t rotates every key
SCORES: dict[type[Evolution], Callable[[Tensor, Tensor, Any], Tensor]] = {
    Identity: plain_scores,
    Scalar: plain_scores,
    Diagonal: diagonal_scores,
    Householder: householder_scores,
    DiagonalPlusRankOne: rank_one_scores,
}


def scores(dynamics: CoefficientDynamics) -> tuple[Tensor, Tensor | None]:
    """(scores, log weights) of all pairs; entries above the diagonal are arbitrary."""
    run = SCORES.get(type(dynamics.evolution))
    if run is None or grows(dynamics):
        stored = all_stored(dynamics)
        return (stored.vectors @ dynamics.q[..., :, :, None])[..., 0], stored.log_weights
    q, k, sign = dynamics.q, dynamics.scaled_keys(), flips(dynamics.evolution)
    q, k = (q, k) if sign is None else (q * sign, k * sign)
    return run(q, k, dynamics.evolution), pair_log_weights(dynamics)


def pair_log_weights(
    dynamics: CoefficientDynamics, start: int = 0, stop: int | None = None
) -> Float[Tensor, "*batch rows stop"] | None:
    """Log of the decay common to all channels and of exp(log b_j), rows start .. stop - 1.

    None for 0. Their sum is float64: at 5000 nats float32 holds a decay to 5e-4.
    """
    growth, log_b = dynamics.evolution.common_log_decay, dynamics.log_scaling
    log_weights = None if growth is None else segment_sums(growth, start, stop)
    if log_b is None:
        return log_weights
    stop = dynamics.length if stop is None else stop
    log_b = log_b[..., None, :stop].expand(*log_b.shape[:-1], stop - start, stop)
    return log_b if log_weights is None else log_weights.double() + log_b.double()


def outer_sums(
    dynamics: CoefficientDynamics, start: int = 0, stop: int | None = None
) -> Float[Tensor, "*batch rows stop"] | None:
    """Logs of the factors outside phi, c_{j+1} + ... + c_i; None for 0."""
    c = dynamics.outer_log_decay
    return None if c is None else segment_sums(c, start, stop)


def all_stored(dynamics: CoefficientDynamics) -> Stored:
    """h_{i,j} of all pairs, ``(..., L, L, n)``, and their log weights; zeros for j > i."""
    rows, logs = [], []
    for i, stored in enumerate(reference.evolve(dynamics)):
        rest = dynamics.length - 1 - i
        rows.append(pad(stored.vectors, (0, 0, 0, rest)))
        if stored.log_weights is not None:
            logs.append(pad(stored.log_weights, (0, rest)))
    return Stored(torch.stack(rows, dim=-3), torch.stack(logs, dim=-2) if logs else None)


def feature_values(dynamics: CoefficientDynamics, psi: FeatureMap, mask: Tensor) -> Tensor:
    """psi(q_i)^T psi(h_{i,j})."""
    if type(dynamics.evolution) is Identity:
        k, log_b = dynamics.scaled_keys(), dynamics.log_scaling
        k = k if log_b is None else k * log_b.exp()[..., None]
        values = psi.features(dynamics.q) @ psi.features(k).transpose(-1, -2)
        return values.masked_fill(~mask, 0.0)
    values = (
        psi.features(all_stored(dynamics).states()) @ psi.features(dynamics.q)[..., :, :, None]
    )[..., 0]
    return values.masked_fill(~mask, 0.0)


def rows_of(dynamics: CoefficientDynamics, normalizer: Normalizer) -> Rows:
    """All rows at once."""
    mask = allowed(dynamics, 0, dynamics.length)
    phi, outer, own = dynamics.readout, outer_sums(dynamics), dynamics.own
    if isinstance(phi, FeatureMap):
        values = feature_values(dynamics, phi, causal_mask(dynamics.length, dynamics.device))
        return read(values, None, mask, readouts.identity, normalizer, outer, own)
    assert isinstance(phi, Pointwise), f"unknown readout {phi!r}"
    pairs, log_weights = scores(dynamics)
    return read(pairs, log_weights, mask, phi, normalizer, outer, own)


def coefficients(dynamics: CoefficientDynamics, normalized: bool) -> Float[Tensor, "*batch L L"]:
    """alpha, or alpha / eta; exact zeros above the diagonal."""
    eta = dynamics.normalizer if normalized else One()
    rows = rows_of(dynamics, eta)
    return normalize(rows.values, rows.values.sum(-1, keepdim=True), rows.offset, eta)


def apply(dynamics: CoefficientDynamics, v: Tensor) -> Tensor:
    """y from the whole matrix."""
    eta = dynamics.normalizer
    along_key = reflects(dynamics) and cast(Any, dynamics.evolution).direction is dynamics.k
    if along_key and has_finite_state(dynamics) and not grows(dynamics):
        return erasing(dynamics, v)
    return averaged(rows_of(dynamics, eta), v, eta)


def erasing(dynamics: CoefficientDynamics, v: Tensor) -> Tensor:
    """y of a linear readout, A_t = e^{g_t} (I - beta_t k_t k_t^T): O(L^2 (n + d_v)) work.

    With D_ij = e^{g_{j+1} + ... + g_i} for j <= i, what is written less what is erased solves

        (I + tril(beta (K K^T) * D, -1)) U = b V,    O = ((Q K^T) * D) U

    so the system is solved for d_v columns; for the coefficients it would be L.
    """
    problem = lower(dynamics, v, None)
    evolution = cast(Householder, dynamics.evolution)
    weight, scale, shift, _ = problem.gates
    q, k, sign = problem.q, problem.k, flips(evolution)
    q, k = (q, k) if sign is None else (q * sign, k * sign)
    g = decays(evolution, shift, dynamics.dtype)
    mask = causal_mask(dynamics.length, dynamics.device)
    pairs = mask.to(q.dtype) if g is None else segment_sums(g).exp().tril()
    weight = product(weight, None if scale == 1.0 else q.new_tensor(scale))
    written = problem.v if weight is None else problem.v * weight[..., None]
    system = (k @ k.mT).mul(pairs).mul(evolution.beta[..., None]).tril(-1)
    out = ((q @ k.mT) * pairs) @ solve(system, written)
    return finish(dynamics, problem, out, out[..., :1, :])[0]
