"""Learning-rate schedules as a table of factors, one per step."""

from __future__ import annotations

import math

import torch

from coefdyn.shapes import Float, Tensor

__all__ = ["learning_rates"]


def learning_rates(
    peak: list[float],
    *,
    steps: int,
    kind: str = "cosine",
    warmup: int = 0,
    floor: float = 0.0,
    steps_per_epoch: int = 1,
) -> Float[Tensor, "replicas steps"]:
    r"""The learning rate of every replica at every step.

        lr_t = (t + 1) / warmup * peak                                      for t < warmup
        lr_t = floor + (peak - floor) (1 + cos(pi u)) / 2,  u = (t - warmup) / (steps - warmup)

    With ``steps_per_epoch`` > 1 the cosine is held constant within an epoch, as MAD does.

    Args:
        peak: one value per replica, at least 0.
        steps: number of optimiser steps, at least 1.
        kind: "cosine" or "constant" (after the warm-up).
        warmup: steps of linear growth, less than ``steps``.
        floor: the value reached at the end (MAD: 1e-6), the same for all replicas.
        steps_per_epoch: length of the cosine's plateaus.

    Raises:
        ValueError: for an unknown kind or a warm-up that leaves no step.
    """
    if kind not in ("cosine", "constant"):
        raise ValueError(f"schedule must be 'cosine' or 'constant', got {kind!r}.")
    if not 0 <= warmup < steps:
        raise ValueError(f"warmup must lie in [0, steps), got warmup={warmup}, steps={steps}.")
    top = torch.tensor(peak, dtype=torch.float64)[:, None]
    t = torch.arange(steps, dtype=torch.float64)
    grown = top * ((t + 1) / max(1, warmup)).clamp(max=1.0)
    if kind == "constant":
        return grown
    since = (t - warmup).clamp_min(0).div(steps_per_epoch, rounding_mode="floor") * steps_per_epoch
    half = 0.5 * (1 + torch.cos(math.pi * since / (steps - warmup)))
    return torch.where(t < warmup, grown, floor + (top - floor).clamp_min(0) * half)
