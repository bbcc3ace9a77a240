"""The equation itself, one token at a time. Never optimised: it alone defines correctness.

Run it in float64. The stored keys h_{i,j} of all j <= i are evolved literally, eq. 3a; only a
growth common to all directions is summed in the log, so that long products stay finite.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

import torch

from coefdyn.dynamics import readout as readouts
from coefdyn.dynamics.coefficients import CoefficientDynamics
from coefdyn.dynamics.readout import FeatureMap, Pointwise
from coefdyn.execution.restrictions import allowed
from coefdyn.execution.rows import Rows, normalize, read
from coefdyn.execution.state import Stored, is_weighted
from coefdyn.shapes import Float, Tensor

__all__ = ["apply", "coefficients", "states"]


def nothing_stored(dynamics: CoefficientDynamics, batch: tuple[int, ...]) -> Stored:
    """State before the first token."""
    vectors = dynamics.q.new_zeros(*batch, 0, dynamics.key_dim)
    weighted = is_weighted(dynamics)
    logs = vectors[..., 0]
    outer = logs if dynamics.outer_log_decay is not None else None
    return Stored(vectors, logs.double() if weighted else None, outer)


def advance(dynamics: CoefficientDynamics, stored: Stored, i: int) -> Stored:
    """One step of eq. 3a-3b: every stored key evolves by A_i, then b_i k_i is written."""
    growth, log_b = dynamics.evolution.common_log_decay, dynamics.log_scaling
    batch, past = stored.vectors.shape[:-2], stored.vectors.shape[-2]
    h = dynamics.evolution.rotate(stored.vectors, i).expand(*batch, past, dynamics.key_dim)
    key = dynamics.scaled_keys()[..., i : i + 1, :].expand(*batch, 1, dynamics.key_dim)
    h = torch.cat([h, key], dim=-2)
    w = stored.log_weights
    if w is not None:
        w = w if growth is None else w + growth[..., i, None]
        written = torch.zeros_like(key[..., 0]) if log_b is None else log_b[..., i, None]
        w = torch.cat([w, written.double().expand(*batch, 1)], dim=-1)
        h, w = lifted(h, w)
    outer = stored.outer
    if outer is not None:
        outer = outer + cast(Tensor, dynamics.outer_log_decay)[..., i, None]
        outer = torch.cat([outer, torch.zeros_like(key[..., 0])], dim=-1)
    return Stored(h, w, outer)


def lifted(h: Tensor, w: Tensor) -> tuple[Tensor, Tensor]:
    """The same h exp(w), with no vector so small that the dtype loses it while w grows.

    A vector of length 0 stays as it is: no factor makes it larger, and its gradient is exp(w).
    """
    smallest = torch.finfo(h.dtype).tiny ** 0.25
    size = h.detach().abs().amax(dim=-1)  # squares of small numbers are 0
    small = (size < smallest) & (size > 0)
    unit = 1 / size.clamp(min=torch.finfo(h.dtype).tiny)
    factor = torch.where(small, unit, torch.ones_like(size))
    return h * factor[..., None], w - factor.log()


def evolve(dynamics: CoefficientDynamics) -> Iterator[Stored]:
    """Yield the stored keys at i = 0, 1, ..., L - 1."""
    stored = nothing_stored(dynamics, dynamics.batch_shape)
    for i in range(dynamics.length):
        stored = advance(dynamics, stored, i)
        yield stored


def read_row(dynamics: CoefficientDynamics, stored: Stored, i: int) -> Rows:
    """alpha_{i,j} = phi(q_i^T h_{i,j}) for all j <= i (eq. 3c)."""
    q = dynamics.q[..., i : i + 1, :]
    phi, eta = dynamics.readout, dynamics.normalizer
    w, outer = (None if x is None else x[..., None, :] for x in (stored.log_weights, stored.outer))
    own = None if dynamics.own is None else dynamics.own[..., i : i + 1]
    mask = None
    if dynamics.mask is not None:
        mask = allowed(dynamics, i, i + 1, i + 1 - stored.vectors.shape[-2])
    if isinstance(phi, FeatureMap):
        scores = phi.features(q) @ phi.features(stored.states()).transpose(-1, -2)
        return read(scores, None, mask, readouts.identity, eta, outer, own)
    assert isinstance(phi, Pointwise), f"unknown readout {phi!r}"
    return read(q @ stored.vectors.transpose(-1, -2), w, mask, phi, eta, outer, own)


def coefficients(dynamics: CoefficientDynamics, normalized: bool) -> Float[Tensor, "*batch L L"]:
    """alpha, or alpha / eta, row by row; zeros above the diagonal."""
    rows = []
    for i, stored in enumerate(evolve(dynamics)):
        row, offset = read_row(dynamics, stored, i)
        if normalized:
            eta = dynamics.normalizer.narrow(i, 1)
            row = normalize(row, row.sum(-1, keepdim=True), offset, eta)
        rows.append(torch.nn.functional.pad(row, (0, dynamics.length - 1 - i)))
    return torch.cat(rows, dim=-2)


def apply(dynamics: CoefficientDynamics, v: Float[Tensor, "*#batch L dv"]) -> Tensor:
    """y_i = (1/eta_i) sum_{j <= i} alpha_{i,j} v_j (eq. 2)."""
    outputs = []
    for i, stored in enumerate(evolve(dynamics)):
        row, offset = read_row(dynamics, stored, i)
        weights = normalize(
            row, row.sum(-1, keepdim=True), offset, dynamics.normalizer.narrow(i, 1)
        )
        outputs.append(weights @ v[..., : i + 1, :])
    return torch.cat(outputs, dim=-2)


def states(dynamics: CoefficientDynamics, j: int) -> Float[Tensor, "*batch rows n"]:
    """h_{i,j} for i = j .. L - 1."""
    if not hasattr(j, "__index__") or not -dynamics.length <= j < dynamics.length:
        raise ValueError(
            f"states(j) needs a position 0 <= j < L = {dynamics.length}, got {j!r} (0-based)."
        )
    j = j % dynamics.length
    path = []
    for i, stored in enumerate(evolve(dynamics)):
        if i >= j:
            path.append(stored.states()[..., j, :])
    return torch.stack(path, dim=-2)
