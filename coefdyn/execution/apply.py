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

__all__ = ["METHODS", "apply", "coefficients", "extend", "resolve"]

Run = Callable[[CoefficientDynamics, Tensor], Tensor]

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
    """See ``CoefficientDynamics.apply``."""
    check_values(dynamics, v)
    if method != "reference":
        dynamics = absorbed(dynamics)
    with full_precision(v.device):
        auto = method == "auto"
        if auto and dynamics.length <= TWICE_UP_TO and nested(dynamics, v):
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


def extend(
    dynamics: CoefficientDynamics, v: Float[Tensor, "*#batch L dv"], state: State | None
) -> tuple[Tensor, State]:
    """See ``CoefficientDynamics.extend``."""
    check_values(dynamics, v)
    dynamics, dtype = absorbed(dynamics), v.dtype
    with full_precision(v.device):
        dynamics, v = in_working_precision(dynamics, v)
        if state is not None:
            check_state(dynamics, v, state)
        if not has_finite_state(dynamics):
            y, cache = recurrent.step_cache(dynamics, v, cast(CacheState | None, state))
            return y.to(dtype), cache
        short = dynamics.length < PROMPT_TOKENS or not accepts(check_chunked, dynamics)
        step = recurrent.step_linear if short or is_empty(dynamics, v) else continue_chunked
        held = cast(LinearState | None, state)
        y, after = step(dynamics, v, held)
        y = contained(lambda d, v: step(d, v, held)[0], dynamics, v, y)
    return y.to(dtype), after


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
