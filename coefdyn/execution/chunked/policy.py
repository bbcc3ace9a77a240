"""Sizes and choices found by measurement (``make bench`` prints the tables they come from)."""

from __future__ import annotations

from math import prod

from coefdyn.dynamics.coefficients import CoefficientDynamics
from coefdyn.execution.state import has_finite_state

__all__ = ["default_chunk"]

#: tokens per chunk of a linear readout
CHUNK = 64
#: the same for Householder evolutions, where the triangular solve grows with the chunk, as soon as
#: there are MANY batch entries to keep the processor busy without larger chunks
HOUSEHOLDER_CHUNK, MANY = 32, 8
#: rows per tile of a pointwise readout
ROWS = 128


def default_chunk(dynamics: CoefficientDynamics) -> int:
    """Tokens per chunk (linear readouts) or rows per tile (pointwise readouts)."""
    if not has_finite_state(dynamics):
        return ROWS
    erases = dynamics.evolution.structure in ("householder", "scaled_householder")
    return HOUSEHOLDER_CHUNK if erases and prod(dynamics.batch_shape) >= MANY else CHUNK
