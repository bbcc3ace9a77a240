"""The entry: checks, working precision, and the dispatch. No algorithm lives here."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import cast

from coefdyn.dynamics.coefficients import CoefficientDynamics
from coefdyn.dynamics.normalizer import One
from coefdyn.execution import parallel, recurrent, reference
from coefdyn.execution.chunked.dispatch import check_chunked, continue_chunked, run_chunked
from coefdyn.execution.contain import contained
from coefdyn.execution.inputs import (
    check_state,
    check_values,
    full_precision,
    in_working_precision,
)
from coefdyn.execution.policy import accepts, choose
from coefdyn.execution.restrictions import absorbed
from coefdyn.execution.state import CacheState, LinearState, State, has_finite_state
from coefdyn.execution.triton.dispatch import check_triton, run_triton
from coefdyn.execution.twice import TWICE_UP_TO, nested, twice
from coefdyn.shapes import Float, Tensor

__all__ = ["METHODS", "apply", "carry", "coefficients", "resolve"]

Run = Callable[[CoefficientDynamics, Tensor], Tensor]
Carry = Callable[[CoefficientDynamics, Tensor, LinearState | None], tuple[Tensor, LinearState]]

#: method -> how. Each says itself, in words, which designs it cannot compute.
METHODS: dict[str, Run] = {
    "reference": reference.apply,
    "recurrent": recurrent.apply,
    "parallel": parallel.apply,
    "chunked": run_chunked,
    "triton": run_triton,
}
#: method -> what it refuses; a method without an entry computes every design
CHECKS: dict[str, Callable[[CoefficientDynamics], None]] = {
    "recurrent": recurrent.check_recurrent,
    "chunked": check_chunked,
    "triton": check_triton,
}
#: method -> how it carries the state of a linear readout; no other method has one
CARRIERS: dict[str, Carry] = {"recurrent": recurrent.step_linear, "chunked": continue_chunked}
#: a linear readout takes this many tokens or more at once, as a prompt, chunk by chunk
PROMPT_TOKENS = 64


def resolve(dynamics: CoefficientDynamics, method: str, value_dim: int = 1) -> Run:
    """The function that computes this design by this method, or an error that says what would.

    "auto" follows ``policy.choose``: on a CPU what was measured as fastest, on a CUDA device triton
    where it has a kernel for the design.
    """
    if method != "reference":
        dynamics = absorbed(dynamics)
    if method == "auto":
        method = choose(dynamics, value_dim)
    if method not in METHODS:
        raise ValueError(f"method must be one of auto, {', '.join(METHODS)}, got {method!r}.")
    if method in CHECKS:
        CHECKS[method](dynamics)
    return METHODS[method]


def apply(
    dynamics: CoefficientDynamics, v: Float[Tensor, "*#batch L dv"], method: str = "auto"
) -> Tensor:
    """y of a sequence from its first token on; ``carry`` is for states."""
    check_values(dynamics, v)
    if method != "reference":
        dynamics = absorbed(dynamics)
    with full_precision(v.device):
        auto = method == "auto"
        if auto and nested(dynamics, v) and dynamics.length <= TWICE_UP_TO:
            method = "parallel"
        run = resolve(dynamics, method, v.shape[-1])
        if is_empty(dynamics, v):
            run = parallel.apply
        if run is run_triton:  # takes half precision as it is, with float32 accumulation
            return twice(run, dynamics, v) if auto else run(dynamics, v)
        working, values = in_working_precision(dynamics, v)
        kernel = auto and run is run_chunked
        y = twice(run, working, values) if kernel else run(working, values)
        if run is not reference.apply:
            y = contained(run, working, values, y)
        return y.to(v.dtype)


def is_empty(dynamics: CoefficientDynamics, v: Tensor) -> bool:
    """Return whether there is no sequence: kernels need one, sums over nothing do not."""
    return 0 in dynamics.batch_shape or 0 in v.shape[:-2]


def carry(
    dynamics: CoefficientDynamics,
    v: Float[Tensor, "*#batch L dv"],
    method: str = "auto",
    state: State | None = None,
) -> tuple[Tensor, State]:
    """y of these tokens after those in ``state``, and the state after them."""
    check_values(dynamics, v)
    asked, dtype = dynamics, v.dtype
    if not isinstance(state, CacheState):  # which keeps an outer decay where it has one
        dynamics = absorbed(dynamics)
    with full_precision(v.device):
        dynamics, values = in_working_precision(dynamics, v)
        if state is not None:
            check_state(dynamics, values, state)
        if isinstance(state, CacheState) or not has_finite_state(dynamics):
            if state is None:
                return apply(asked, v, method), recurrent.remember(dynamics, values)
            if method not in ("auto", "reference"):
                raise ValueError(
                    f"method={method!r} continues no state that keeps every key: tokens after it "
                    "are computed one by one, by method='auto' or 'reference'."
                )
            y, cache = recurrent.step_cache(dynamics, values, cast(CacheState, state))
            return y.to(dtype), cache
        step, held = carrier(dynamics, values, method), cast(LinearState | None, state)
        y, after = step(dynamics, values, held)
        y = contained(lambda d, v: step(d, v, held)[0], dynamics, values, y)
    return y.to(dtype), after


def carrier(dynamics: CoefficientDynamics, v: Tensor, method: str) -> Carry:
    """Choose the function that carries the state of a linear readout."""
    if method == "auto":
        chunks = dynamics.length >= PROMPT_TOKENS and accepts(check_chunked, dynamics)
        method = "chunked" if chunks else "recurrent"
    if method not in CARRIERS:
        raise ValueError(
            f"method={method!r} carries no state of fixed size; method must be one of auto, "
            f"{', '.join(CARRIERS)} where a state is given or returned."
        )
    CHECKS[method](dynamics)
    return recurrent.step_linear if is_empty(dynamics, v) else CARRIERS[method]


def coefficients(
    dynamics: CoefficientDynamics, normalized: bool = False, method: str = "auto"
) -> Float[Tensor, "*batch L L"]:
    """See ``CoefficientDynamics.coefficients``."""
    compute = {"auto": parallel, "parallel": parallel, "reference": reference}.get(method)
    if compute is None:
        known = f"method={method!r} never forms the L x L matrix; " if method in METHODS else ""
        raise ValueError(
            f"{known}coefficients() takes 'auto', 'reference' or 'parallel', got {method!r}."
        )
    asked = dynamics if normalized else replace(dynamics, normalizer=One())
    with full_precision(dynamics.device):
        working, _ = in_working_precision(asked, dynamics.q)
        alpha = compute.coefficients(working, normalized)
        if compute is parallel:
            alpha = contained(
                lambda d, _: parallel.coefficients(d, normalized), working, working.q, alpha
            )
        alpha = alpha.to(dynamics.dtype)
    return alpha.expand(*dynamics.batch_shape, *alpha.shape[-2:])
