"""Eigenvalues: of A_t, and of the transition Lambda_i = (eta_{i-1}/eta_i) A_i of the second view.

Dynamical systems framework: h_i = Lambda_i h_{i-1} + B_i u_i, y_i = C_i h_i + D_i u_i.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from coefdyn.dynamics.coefficients import CoefficientDynamics
from coefdyn.dynamics.normalizer import FlooredRowSum, Given, One
from coefdyn.shapes import Float, Tensor

__all__ = ["Spectrum", "eta", "spectrum"]


@dataclass(frozen=True, kw_only=True, eq=False)
class Spectrum:
    """Eigenvalues per position.

    Attributes:
        eigenvalues: complex, ``(..., L, n)``, of A_t.
        transition: complex, ``(..., L, n)``, of Lambda_t; position 0 has no predecessor and is NaN.
        largest_modulus: max |eigenvalue of A_t| over positions 1 .. L-1.
    """

    eigenvalues: Tensor
    transition: Tensor
    largest_modulus: float


def eta(dynamics: CoefficientDynamics) -> Float[Tensor, "*batch L"]:
    """eta_i itself (overflows where the true value does)."""
    normalizer = dynamics.normalizer
    if isinstance(normalizer, Given):
        return normalizer.eta.expand(*dynamics.batch_shape, dynamics.length)
    total = dynamics.coefficients().sum(-1)
    if isinstance(normalizer, One):
        return torch.ones_like(total)
    if isinstance(normalizer, FlooredRowSum):
        return total.abs().clamp(min=normalizer.floor)
    return total


def spectrum(dynamics: CoefficientDynamics) -> Spectrum:
    """Eigenvalues of every A_t and of every Lambda_t = (eta_{t-1}/eta_t) A_t (DSF, eq. 5).

    For a time-varying product the moduli do not bound the state; see ``stability``.
    """
    n, length, batch = dynamics.key_dim, dynamics.length, dynamics.batch_shape
    matrices = torch.stack(
        [
            dynamics.evolution.dense(t, n).to(dynamics.dtype).expand(*batch, n, n)
            for t in range(length)
        ],
        dim=-3,
    )
    eigenvalues = torch.linalg.eigvals(matrices)
    scale = eta(dynamics)
    ratio = scale[..., :-1] / scale[..., 1:]
    ratio = torch.nn.functional.pad(ratio, (1, 0), value=float("nan"))
    largest = eigenvalues[..., 1:, :].abs().max().item() if length > 1 else float("nan")
    return Spectrum(
        eigenvalues=eigenvalues,
        transition=eigenvalues * ratio[..., None],
        largest_modulus=largest,
    )
