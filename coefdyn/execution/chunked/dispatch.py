"""Chunked execution of a CoefficientDynamics: which kernel serves which design."""

from __future__ import annotations

import torch

from coefdyn.dynamics import readout
from coefdyn.dynamics.coefficients import CoefficientDynamics
from coefdyn.dynamics.evolution import Dense
from coefdyn.dynamics.readout import FeatureMap, Pointwise
from coefdyn.execution.chunked.linear import linear_scan
from coefdyn.execution.chunked.pointwise import apply_pointwise
from coefdyn.execution.chunked.policy import default_chunk
from coefdyn.execution.state import LinearState, check_state, has_finite_state
from coefdyn.shapes import Float, Tensor

__all__ = ["apply_chunked", "check_chunked", "continue_chunked", "run_chunked"]


BUILT_IN = (readout.identity, readout.exp, readout.relu, readout.softplus)


def check_chunked(dynamics: CoefficientDynamics) -> None:
    """Raise ValueError if no chunked algorithm computes this design, naming a method that does."""
    if isinstance(dynamics.evolution, Dense):
        raise ValueError(
            "method='chunked' is not available for a dense evolution (a product of full matrices "
            "has no structure to use); available: reference, recurrent, parallel."
        )
    if isinstance(dynamics.readout, FeatureMap) and not has_finite_state(dynamics):
        raise ValueError(
            f"method='chunked' takes a FeatureMap with Identity evolution only; got "
            f"{dynamics.readout!r} with {type(dynamics.evolution).__name__}, where psi needs every "
            "h_(i,j) by itself. Use method='parallel'."
        )

    if has_learnable_readout(dynamics):
        raise ValueError(
            "method='chunked' has a backward pass of its own, for q, k, v and the parameters of "
            f"A_t, b_j and eta_i; the readout '{dynamics.readout.name}' has parameters of its own "
            "that would get no gradient. Use method='parallel'."
        )


def has_learnable_readout(dynamics: CoefficientDynamics) -> bool:
    """Whether a pointwise phi holds parameters that require gradients."""
    phi = dynamics.readout
    if (
        not isinstance(phi, Pointwise)
        or any(phi.same_as(known) for known in BUILT_IN)
        or not torch.is_grad_enabled()
    ):
        return False
    return bool(phi(dynamics.q.detach().new_zeros(1)).requires_grad)


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
        chunk_size: tokens per chunk; None for ``policy.default_chunk``. The result does not depend
            on it.

    Raises:
        ValueError: for a Dense evolution, for a FeatureMap with another evolution than Identity,
            for a readout with parameters of its own, or a chunk_size below 1.
    """
    dynamics, values, chunk = _prepare(dynamics, v, chunk_size)
    return _run(dynamics, values, chunk).to(v.dtype)


def continue_chunked(
    dynamics: CoefficientDynamics,
    v: Float[Tensor, "*batch L dv"],
    state: LinearState | None = None,
    chunk_size: int | None = None,
) -> tuple[Tensor, LinearState]:
    """Tokens after those remembered in ``state``: y and the new state, like ``step``.

    Raises:
        ValueError: for a readout without a state of fixed size, and as ``apply_chunked``.
    """
    dynamics, values, chunk = _prepare(dynamics, v, chunk_size)
    if not has_finite_state(dynamics):
        raise ValueError(
            f"a chunked continuation needs a linear readout; got {dynamics.readout!r} with "
            f"{type(dynamics.evolution).__name__}, which must keep every key. Use step()."
        )
    if state is not None:
        check_state(dynamics, values, state)
    y, state = linear_scan(dynamics, values, state, chunk)
    return y.to(v.dtype), state


def _prepare(
    dynamics: CoefficientDynamics, v: Tensor, chunk_size: int | None
) -> tuple[CoefficientDynamics, Tensor, int]:
    """Checks, working precision and the chunk size."""
    from coefdyn.execution.apply import check_values, in_working_precision

    check_values(dynamics, v)
    check_chunked(dynamics)
    if chunk_size is not None and (not isinstance(chunk_size, int) or chunk_size < 1):
        raise ValueError(
            f"chunk_size must be at least 1 token and a whole number, got {chunk_size!r}; "
            "32 to 128 is fast, None chooses."
        )
    dynamics, v = in_working_precision(dynamics, v)
    return dynamics, v, chunk_size or default_chunk(dynamics)
