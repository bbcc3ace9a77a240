"""Growth of stored keys, and the time until it overflows (Principle 6)."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch

from coefdyn.analysis.common import check_not_empty
from coefdyn.dynamics.coefficients import CoefficientDynamics
from coefdyn.dynamics.evolution import (
    Diagonal,
    Householder,
    Identity,
    Scalar,
)
from coefdyn.shapes import Float, Tensor

__all__ = ["Stability", "overflow_horizon", "stability"]


@dataclass(frozen=True, kw_only=True)
class Stability:
    """Largest growth of an impulse.

    Every A_t is multiplied by exp(c_t) where the design has an outer decay c: for a linear or ReLU
    readout that is the same design, for any other one c is a growth of the coefficients.

    Attributes:
        largest_norm: max over t >= 1 of the operator norm of A_t. At most 1: no stored key grows,
            whatever the order of the A_t. (The spectral radius gives no such bound.)
        growth_nats: log of the largest growth |h_{i,j}| / |b_j k_j| seen over all i, j.
        growth_rate: mean log growth per token of the first key that is not zero, in nats; the
            largest of all heads. -inf if all of them were erased to exactly zero.
        horizon_tokens: tokens until a score of size 1 that grows at ``growth_rate`` exceeds the
            largest float32; infinite when it does not grow.
    """

    largest_norm: float
    growth_nats: float
    growth_rate: float
    horizon_tokens: float


def overflow_horizon(rate: float, dtype: torch.dtype = torch.float32) -> float:
    """Tokens until exp(rate * tokens) leaves the range of ``dtype``; rate in nats per token."""
    return math.log(torch.finfo(dtype).max) / rate if rate > 0 else math.inf


def operator_norms(evolution: Any, length: int, n: int) -> Float[Tensor, "*#batch L"]:
    """Largest singular value of every A_t in float64 (that of t = 0 is never used)."""
    kind = type(evolution)
    if kind is Identity:
        return torch.ones(length, dtype=torch.float64)
    if kind is Scalar:
        return evolution.log_decay.exp()
    if kind is Diagonal:
        return evolution.log_decay.amax(-1).exp()
    if kind is Householder:
        along = (1 - evolution.beta * evolution.direction.square().sum(-1)).abs()
        along = along if n == 1 else along.clamp(min=1.0)
        g = evolution.log_decay
        return along if g is None else along * g.exp()
    matrices = (evolution.dense(t, n, torch.float64) for t in range(length))
    return torch.stack([_norm(matrix) for matrix in matrices], -1)


def _norm(matrix: Float[Tensor, "*batch n n"]) -> Float[Tensor, "*batch"]:
    """Largest singular value; infinite for a matrix that is not finite."""
    finite = matrix.isfinite().all(-1).all(-1)
    norm = torch.linalg.matrix_norm(matrix.masked_fill(~finite[..., None, None], 0.0), ord=2)
    return norm.masked_fill(~finite, torch.inf)


def growths(dynamics: CoefficientDynamics) -> Iterator[Float[Tensor, "*batch j"]]:
    """log |h_{i,j}| / |b_j k_j| of every j <= i, in nats, for i = 0, 1, ..., L - 1.

    Sizes are kept in the log and directions at length 1 (of a diagonal A_t every channel in the
    log), so that neither growth nor decay leaves the range of float64. NaN for a key of length 0.
    """
    common = [dynamics.evolution.common_log_decay, dynamics.outer_log_decay]
    logs = dynamics.k.new_zeros(*dynamics.batch_shape, dynamics.length)
    turn = _turn_channels if type(dynamics.evolution) is Diagonal else _turn_vectors
    for i, sizes in enumerate(turn(dynamics)):
        for decay in common:
            if decay is not None:
                logs[..., :i] += decay[..., i, None]
        yield logs[..., : i + 1] + sizes


def _turn_channels(dynamics: CoefficientDynamics) -> Iterator[Tensor]:
    """``growths`` of diagonal matrices."""
    channels = _keys(dynamics).abs().log()
    start = (2 * channels).logsumexp(-1)
    for i in range(dynamics.length):
        channels[..., :i, :] += dynamics.evolution.log_decay[..., i, None, :]  # type: ignore[attr-defined]
        yield ((2 * channels[..., : i + 1, :]).logsumexp(-1) - start[..., : i + 1]) / 2


def _turn_vectors(dynamics: CoefficientDynamics) -> Iterator[Tensor]:
    """``growths`` of R_t in A_t = exp(g_t) R_t."""
    keys, evolution = _keys(dynamics), dynamics.evolution
    h = keys / torch.linalg.vector_norm(keys, dim=-1, keepdim=True)
    logs = h[..., 0] * 0.0  # NaN where there is no key
    for i in range(dynamics.length):
        if i and type(evolution) not in (Identity, Scalar):
            turned = evolution.rotate(h[..., :i, :], i)
            top = turned.abs().amax(-1, keepdim=True)  # squares of large numbers leave the range
            turned = turned / top.masked_fill(top == 0, 1.0)
            size = torch.linalg.vector_norm(turned, dim=-1, keepdim=True)
            h[..., :i, :] = turned / size.masked_fill(size == 0, 1.0)
            logs[..., :i] += (top.log() + size.log())[..., 0]
        yield logs[..., : i + 1]


def _keys(dynamics: CoefficientDynamics) -> Tensor:
    """b_j k_j for all leading axes, in memory of their own."""
    keys = dynamics.scaled_keys()
    return keys.expand(*dynamics.batch_shape, *keys.shape[-2:]).clone()


@torch.no_grad()
def stability(dynamics: CoefficientDynamics) -> Stability:
    """Measure operator norms and the growth of every stored key, in float64.

    Raises:
        ValueError: for a batch without sequences.
    """
    check_not_empty("stability", dynamics.batch_shape)
    wide = dynamics.to(torch.float64)
    norms = operator_norms(wide.evolution, wide.length, wide.key_dim)
    if wide.outer_log_decay is not None:
        norms = norms * wide.outer_log_decay.exp()
    written = (wide.scaled_keys() != 0).any(-1).expand(*wide.batch_shape, -1)
    largest, growth = -math.inf, wide.k
    for i, found in enumerate(growths(wide)):  # more than float64 holds in a single step is inf
        growth = found.nan_to_num(nan=torch.inf, posinf=torch.inf, neginf=-torch.inf)
        growth = growth.masked_fill(~written[..., : i + 1], -torch.inf)
        largest = max(largest, growth.max().item())
    first = written.int().argmax(-1, keepdim=True)  # of a head without any key it is the first
    tokens = wide.length - 1 - first
    rates = growth.gather(-1, first) / tokens.clamp(min=1)
    seen = rates[(tokens > 0) & written.any(-1, keepdim=True)]
    rate = seen.max().item() if seen.numel() else 0.0
    return Stability(
        largest_norm=norms[..., 1:].max().item() if wide.length > 1 else float("nan"),
        growth_nats=largest,
        growth_rate=rate,
        horizon_tokens=overflow_horizon(rate),
    )
