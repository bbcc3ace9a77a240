"""``method="triton"``: the kernel for each design, and the designs without one.

Importing this module imports no triton; a kernel's module is imported when a design needs it.
"""

from __future__ import annotations

import importlib.metadata
import os
from functools import cache

import torch

from coefdyn.dynamics import readout as readouts
from coefdyn.dynamics.coefficients import CoefficientDynamics
from coefdyn.dynamics.evolution import (
    Diagonal,
    DiagonalPlusRankOne,
    Evolution,
    Householder,
    Identity,
    Scalar,
)
from coefdyn.dynamics.normalizer import FlooredRowSum, Given, One, RowSum
from coefdyn.dynamics.readout import FeatureMap, Readout
from coefdyn.execution.chunked.operators import flatten_batch
from coefdyn.execution.growth import grows, growth_message, reflects
from coefdyn.execution.problem import (
    decays,
    finish,
    flipped_sides,
    flips,
    gates,
    keys,
    lower,
    per_channel,
)
from coefdyn.execution.restrictions import check_unrestricted
from coefdyn.execution.rows import normalize
from coefdyn.execution.state import has_finite_state
from coefdyn.shapes import Float, Tensor, broadcast_shapes

__all__ = ["STRUCTURES", "check_triton", "run_triton"]

STRUCTURES = (Identity, Scalar, Diagonal, Householder, DiagonalPlusRankOne)
#: those of pointwise readouts
POINTWISE = (Identity, Scalar)
DTYPES = (torch.float32, torch.float16, torch.bfloat16)
OLDEST_TRITON = (3, 5)
#: widest head, of keys or of values
WIDEST = 256
REMEDY = "Use method='chunked'."


def check_triton(dynamics: CoefficientDynamics) -> None:
    """Raise ValueError if no kernel computes this design here, naming a method that does."""
    phi, name = dynamics.readout, type(dynamics.evolution).__name__
    check_unrestricted(dynamics, "triton", "Use method='chunked'.")
    sunk = getattr(dynamics.normalizer, "sink", None) is not None
    if (sunk or dynamics.own is not None) and not has_finite_state(dynamics):
        what = "RowSum(sink=)" if sunk else "an own term"
        raise ValueError(
            f"method='triton' has no kernel for {what} with the readout {phi!r}. {REMEDY}"
        )
    if isinstance(phi, FeatureMap) and not has_finite_state(dynamics):
        raise ValueError(
            f"method='triton' takes a FeatureMap with Identity evolution only; got {phi!r} with "
            f"{name}. Use method='parallel'."
        )
    if type(dynamics.evolution) not in STRUCTURES:
        raise ValueError(
            f"method='triton' has no kernel for a {dynamics.evolution.structure} evolution "
            f"({name}); it has them for {', '.join(kind.__name__ for kind in STRUCTURES)}, exactly "
            "these. Use method='auto', which takes chunked where that has an algorithm, or "
            "'parallel'."
        )
    if not has_finite_state(dynamics):
        _check_pointwise(dynamics)
    _check_device(dynamics)
    if grows(dynamics, erasures=reflects(dynamics)):
        raise ValueError(growth_message(dynamics, "triton"))


def _check_pointwise(dynamics: CoefficientDynamics) -> None:
    phi, evolution = dynamics.readout, dynamics.evolution
    if type(evolution) not in POINTWISE:
        raise ValueError(
            f"method='triton' has no kernel for the readout {phi!r} with "
            f"{type(evolution).__name__}: it has those of pointwise readouts for "
            f"{' and '.join(kind.__name__ for kind in POINTWISE)}, exactly these. {REMEDY}"
        )
    _check_pointwise_readout(phi)


def _check_pointwise_readout(phi: Readout) -> None:
    if _lacks_triton() is not None:
        return  # said by _check_device
    from coefdyn.execution.triton.readouts import key_of, names

    if key_of(phi) is None:
        raise ValueError(
            f"method='triton' has no kernel for the readout {phi!r}; it knows "
            f"{', '.join(names())}. Give it yours by "
            f"coefdyn.execution.triton.readouts.register(readout, phi=..., slope=...). {REMEDY}"
        )


@cache
def _lacks_triton() -> str | None:
    """Requirement of the kernels that is missing, None where they can be compiled.

    The version decides, since 3.4 and older lack the function that finds a readout.
    """
    try:
        found = importlib.metadata.version("triton")
    except importlib.metadata.PackageNotFoundError:
        return "(Linux only)"
    if tuple(map(int, found.split(".")[:2])) < OLDEST_TRITON:
        oldest = ".".join(map(str, OLDEST_TRITON))
        return f">= {oldest}, which comes with torch 2.9; got {found}"
    return None


def _check_device(dynamics: CoefficientDynamics) -> None:
    if dynamics.dtype not in DTYPES:
        raise ValueError(
            f"method='triton' takes float32, float16 or bfloat16, got {dynamics.dtype}. {REMEDY}"
        )
    if dynamics.key_dim > WIDEST:
        raise ValueError(
            f"method='triton' takes heads of 1 to {WIDEST} channels, got key_dim "
            f"{dynamics.key_dim}. {REMEDY}"
        )
    if (lack := _lacks_triton()) is not None:
        raise ValueError(f"method='triton' needs the package triton {lack}. {REMEDY}")
    if dynamics.device.type != "cuda" and os.environ.get("TRITON_INTERPRET") != "1":
        here = "has one" if torch.cuda.is_available() else "has none"
        raise ValueError(
            f"method='triton' needs tensors on a CUDA device, got device "
            f"'{dynamics.device}' (this machine {here}). {REMEDY}"
        )


def run_triton(dynamics: CoefficientDynamics, v: Float[Tensor, "*batch L dv"]) -> Tensor:
    """y, for checked inputs of any of DTYPES (the entry of the dispatch table)."""
    if v.shape[-1] > WIDEST:
        raise ValueError(
            f"method='triton' takes heads of 1 to {WIDEST} channels, got d_v {v.shape[-1]}. "
            f"{REMEDY}"
        )
    if has_finite_state(dynamics):
        return _linear(dynamics, v).to(v.dtype)
    return _pointwise(dynamics, v)


def _folded(evolution: Evolution, q: Tensor, k: Tensor) -> tuple[Tensor, Tensor]:
    """q and k with the flips of sign."""
    sign = flips(evolution)
    return (q, k) if sign is None else (q * sign, k * sign)


def _flat(x: Tensor | None, batch: tuple[int, ...], trailing: int) -> Tensor | None:
    return None if x is None else flatten_batch(x, batch, trailing)


def _pointwise(dynamics: CoefficientDynamics, v: Tensor) -> Tensor:
    from coefdyn.execution.triton.pointwise import rows_kernel
    from coefdyn.execution.triton.readouts import key_of

    batch = broadcast_shapes(dynamics.batch_shape, v.shape[:-2])
    phi, eta = dynamics.readout, dynamics.normalizer
    weight, scale, shift, offset = gates(dynamics, dtype=torch.float32)
    q, k = (_flat(x, batch, 2) for x in _folded(dynamics.evolution, *keys(dynamics)))
    least = None
    if isinstance(eta, FlooredRowSum):
        least = q.new_full((q.shape[0], q.shape[1]), eta.floor, dtype=torch.float32)
        if offset is not None:
            least = least * (-_flat(offset.float(), batch, 1)).exp()
    norm = "row_sum" if isinstance(eta, RowSum) else "none" if least is None else "floored"
    peaks = phi.same_as(readouts.exp) and eta.cancels_scale
    y, *_ = rows_kernel(
        q,
        k,
        _flat(v, batch, 2),
        _flat(weight, batch, 1),
        _flat(decays(dynamics.evolution, shift, torch.float32), batch, 1),
        least,
        key_of(phi),
        norm,
        peaks,
        scale,
    )
    y = y.reshape(*batch, *y.shape[-2:])
    return normalize(y, y, None, eta if isinstance(eta, Given) else One()).to(v.dtype)


def _linear(dynamics: CoefficientDynamics, v: Tensor) -> Tensor:
    """y in float32 or v's type."""
    from coefdyn.execution.triton import diagonal, householder, linear, rank_one

    eta, evolution = dynamics.normalizer, dynamics.evolution
    problem = lower(dynamics, v, None, dtype=torch.float32)
    batch, (weight, scale, shift, _) = problem.batch, problem.gates
    q, k = (_flat(x, batch, 2) for x in _folded(evolution, problem.q, problem.k))
    if q.shape[-1] > WIDEST:
        raise ValueError(
            f"method='triton' takes heads of 1 to {WIDEST} channels; the feature map "
            f"{dynamics.readout!r} makes {q.shape[-1]}. {REMEDY}"
        )
    g = _flat(decays(evolution, shift, torch.float32), batch, 2 if per_channel(evolution) else 1)
    inputs = linear.ScanInputs(q, k, _flat(v, batch, 2), _flat(weight, batch, 1), g, None, scale)
    scan, erase = diagonal.scan if per_channel(evolution) else linear.scan, ()
    if reflects(dynamics):
        z = None if evolution.direction is dynamics.k else _flat(evolution.direction, batch, 2)
        scan, erase = householder.scan, (z, _flat(evolution.beta.float(), batch, 1))
    if type(evolution) is DiagonalPlusRankOne:
        left, right = flipped_sides(evolution)
        right = right if shift is None else right.float() * shift.exp().float()[..., None]
        scan, erase = rank_one.scan, (_flat(left, batch, 2), _flat(right, batch, 2))
    out, final = scan(inputs, *erase)
    if eta.cancels_scale:  # the row sum apart, as its weights stay in float32
        ones = torch.ones_like(inputs.v[..., :1], dtype=torch.float32)
        parts = scan(inputs._replace(v=ones), *erase)
        out, final = (torch.cat(x, -1) for x in zip((out, final), parts, strict=True))
    out, final = out.reshape(*batch, *out.shape[1:]), final.reshape(*batch, *final.shape[1:])
    return finish(dynamics, problem, out, final)[0]
