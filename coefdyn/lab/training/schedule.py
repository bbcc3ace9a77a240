"""Learning-rate schedules as a list, one rate per step."""

from __future__ import annotations

import math

__all__ = ["learning_rates"]


def learning_rates(
    peak: float,
    *,
    steps: int,
    kind: str = "cosine",
    warmup: int = 0,
    floor: float = 0.0,
    steps_per_epoch: int = 1,
) -> list[float]:
    r"""The learning rate of every step.

        lr_t = (t + 1) / warmup * peak                                      for t < warmup
        lr_t = floor + (peak - floor) (1 + cos(pi u)) / 2,  u = (t - warmup) / (steps - warmup)

    With ``steps_per_epoch`` > 1 the cosine is held constant within an epoch, as MAD does.

    Args:
        peak: at least 0; one below ``floor`` gives the constant ``floor`` after the warm-up.
        steps: number of optimiser steps, at least 1.
        kind: "cosine" or "constant" (after the warm-up).
        warmup: steps of linear growth, less than ``steps``.
        floor: the value reached at the end (MAD: 1e-6).
        steps_per_epoch: length of the cosine's plateaus.

    Raises:
        ValueError: for an unknown kind or a warm-up that leaves no step.
    """
    if kind not in ("cosine", "constant"):
        raise ValueError(f"schedule must be 'cosine' or 'constant', got {kind!r}.")
    if not 0 <= warmup < steps:
        raise ValueError(f"warmup must lie in [0, steps), got warmup={warmup}, steps={steps}.")
    rates = [(t + 1) / warmup * peak for t in range(warmup)]
    for t in range(steps - warmup):
        since = t // steps_per_epoch * steps_per_epoch
        half = (1 + math.cos(math.pi * since / (steps - warmup))) / 2
        rates.append(peak if kind == "constant" else floor + max(peak - floor, 0.0) * half)
    return rates
