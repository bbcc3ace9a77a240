"""Linear readouts: from the ingredients to a chunked scan, and back to y."""

from __future__ import annotations

from typing import NamedTuple

import torch

from coefdyn.dynamics.coefficients import CoefficientDynamics
from coefdyn.dynamics.evolution import (
    Diagonal,
    DiagonalPlusRankOne,
    Evolution,
    Householder,
    ScaledHouseholder,
)
from coefdyn.dynamics.readout import FeatureMap
from coefdyn.execution.chunked.diagonal import diagonal_kernel
from coefdyn.execution.chunked.householder import householder_kernel
from coefdyn.execution.chunked.householder_general import householder_general_kernel
from coefdyn.execution.chunked.operators import flatten_batch
from coefdyn.execution.chunked.rank_one import rank_one_kernel
from coefdyn.execution.chunked.scalar import scalar_kernel
from coefdyn.execution.chunked.stabilize import shifted, stabilize
from coefdyn.execution.rows import normalize
from coefdyn.execution.state import LinearState
from coefdyn.shapes import Float, Tensor

__all__ = ["kernels", "linear_scan"]

#: one kernel per structure; "householder" erases along the key, the general one along any z
kernels = {
    "scalar": scalar_kernel,
    "diagonal": diagonal_kernel,
    "householder": householder_kernel,
    "householder_general": householder_general_kernel,
    "rank_one": rank_one_kernel,
}


def per_channel(evolution: Evolution) -> bool:
    """Whether log_decay and sign are those of every channel, ``(..., L, n)``."""
    return isinstance(evolution, (Diagonal, DiagonalPlusRankOne))


class Gates(NamedTuple):
    """What a scan needs besides q, k and v; all with the leading axes they came with."""

    weight: Tensor | None  # b_j, (..., L)
    scale: float  # a constant factor of b_j
    log_decay: Tensor | None  # (..., L), or (..., L, n) for a diagonal evolution
    sign: Tensor | None  # s_1 ... s_i, shaped like log_decay
    offset: Tensor | None  # m_i of a stabilised scan, (..., L)
    shift: Tensor | None = None  # m_{i-1} - m_i, already within log_decay


def linear_scan(
    dynamics: CoefficientDynamics,
    v: Float[Tensor, "*batch L dv"],
    state: LinearState | None,
    chunk: int,
) -> tuple[Tensor, LinearState]:
    """y of these tokens and the state after them (see ``coefdyn.execution.state.step``)."""
    batch = torch.broadcast_shapes(dynamics.batch_shape, v.shape[:-2])
    q, k = _queries_and_keys(dynamics)
    gates = _gates(dynamics, None if state is None else state.offset)
    if dynamics.normalizer.cancels_scale:
        v = torch.cat([v, torch.ones_like(v[..., :1])], dim=-1)
    start = None if state is None else state.matrix.transpose(-1, -2)
    out, final = _scan(dynamics, batch, q, k, v, gates, start, chunk)
    out = out.unflatten(0, batch) if batch else out[0]
    final = (final.unflatten(0, batch) if batch else final[0]).transpose(-1, -2)
    if gates.sign is not None:  # S_L = (s_1 ... s_L) S'_L, see _scan
        diagonal = per_channel(dynamics.evolution)
        last = gates.sign[..., -1, None, :] if diagonal else gates.sign[..., -1, None, None]
        final = final * last
    end = None if gates.offset is None else gates.offset[..., -1].expand(batch)
    return _divide(dynamics, out, gates.offset), LinearState(final, end)


def _queries_and_keys(dynamics: CoefficientDynamics) -> tuple[Tensor, Tensor]:
    """q and k in the space where the readout is linear; b sits inside a feature map."""
    phi = dynamics.readout
    if not isinstance(phi, FeatureMap):
        return dynamics.q, dynamics.k
    k, log_b = dynamics.scaled_keys(), dynamics.log_scaling
    return phi.features(dynamics.q), phi.features(
        k if log_b is None else k * log_b.exp()[..., None]
    )


def _gates(dynamics: CoefficientDynamics, start: Tensor | None) -> Gates:
    """b_j, g_j and the flips; stabilised where eta cancels the common factor of a row."""
    evolution, log_b = dynamics.evolution, dynamics.log_scaling
    g = getattr(evolution, "log_decay", None)
    sign = getattr(evolution, "sign", None)
    diagonal = per_channel(evolution)
    if sign is not None:
        sign = sign.cumprod(-2 if diagonal else -1)
    weight, scale = None, 1.0
    if isinstance(dynamics.readout, FeatureMap):
        return Gates(None, 1.0, g, sign, None)
    if isinstance(dynamics.scaling, Tensor):
        weight = dynamics.scaling
    else:
        scale = float(dynamics.scaling)
    growth = evolution.common_log_decay
    if not dynamics.normalizer.cancels_scale or (growth is None and log_b is None):
        factor = None if log_b is None else log_b.exp()
        return Gates(_product(weight, factor), scale, g, sign, None)
    logs = torch.zeros_like(growth) if log_b is None else log_b
    if diagonal:
        growth = g.amax(-1)
    if isinstance(evolution, DiagonalPlusRankOne):  # what right reads does not decay with g
        growth = growth.clamp(min=0.0)
    gates = stabilize(growth, logs, start)
    shift = gates.shift[..., None] if diagonal else gates.shift
    g = shifted(g, shift, dynamics.dtype)
    return Gates(_product(weight, gates.weight), scale, g, sign, gates.offset, gates.shift)


def _product(a: Tensor | None, b: Tensor | None) -> Tensor | None:
    if a is None or b is None:
        return b if a is None else a
    return a * b


def _scan(dynamics, batch, q, k, v, gates: Gates, start, chunk: int) -> tuple[Tensor, Tensor]:
    """Flatten the leading axes and call the kernel of the structure."""
    evolution = dynamics.evolution
    diagonal = per_channel(evolution)

    def flat(x: Tensor | None, trailing: int) -> Tensor | None:
        return None if x is None else flatten_batch(x, batch, trailing)

    if gates.sign is not None:  # s_{j+1} ... s_i = (s_1 ... s_i) (s_1 ... s_j); z z^T has no sign
        sign = gates.sign if diagonal else gates.sign[..., None]
        q, k = q * sign, k * sign
    q, k, v = flat(q, 2), flat(k, 2), flat(v, 2)
    weight, start = flat(gates.weight, 1), flat(start, 2)
    g = flat(gates.log_decay, 2 if diagonal else 1)
    rest = (weight, g, start, chunk, gates.scale)
    if isinstance(evolution, DiagonalPlusRankOne):
        left, right = (flat(x, 2) for x in _rank_one(evolution, gates))
        return kernels["rank_one"](q, k, v, left, right, *rest)
    if diagonal:
        return kernels["diagonal"](q, k, v, *rest)
    if not isinstance(evolution, (Householder, ScaledHouseholder)):
        return kernels["scalar"](q, k, v, *rest)
    beta = flat(evolution.beta, 1)
    if evolution.direction is dynamics.k:
        return kernels["householder"](q, k, v, beta, *rest)
    return kernels["householder_general"](q, k, v, flat(evolution.direction, 2), beta, *rest)


def _rank_one(evolution: DiagonalPlusRankOne, gates: Gates) -> tuple[Tensor, Tensor]:
    """left and right as the scan takes them: flips folded in, right_t as of t - 1, and shifted."""
    left, right = evolution.left, evolution.right
    if gates.sign is not None:
        before = torch.nn.functional.pad(gates.sign[..., :-1, :], (0, 0, 1, 0), value=1.0)
        left, right = left * gates.sign, right * before
    if gates.shift is not None:
        right = right * gates.shift.exp()[..., None].to(right.dtype)
    return left, right


def _divide(dynamics: CoefficientDynamics, out: Tensor, offset: Tensor | None) -> Tensor:
    """Split off the channel of ones and divide by eta."""
    eta = dynamics.normalizer
    if not eta.cancels_scale:
        return normalize(out, out[..., :1], None, eta)  # no row sum is needed
    m = None if offset is None else offset[..., None]
    return normalize(out[..., :-1], out[..., -1:], m, eta)
