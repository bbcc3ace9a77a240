"""The entry: checks, working precision, and the dispatch table. No algorithm lives here."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import torch

from coefdyn.dynamics import checks
from coefdyn.dynamics.coefficients import CoefficientDynamics
from coefdyn.dynamics.normalizer import One
from coefdyn.execution import parallel, recurrent, reference
from coefdyn.execution.chunked.dispatch import (
    check_chunked,
    has_learnable_readout,
    run_chunked,
)
from coefdyn.execution.chunked.policy import cpu_method
from coefdyn.execution.state import has_finite_state
from coefdyn.execution.triton.dispatch import STRUCTURES as TRITON_STRUCTURES
from coefdyn.execution.triton.dispatch import check_triton, run_triton
from coefdyn.shapes import Float, Tensor

__all__ = ["METHODS", "TABLE", "apply", "coefficients", "resolve"]

Run = Callable[[CoefficientDynamics, Tensor], Tensor]

METHODS = ("auto", "reference", "recurrent", "parallel", "chunked", "triton")
STRUCTURES = (
    "identity",
    "scalar",
    "diagonal",
    "householder",
    "scaled_householder",
    "diagonal_plus_rank_one",
    "dense",
)

#: (structure of A_t, method) -> how. What is not in here cannot be asked for.
TABLE: dict[tuple[str, str], Run] = {
    **{(structure, "reference"): reference.apply for structure in STRUCTURES},
    **{(structure, "recurrent"): recurrent.apply for structure in STRUCTURES},
    **{(structure, "parallel"): parallel.apply for structure in STRUCTURES},
    **{(structure, "chunked"): run_chunked for structure in STRUCTURES if structure != "dense"},
    **{(structure, "triton"): run_triton for structure in TRITON_STRUCTURES},
}


def resolve(dynamics: CoefficientDynamics, method: str) -> Run:
    """The function that computes this design by this method, or an error that says what would.

    "auto" follows ``chunked.policy.PARALLEL_UP_TO``, measured on a CPU and used on every device:
    the whole matrix for short sequences of not too many heads, chunks beyond (token by token for a
    diagonal evolution with one value channel). It never chooses triton: ask for it.
    """
    if method not in METHODS:
        raise ValueError(f"method must be one of {', '.join(METHODS)}, got {method!r}.")
    if method == "auto":
        method = cpu_method(dynamics, has_learnable_readout(dynamics))
    structure = dynamics.evolution.structure
    if method == "recurrent" and not has_finite_state(dynamics):
        raise ValueError(_no_finite_state(dynamics))
    if method == "chunked":
        check_chunked(dynamics)
    if method == "triton":
        check_triton(dynamics)
    if (structure, method) not in TABLE:
        have = ", ".join(m for s, m in TABLE if s == structure)
        raise ValueError(
            f"method={method!r} is not available for a {structure} evolution; available: {have}."
        )
    return TABLE[structure, method]


def _no_finite_state(dynamics: CoefficientDynamics) -> str:
    phi, evolution = dynamics.readout, type(dynamics.evolution).__name__
    return (
        f"method='recurrent' needs a linear readout, or a FeatureMap with Identity evolution; got "
        f"{phi!r} with {evolution}. Its past does not fit into a state of fixed size (Lemma 1: "
        "with a state of n x d_v numbers only phi = identity has a recurrent form). "
        "Use method='parallel' or 'auto'; step() also works and keeps every key and value."
    )


def check_values(dynamics: CoefficientDynamics, v: Tensor) -> None:
    """v fits q: length, dtype, device and leading axes."""
    checks.check_tensor("v", v, like=dynamics.q)
    if v.ndim < 2 or v.shape[-2] != dynamics.length or v.shape[-1] == 0:
        raise ValueError(
            f"v must have shape (..., L, d_v) with L={dynamics.length} and d_v >= 1, "
            f"got {tuple(v.shape)}."
        )
    checks.common_batch({"q, k, ...": dynamics.batch_shape, "v": tuple(v.shape[:-2])})
    checks.check_finite("v", v)


def in_working_precision(
    dynamics: CoefficientDynamics, v: Tensor
) -> tuple[CoefficientDynamics, Tensor]:
    """float16 and bfloat16 inputs are computed in float32; float32 and float64 as they are."""
    if v.dtype in (torch.float16, torch.bfloat16):
        return dynamics.to(torch.float32), v.float()
    return dynamics, v


def apply(
    dynamics: CoefficientDynamics, v: Float[Tensor, "*#batch L dv"], method: str = "auto"
) -> Tensor:
    """See ``CoefficientDynamics.apply``."""
    run = resolve(dynamics, method)
    check_values(dynamics, v)
    if run is run_triton:  # takes half precision as it is, with float32 accumulation
        return run(dynamics, v)
    working, values = in_working_precision(dynamics, v)
    return run(working, values).to(v.dtype)


def coefficients(
    dynamics: CoefficientDynamics, normalized: bool = False, method: str = "auto"
) -> Float[Tensor, "*batch L L"]:
    """See ``CoefficientDynamics.coefficients``."""
    compute = {"auto": parallel, "parallel": parallel, "reference": reference}.get(method)
    if method not in METHODS:
        raise ValueError(f"method must be 'auto', 'reference' or 'parallel', got {method!r}.")
    if compute is None:
        raise ValueError(
            f"method={method!r} never forms the L x L matrix; "
            "coefficients() takes 'auto', 'reference' or 'parallel'."
        )
    if dynamics.dtype in (torch.float16, torch.bfloat16):
        wide = coefficients(dynamics.to(torch.float32), normalized, method)
        return wide.to(dynamics.dtype)
    if not normalized:
        dynamics = replace(dynamics, normalizer=One())
    alpha = compute.coefficients(dynamics, normalized)
    return alpha.expand(*dynamics.batch_shape, *alpha.shape[-2:])
