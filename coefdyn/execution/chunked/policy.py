"""Sizes and choices found by measurement (``make bench`` prints the tables they come from)."""

from __future__ import annotations

from math import prod

from coefdyn.dynamics.coefficients import CoefficientDynamics
from coefdyn.dynamics.readout import FeatureMap
from coefdyn.execution.chunked.pointwise import is_softmax
from coefdyn.execution.state import has_finite_state

__all__ = ["PARALLEL_UP_TO", "cpu_method", "default_chunk"]

#: tokens per chunk of a linear readout
CHUNK = 64
#: the same for Householder evolutions, where the triangular solve grows with the chunk, as soon as
#: there are MANY batch entries to keep the processor busy without larger chunks
HOUSEHOLDER_CHUNK, MANY = 32, 8
#: rows per tile of a pointwise readout
ROWS = 128

#: (readout kind, structure) -> the longest L at which the whole L x L matrix is faster on a CPU,
#: forward and backward; 0: never
PARALLEL_UP_TO: dict[tuple[str, str], int] = {
    ("linear", "identity"): 64,
    ("linear", "scalar"): 64,
    ("linear", "diagonal"): 0,
    ("linear", "householder"): 32,
    ("linear", "scaled_householder"): 32,
    ("linear", "diagonal_plus_rank_one"): 32,
    ("softmax", "identity"): 0,
    ("pointwise", "identity"): 128,
    ("pointwise", "scalar"): 64,
    ("pointwise", "diagonal"): 32,
    ("pointwise", "householder"): 128,
    ("pointwise", "scaled_householder"): 128,
    ("pointwise", "diagonal_plus_rank_one"): 32,
}
#: linear readouts: the most numbers that the matrices of all batch entries may hold together for
#: that; more do not stay in cache. A triangular solve of each matrix brings the limit down
MATRICES, HOUSEHOLDER_MATRICES = 2**21, 2**18


def cpu_method(dynamics: CoefficientDynamics, learnable: bool = False) -> str:
    """The fastest method on a CPU for this structure, readout and length.

    Args:
        dynamics: the design.
        learnable: whether the readout has parameters of its own, which chunked would not train.
    """
    structure, finite = dynamics.evolution.structure, has_finite_state(dynamics)
    if structure == "dense":  # recurrent once L^2 states of n numbers cost more than L matrices
        return "recurrent" if finite and dynamics.length > 128 else "parallel"
    if (isinstance(dynamics.readout, FeatureMap) and not finite) or learnable:
        return "parallel"
    kind = "linear" if finite else "softmax" if is_softmax(dynamics) else "pointwise"
    short = dynamics.length <= PARALLEL_UP_TO[kind, structure]
    if short and kind == "linear":
        numbers = prod(dynamics.batch_shape) * dynamics.length**2
        short = numbers <= (HOUSEHOLDER_MATRICES if _erases(dynamics) else MATRICES)
    return "parallel" if short else "chunked"


def _erases(dynamics: CoefficientDynamics) -> bool:
    structure = dynamics.evolution.structure
    return structure in ("householder", "scaled_householder", "diagonal_plus_rank_one")


def default_chunk(dynamics: CoefficientDynamics) -> int:
    """Tokens per chunk (linear readouts) or rows per tile (pointwise readouts)."""
    chunk = CHUNK if has_finite_state(dynamics) else ROWS
    if _erases(dynamics) and chunk == CHUNK and prod(dynamics.batch_shape) >= MANY:
        chunk = HOUSEHOLDER_CHUNK
    return min(chunk, dynamics.length)
