"""Sizes and choices found by measurement (``tests/benchmarks/cpu.py``)."""

from __future__ import annotations

from coefdyn.dynamics.coefficients import CoefficientDynamics
from coefdyn.execution.state import has_finite_state

__all__ = ["CHUNK", "ROWS", "default_chunk"]

#: tokens per chunk of a linear readout, by structure
CHUNK = {
    "identity": 64,
    "scalar": 64,
    "diagonal": 64,
    "householder": 32,
    "scaled_householder": 32,
}
#: rows per tile of a pointwise readout
ROWS = 128


def default_chunk(dynamics: CoefficientDynamics) -> int:
    """Tokens per chunk (linear readouts) or rows per tile (pointwise readouts)."""
    return CHUNK[dynamics.evolution.structure] if has_finite_state(dynamics) else ROWS
