"""One pass with one state matrix: O(L n d_v) work, O(n d_v) memory, linear readouts only."""

from __future__ import annotations

from coefdyn.dynamics.coefficients import CoefficientDynamics
from coefdyn.execution.state import step_by_step
from coefdyn.shapes import Tensor

__all__ = ["apply"]


def apply(dynamics: CoefficientDynamics, v: Tensor) -> Tensor:
    """y through S_i = A_i S_{i-1} + b_i k_i v_i^T, y_i = S_i^T q_i / eta_i (Lemma 1)."""
    return step_by_step(dynamics, v, None)[0]
