"""Chunked execution of a CoefficientDynamics: which algorithm serves which design."""

from __future__ import annotations

from math import prod

from coefdyn.dynamics.coefficients import CoefficientDynamics
from coefdyn.dynamics.mask import Mask
from coefdyn.dynamics.readout import FeatureMap
from coefdyn.execution.chunked.linear import KERNELS, linear_scan
from coefdyn.execution.chunked.pointwise import apply_pointwise, is_softmax
from coefdyn.execution.growth import erases, growth_message, hidden_growth
from coefdyn.execution.inputs import check_state, check_values, in_working_precision
from coefdyn.execution.restrictions import absorbed
from coefdyn.execution.state import LinearState, has_finite_state
from coefdyn.shapes import Float, Tensor

__all__ = [
    "apply_chunked",
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


def run_chunked(dynamics: CoefficientDynamics, v: Float[Tensor, "*batch L dv"]) -> Tensor:
    """y, for inputs already checked and in working precision (the entry of the dispatch table)."""
    return _run(dynamics, v, default_chunk(dynamics))


def _run(dynamics: CoefficientDynamics, v: Tensor, chunk: int) -> Tensor:
    if has_finite_state(dynamics):
        return linear_scan(dynamics, v, None, chunk)[0]
    return apply_pointwise(dynamics, v, chunk)


def apply_chunked(
    dynamics: CoefficientDynamics,
    v: Float[Tensor, "*batch L dv"],
    chunk_size: int | None = None,
) -> Float[Tensor, "*batch L dv"]:
    """y_i = (1/eta_i) sum_j alpha_{i,j} v_j, chunk by chunk.

    Linear readouts (identity, and a feature map with A_t = I) cost O(L), with one state passed from
    chunk to chunk; any pointwise readout costs O(L^2) time but O(L) memory. float16 and bfloat16
    inputs are computed in float32.

    Args:
        chunk_size: tokens per chunk; None for ``default_chunk``. The result does not depend on it.

    Raises:
        ValueError: for an evolution without a chunked algorithm, for a FeatureMap with another
            evolution than Identity, or a chunk_size below 1.
    """
    dynamics, values, chunk = _prepare(dynamics, v, chunk_size)
    return _run(dynamics, values, chunk).to(v.dtype)


def continue_chunked(
    dynamics: CoefficientDynamics,
    v: Float[Tensor, "*batch L dv"],
    state: LinearState | None = None,
    chunk_size: int | None = None,
) -> tuple[Tensor, LinearState]:
    """Tokens after those remembered in ``state``: y and the new state, like ``extend``.

    Raises:
        ValueError: for a readout without a state of fixed size, and as ``apply_chunked``.
    """
    dynamics, values, chunk = _prepare(dynamics, v, chunk_size)
    if not has_finite_state(dynamics):
        raise ValueError(
            f"a chunked continuation needs a linear readout; got {dynamics.readout!r} with "
            f"{type(dynamics.evolution).__name__}, which must keep every key. Use extend()."
        )
    if state is not None:
        check_state(dynamics, values, state)
    y, state = linear_scan(dynamics, values, state, chunk)
    return y.to(v.dtype), state


def _prepare(
    dynamics: CoefficientDynamics, v: Tensor, chunk_size: int | None
) -> tuple[CoefficientDynamics, Tensor, int]:
    """Checks, working precision and the chunk size."""
    dynamics = absorbed(dynamics)
    check_values(dynamics, v)
    check_chunked(dynamics)
    if chunk_size is not None and (not isinstance(chunk_size, int) or chunk_size < 1):
        raise ValueError(
            f"chunk_size must be at least 1 token and a whole number, got {chunk_size!r}; "
            "32 to 128 is fast, None chooses."
        )
    dynamics, v = in_working_precision(dynamics, v)
    return dynamics, v, min(chunk_size or default_chunk(dynamics), dynamics.length)
