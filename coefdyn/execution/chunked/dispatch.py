"""Chunked execution of a CoefficientDynamics: which algorithm serves which design."""

from __future__ import annotations

from math import prod

from coefdyn.dynamics.coefficients import CoefficientDynamics
from coefdyn.dynamics.mask import Mask
from coefdyn.dynamics.readout import FeatureMap
from coefdyn.execution.chunked.linear import KERNELS, linear_scan
from coefdyn.execution.chunked.pointwise import apply_pointwise, is_softmax
from coefdyn.execution.growth import erases, growth_message, hidden_growth
from coefdyn.execution.state import LinearState, has_finite_state
from coefdyn.shapes import Float, Tensor

__all__ = [
    "check_chunked",
    "continue_chunked",
    "default_chunk",
    "is_softmax",
    "run_chunked",
]

#: tokens per chunk of a linear readout
CHUNK = 64
#: the same for Householder evolutions, where the triangular solve grows with the chunk, as soon as
#: there are MANY batch entries to keep the processor busy without larger chunks
HOUSEHOLDER_CHUNK, MANY = 32, 8
#: rows per tile of a pointwise readout; at least so many where a mask lets a row read few keys
ROWS, LEAST_ROWS = 128, 32


def check_chunked(dynamics: CoefficientDynamics) -> None:
    """Raise ValueError if no chunked algorithm computes this design, naming a method that does."""
    name = type(dynamics.evolution).__name__
    if type(dynamics.evolution) not in KERNELS:
        others = "reference, recurrent" if has_finite_state(dynamics) else "reference"
        raise ValueError(
            f"method='chunked' is not available for {name}: it knows "
            f"{', '.join(kind.__name__ for kind in KERNELS)}, exactly these and no subclass, since "
            f"their structure is what it uses. Available: {others}, parallel."
        )
    if isinstance(dynamics.readout, FeatureMap) and not has_finite_state(dynamics):
        masked = "" if dynamics.mask is None else f" and mask={dynamics.mask!r}"
        masked += "" if dynamics.outer_log_decay is None else " and an outer decay"
        raise ValueError(
            "method='chunked' takes a FeatureMap with Identity evolution, no mask, and no outer "
            f"decay beside a sink; got {dynamics.readout!r} with {name}{masked}, where psi needs "
            "every h_(i,j) by itself. Use method='parallel'."
        )

    if hidden_growth(dynamics):
        raise ValueError(growth_message(dynamics, "chunked"))


def default_chunk(dynamics: CoefficientDynamics) -> int:
    """Tokens per chunk (linear readouts) or rows per tile (pointwise readouts)."""
    chunk = CHUNK if has_finite_state(dynamics) else _rows(dynamics.mask)
    if erases(dynamics) and chunk == CHUNK and prod(dynamics.batch_shape) >= MANY:
        chunk = HOUSEHOLDER_CHUNK
    return min(chunk, dynamics.length)


def _rows(mask: Mask | None) -> int:
    """Rows per tile: a quarter of the keys that a row reads, as a tile reads its own rows too."""
    first = None if mask is None else mask.first(0)
    return ROWS if first is None else min(ROWS, max(LEAST_ROWS, 1 << (-first // 4).bit_length()))


def run_chunked(
    dynamics: CoefficientDynamics, v: Float[Tensor, "*batch L dv"], chunk: int | None = None
) -> Float[Tensor, "*batch L dv"]:
    """y_i = (1/eta_i) sum_j alpha_{i,j} v_j, chunk by chunk (the entry of the dispatch table).

    Linear readouts (identity, and a feature map with A_t = I) cost O(L), with one state passed from
    chunk to chunk; any pointwise readout costs O(L^2) time but O(L) memory.

    Args:
        dynamics: already checked and in working precision, as v.
        chunk: tokens per chunk; None for ``default_chunk``. The result does not depend on it.
    """
    if has_finite_state(dynamics):
        return continue_chunked(dynamics, v, None, chunk)[0]
    return apply_pointwise(dynamics, v, _chunk(dynamics, chunk))


def continue_chunked(
    dynamics: CoefficientDynamics,
    v: Float[Tensor, "*batch L dv"],
    state: LinearState | None,
    chunk: int | None = None,
) -> tuple[Tensor, LinearState]:
    """Tokens of a linear readout after those remembered in ``state``: y and the new state."""
    return linear_scan(dynamics, v, state, _chunk(dynamics, chunk))


def _chunk(dynamics: CoefficientDynamics, chunk: int | None) -> int:
    return min(chunk or default_chunk(dynamics), dynamics.length)
