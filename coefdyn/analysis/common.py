"""Helpers shared by the analyses: admitted pairs, precision, input checks."""

from __future__ import annotations

import torch

from coefdyn.dynamics.coefficients import CoefficientDynamics
from coefdyn.dynamics.readout import FeatureMap
from coefdyn.execution.restrictions import allowed
from coefdyn.shapes import Bool, Tensor

__all__ = ["admitted", "check_not_empty", "widened"]


def admitted(dynamics: CoefficientDynamics) -> Bool[Tensor, "*#batch L L"]:
    """True where token i may read token j: j <= i, and not masked."""
    return allowed(dynamics, 0, dynamics.length)


def check_not_empty(name: str, batch: tuple[int, ...]) -> None:
    """Raise ValueError for a batch without sequences."""
    if 0 in batch:
        raise ValueError(
            f"{name} measures at least one sequence, got leading axes {tuple(batch)}: nothing can "
            "be said of none. Leave empty batches out."
        )


def widened(dynamics: CoefficientDynamics) -> CoefficientDynamics:
    """Return the dynamics in float64; in float32 or more where a feature map holds tensors."""
    phi, dtype = dynamics.readout, torch.float64
    if isinstance(phi, FeatureMap):
        try:
            with torch.no_grad():
                phi.features(dynamics.q[..., :1, :].to(dtype))
        except (RuntimeError, ValueError):
            dtype = torch.promote_types(dynamics.dtype, torch.float32)
    return dynamics if dynamics.dtype == dtype else dynamics.to(dtype)
