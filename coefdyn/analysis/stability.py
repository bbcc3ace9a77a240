"""Growth of stored keys, and when it overflows (Principle 6)."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

from coefdyn.dynamics.coefficients import CoefficientDynamics
from coefdyn.execution.reference import evolve

__all__ = ["Stability", "overflow_horizon", "stability"]


@dataclass(frozen=True, kw_only=True)
class Stability:
    """How large an impulse can become.

    Attributes:
        largest_norm: max over t >= 1 of the operator norm of A_t. At most 1: no stored key grows,
            whatever the order of the A_t. (The spectral radius gives no such bound.)
        growth_nats: log of the largest growth |h_{i,j}| / |b_j k_j| seen over all i, j.
        growth_rate: mean log growth per token of the first key that is not zero, in nats; the
            largest of all heads.
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


def stability(dynamics: CoefficientDynamics) -> Stability:
    """Measure operator norms and the growth of every stored key, in float64."""
    wide = dynamics.to(torch.float64)
    n = wide.key_dim
    norms = [
        torch.linalg.matrix_norm(wide.evolution.dense(t, n).double(), ord=2).max().item()
        for t in range(1, wide.length)
    ]
    start = torch.linalg.vector_norm(wide.scaled_keys(), dim=-1).clamp(min=1e-300).log()
    if wide.log_scaling is not None:
        start = start + wide.log_scaling
    written = torch.linalg.vector_norm(wide.scaled_keys(), dim=-1) > 0
    largest = -math.inf
    for i, stored in enumerate(evolve(wide)):
        size = torch.linalg.vector_norm(stored.vectors, dim=-1).clamp(min=1e-300).log()
        size = size if stored.log_weights is None else size + stored.log_weights
        growth = (size - start[..., : i + 1]).masked_fill(~written[..., : i + 1], -math.inf)
        largest = max(largest, growth.max().item())
    first = written.int().argmax(-1, keepdim=True)  # of a head without any key it is the first
    tokens = wide.length - 1 - first
    rates = growth.gather(-1, first.expand(*growth.shape[:-1], 1)) / tokens.clamp(min=1)
    seen = rates[(tokens > 0).expand_as(rates) & rates.isfinite()]
    rate = seen.max().item() if seen.numel() else 0.0
    return Stability(
        largest_norm=max(norms, default=float("nan")),
        growth_nats=largest,
        growth_rate=rate,
        horizon_tokens=overflow_horizon(rate),
    )
