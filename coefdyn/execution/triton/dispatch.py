"""``method="triton"``: which kernel serves which design, and what cannot be served.

Importing this module imports no triton; a kernel's module is imported when a design needs it.
"""

from __future__ import annotations

import importlib.util
import os
from typing import NamedTuple

import torch

from coefdyn.dynamics import readout as readouts
from coefdyn.dynamics.coefficients import CoefficientDynamics
from coefdyn.dynamics.evolution import Diagonal, Householder, ScaledHouseholder
from coefdyn.dynamics.normalizer import FlooredRowSum, Given, One, RowSum
from coefdyn.dynamics.readout import FeatureMap
from coefdyn.execution.chunked.operators import flatten_batch
from coefdyn.execution.chunked.stabilize import shifted, stabilize
from coefdyn.execution.rows import normalize
from coefdyn.execution.state import LinearState, has_finite_state
from coefdyn.shapes import Float, Tensor

__all__ = ["STRUCTURES", "check_triton", "continue_triton", "run_triton"]

STRUCTURES = ("identity", "scalar", "diagonal", "householder", "scaled_householder")
DTYPES = (torch.float32, torch.float16, torch.bfloat16)
#: widest head, of keys or of values
WIDEST = 256
REMEDY = "Use method='chunked'."


def check_triton(dynamics: CoefficientDynamics) -> None:
    """Raise ValueError if no kernel computes this design here, naming a method that does."""
    phi, structure = dynamics.readout, dynamics.evolution.structure
    if isinstance(phi, FeatureMap) and not has_finite_state(dynamics):
        raise ValueError(
            f"method='triton' takes a FeatureMap with Identity evolution only; got {phi!r} with a "
            f"{structure} evolution. Use method='parallel'."
        )
    if structure not in STRUCTURES:
        raise ValueError(
            f"method='triton' has no kernel for a {structure} evolution; available: reference, "
            f"recurrent, parallel{'' if structure == 'dense' else ', chunked'}."
        )
    if not has_finite_state(dynamics):
        _check_readout(dynamics)
    _check_device(dynamics)


def _check_readout(dynamics: CoefficientDynamics) -> None:
    phi = dynamics.readout
    if importlib.util.find_spec("triton") is None:
        return  # said by _check_device
    from coefdyn.execution.triton.readouts import key_of, names

    if key_of(phi) is None:
        raise ValueError(
            f"method='triton' has no kernel for the readout {phi!r}; it knows "
            f"{', '.join(names())}. Give it yours by "
            f"coefdyn.execution.triton.readouts.register(readout, phi=..., slope=...). {REMEDY}"
        )


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
    if importlib.util.find_spec("triton") is None:
        raise ValueError(f"method='triton' needs the package triton (Linux only). {REMEDY}")
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
        return _linear(dynamics, v, None)[0].to(v.dtype)
    return _pointwise(dynamics, v)


def continue_triton(
    dynamics: CoefficientDynamics,
    v: Float[Tensor, "*batch L dv"],
    state: LinearState | None = None,
) -> tuple[Tensor, LinearState]:
    """Tokens after those remembered in ``state``: y and the new state, like ``step``.

    Raises:
        ValueError: for a readout without a state of fixed size, and as ``check_triton``.
    """
    from coefdyn.execution.apply import check_values

    check_triton(dynamics)
    check_values(dynamics, v)
    if not has_finite_state(dynamics):
        raise ValueError(
            f"a continuation needs a linear readout; got {dynamics.readout!r}, which must keep "
            "every key. Use step()."
        )
    y, state = _linear(dynamics, v, state)
    return y.to(v.dtype), state


class Gates(NamedTuple):
    """Per token, in float32: b_j, a constant factor of it, g_t and the stabiliser m_i."""

    weight: Tensor | None
    scale: float
    log_decay: Tensor | None
    offset: Tensor | None


def _gates(dynamics: CoefficientDynamics, start: Tensor | None = None) -> Gates:
    """b and g; stabilised where eta cancels a common factor of the row (see chunked/linear.py)."""
    evolution, b, log_b = dynamics.evolution, dynamics.scaling, dynamics.log_scaling
    if isinstance(dynamics.readout, FeatureMap):
        return Gates(None, 1.0, None, None)
    weight, scale = (b.float(), 1.0) if isinstance(b, Tensor) else (None, float(b))
    g = getattr(evolution, "log_decay", None)
    g = None if g is None else g.float()
    growth = None if evolution.common_log_decay is None else g
    log_b = None if log_b is None else log_b.float()
    tracked = dynamics.normalizer.cancels_scale and dynamics.readout.is_homogeneous
    if not tracked or (growth is None and log_b is None):
        return Gates(_product(weight, None if log_b is None else log_b.exp()), scale, g, None)
    diagonal = isinstance(evolution, Diagonal)
    logs = torch.zeros_like(growth) if log_b is None else log_b
    gates = stabilize(growth, logs, start)
    shift = gates.shift[..., None] if diagonal else gates.shift
    g = shifted(g, shift, torch.float32)
    return Gates(_product(weight, gates.weight), scale, g, gates.offset)


def _product(a: Tensor | None, b: Tensor | None) -> Tensor | None:
    if a is None or b is None:
        return b if a is None else a
    return a * b


def _keys(dynamics: CoefficientDynamics) -> tuple[Tensor, Tensor]:
    """q and k in the space of the scores; flips of sign are folded into both."""
    phi, q, k = dynamics.readout, dynamics.q, dynamics.k
    if isinstance(phi, FeatureMap):
        k, log_b = dynamics.scaled_keys(), dynamics.log_scaling
        k = k if log_b is None else k * log_b.exp()[..., None]
        return phi.features(q), phi.features(k)
    sign = _flips(dynamics)
    return (q, k) if sign is None else (q * sign, k * sign)


def _flips(dynamics: CoefficientDynamics) -> Tensor | None:
    """s_1 ... s_i, broadcastable to q."""
    sign = getattr(dynamics.evolution, "sign", None)
    if sign is None:
        return None
    diagonal = isinstance(dynamics.evolution, Diagonal)
    return sign.cumprod(-2) if diagonal else sign.cumprod(-1)[..., None]


def _flat(x: Tensor | None, batch: tuple[int, ...], trailing: int) -> Tensor | None:
    return None if x is None else flatten_batch(x, batch, trailing)


def _pointwise(dynamics: CoefficientDynamics, v: Tensor) -> Tensor:
    from coefdyn.execution.triton.diagonal_pointwise import diagonal_rows_kernel
    from coefdyn.execution.triton.householder_pointwise import householder_rows_kernel
    from coefdyn.execution.triton.pointwise import rows_kernel
    from coefdyn.execution.triton.readouts import key_of

    batch = tuple(torch.broadcast_shapes(dynamics.batch_shape, v.shape[:-2]))
    phi, eta, gates = dynamics.readout, dynamics.normalizer, _gates(dynamics)
    q, k = (_flat(x, batch, 2) for x in _keys(dynamics))
    evolution, erase = dynamics.evolution, ()
    diagonal = isinstance(evolution, Diagonal)
    kernel = diagonal_rows_kernel if diagonal else rows_kernel
    if isinstance(evolution, (Householder, ScaledHouseholder)):
        kernel = householder_rows_kernel
        erase = _flat(evolution.direction, batch, 2), _flat(evolution.beta.float(), batch, 1)
    least = None
    if isinstance(eta, FlooredRowSum):
        least = q.new_full((q.shape[0], q.shape[1]), eta.floor, dtype=torch.float32)
        if gates.offset is not None:
            least = least * (-_flat(gates.offset.float(), batch, 1)).exp()
    norm = "row_sum" if isinstance(eta, RowSum) else "none" if least is None else "floored"
    shift = phi.same_as(readouts.exp) and eta.cancels_scale
    y, *_ = kernel(
        q,
        k,
        *erase,
        _flat(v, batch, 2),
        _flat(gates.weight, batch, 1),
        _flat(gates.log_decay, batch, 2 if diagonal else 1),
        least,
        key_of(phi),
        norm,
        shift,
        gates.scale,
    )
    y = y.reshape(*batch, *y.shape[-2:])
    return normalize(y, y, None, eta if isinstance(eta, Given) else One()).to(v.dtype)


def _linear(
    dynamics: CoefficientDynamics, v: Tensor, state: LinearState | None
) -> tuple[Tensor, LinearState]:
    """y in float32 or v's type, and the state after the last token."""
    from coefdyn.execution.triton import linear

    batch = tuple(torch.broadcast_shapes(dynamics.batch_shape, v.shape[:-2]))
    eta, evolution = dynamics.normalizer, dynamics.evolution
    gates = _gates(dynamics, None if state is None else state.offset)
    q, k = (_flat(x, batch, 2) for x in _keys(dynamics))
    if q.shape[-1] > WIDEST:
        raise ValueError(
            f"method='triton' takes heads of 1 to {WIDEST} channels; the feature map "
            f"{dynamics.readout!r} makes {q.shape[-1]}. {REMEDY}"
        )
    diagonal = isinstance(evolution, Diagonal)
    start = None if state is None else _flat(state.matrix.float().mT, batch, 2)
    tokens = linear.Tokens(
        q,
        k,
        _flat(v, batch, 2),
        _flat(gates.weight, batch, 1),
        _flat(gates.log_decay, batch, 2 if diagonal else 1),
        start,
        gates.scale,
    )
    erase = ()
    if isinstance(evolution, (Householder, ScaledHouseholder)):
        z = None if evolution.direction is dynamics.k else _flat(evolution.direction, batch, 2)
        erase = z, _flat(evolution.beta.float(), batch, 1)
    scan = linear.householder_scan if erase else linear.scalar_scan
    scan = linear.diagonal_scan if diagonal else scan
    if eta.cancels_scale:
        ends = (None, None) if start is None else (start[..., :-1], start[..., -1:])
        ones = torch.ones_like(tokens.v[..., :1], dtype=torch.float32)
        parts = [
            scan(tokens._replace(v=x, start=at), *erase)
            for x, at in zip((tokens.v, ones), ends, strict=True)
        ]
        out, final = (torch.cat(x, -1) for x in zip(*parts, strict=True))
    else:
        out, final = scan(tokens, *erase)
    out, final = out.reshape(*batch, *out.shape[1:]), final.reshape(*batch, *final.shape[1:]).mT
    sign = _flips(dynamics)
    if sign is not None:
        final = final * sign[..., -1:, :]
    end = None if gates.offset is None else gates.offset[..., -1].expand(batch)
    m = None if gates.offset is None else gates.offset[..., None]
    if not eta.cancels_scale:
        return normalize(out, out[..., :1], None, eta), LinearState(final, end)
    return normalize(out[..., :-1], out[..., -1:], m, eta), LinearState(final, end)
