"""Spread of the scores as a function of n (Lemma 5, Principle 5)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

__all__ = ["ScoreVariance", "score_variance"]


@dataclass(frozen=True, kw_only=True)
class ScoreVariance:
    """Sample variance of q^T (b k) for standard normal q and k.

    Attributes:
        key_dims: the n that were tried.
        variances: the measured variance for each.
        slope: of log variance against log n: 1 for b = 1, 0 for b = 1/sqrt(n).
    """

    key_dims: tuple[int, ...]
    variances: tuple[float, ...]
    slope: float


def score_variance(
    scaling: Callable[[int], float],
    key_dims: Sequence[int] = (8, 32, 128, 512),
    samples: int = 20_000,
    seed: int = 0,
) -> ScoreVariance:
    """Measure Var(q^T b k) over independent standard normal pairs.

    Args:
        scaling: b as a function of n, for example ``lambda n: n ** -0.5``.
        key_dims: at least two values of n.
        samples: pairs per n; the relative error of a variance is about sqrt(2/samples) or more.
        seed: of the random pairs.

    Raises:
        ValueError: for fewer than two key dimensions.
    """
    if len(key_dims) < 2:
        raise ValueError(f"score_variance needs at least two key_dims for a slope, got {key_dims}.")
    generator = torch.Generator().manual_seed(seed)
    variances = []
    for n in key_dims:
        q = torch.randn(samples, n, dtype=torch.float64, generator=generator)
        k = torch.randn(samples, n, dtype=torch.float64, generator=generator)
        variances.append((scaling(n) * (q * k).sum(-1)).var().item())
    x = torch.tensor([math.log(n) for n in key_dims], dtype=torch.float64)
    y = torch.tensor([math.log(value) for value in variances], dtype=torch.float64)
    slope = ((x - x.mean()) * (y - y.mean())).sum() / ((x - x.mean()) ** 2).sum()
    return ScoreVariance(key_dims=tuple(key_dims), variances=tuple(variances), slope=slope.item())
