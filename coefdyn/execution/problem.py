r"""A design lowered to the linear problem of the algorithms, and the way back to normalized rows.

Whatever the structure of A_t, a linear readout is

    S_i = e^{shift_i} A_i S_{i-1} + b_i k_i v_i^T,     o_i = S_i^T q_i,     y_i = o_i / eta_i

with feature maps applied, b_i = scale * weight_i, one more value channel for a row sum, and gates
stabilised where eta cancels the scale of a row. No algorithm decides any of this a second time.
"""

from __future__ import annotations

from typing import NamedTuple, cast

import torch

from coefdyn.dynamics.coefficients import CoefficientDynamics
from coefdyn.dynamics.evolution import DiagonalPlusRankOne, Evolution
from coefdyn.dynamics.readout import FeatureMap
from coefdyn.execution.restrictions import with_own
from coefdyn.execution.rows import log_size, normalize
from coefdyn.execution.stabilize import shifted, stabilize
from coefdyn.execution.state import LinearState
from coefdyn.shapes import Float, Tensor, broadcast_shapes

__all__ = [
    "Gates",
    "Problem",
    "decays",
    "finish",
    "flipped_sides",
    "flips",
    "gates",
    "keys",
    "lower",
    "per_channel",
]


class Gates(NamedTuple):
    """b_i = scale * weight_i, and the stabiliser in float64: shift m_{i-1} - m_i, offset m_i."""

    weight: Float[Tensor, "*#batch L"] | None
    scale: float
    shift: Float[Tensor, "*#batch L"] | None
    offset: Float[Tensor, "*#batch L"] | None


class Problem(NamedTuple):
    """See the module's equation; ``start`` is S_0 as ``(..., n, d_v)``, or None."""

    batch: tuple[int, ...]
    q: Float[Tensor, "*#batch L n"]
    k: Float[Tensor, "*#batch L n"]
    v: Float[Tensor, "*#batch L dv"]
    gates: Gates
    start: Float[Tensor, "*batch n dv"] | None


def keys(dynamics: CoefficientDynamics) -> tuple[Tensor, Tensor]:
    """q and k in the space of the scores; b sits inside a feature map, else in the gates."""
    phi = dynamics.readout
    if not isinstance(phi, FeatureMap):
        return dynamics.q, dynamics.k
    k, log_b = dynamics.scaled_keys(), dynamics.log_scaling
    k = k if log_b is None else k * log_b.exp()[..., None]
    return phi.features(dynamics.q), phi.features(k)


def gates(
    dynamics: CoefficientDynamics,
    start: Float[Tensor, "*batch"] | None = None,
    dtype: torch.dtype | None = None,
) -> Gates:
    """b, stabilised where eta cancels the common factor of a row.

    Args:
        dynamics: the design.
        start: the offset of the state before these tokens.
        dtype: of the weight; that of q if None.
    """
    phi, b, log_b = dynamics.readout, dynamics.scaling, dynamics.log_scaling
    if isinstance(phi, FeatureMap):
        return Gates(None, 1.0, None, None)
    dtype = dtype or dynamics.dtype
    weight, scale = (b.to(dtype), 1.0) if isinstance(b, Tensor) else (None, float(b))
    growth = dynamics.evolution.common_log_decay
    growth, log_b = (None if x is None else x.to(dtype) for x in (growth, log_b))
    tracked = dynamics.normalizer.cancels_scale and phi.is_homogeneous
    if not tracked or (growth is None and log_b is None):
        return Gates(product(weight, None if log_b is None else log_b.exp()), scale, None, None)
    size = log_size(torch.linalg.vector_norm(dynamics.scaled_keys().to(dtype), dim=-1))
    logs = torch.zeros_like(cast(Tensor, growth)) if log_b is None else log_b
    found = stabilize(growth, logs, size, start)
    return Gates(product(weight, found.weight), scale, found.shift, found.offset)


def product(a: Tensor | None, b: Tensor | None) -> Tensor | None:
    """a * b, where None means 1."""
    if a is None or b is None:
        return b if a is None else a
    return a * b


def lower(
    dynamics: CoefficientDynamics,
    v: Float[Tensor, "*#batch L dv"],
    state: LinearState | None,
    dtype: torch.dtype | None = None,
) -> Problem:
    """The linear problem of these tokens after ``state``; ``dtype`` is that of the gates."""
    q, k = keys(dynamics)
    if dynamics.normalizer.cancels_scale:
        v = torch.cat([v, torch.ones_like(v[..., :1])], dim=-1)
    return Problem(
        broadcast_shapes(dynamics.batch_shape, v.shape[:-2]),
        q,
        k,
        v,
        gates(dynamics, None if state is None else state.offset, dtype),
        None if state is None else state.matrix.transpose(-1, -2),
    )


def finish(
    dynamics: CoefficientDynamics, problem: Problem, out: Tensor, final: Float[Tensor, "*b n dv"]
) -> tuple[Tensor, LinearState]:
    """y from o, and the state from S_L."""
    eta, m = dynamics.normalizer, problem.gates.offset
    end = None if m is None else m[..., -1].expand(problem.batch).clone()  # no view of all tokens
    state = LinearState(final.transpose(-1, -2), end)
    m = None if m is None else m[..., None].to(out.dtype)
    out, m = with_own(out, m, dynamics.own, problem.v)
    if not eta.cancels_scale:
        return normalize(out, out[..., :1], None, eta), state  # no row sum is needed
    return normalize(out[..., :-1], out[..., -1:], m, eta), state


def per_channel(evolution: Evolution) -> bool:
    """True if the decay is one number per channel."""
    return evolution.axes.get("log_decay") == "Ln"


def decays(
    evolution: Evolution, shift: Tensor | None, dtype: torch.dtype
) -> Float[Tensor, "*#batch L *n"] | None:
    """g_i + shift_i, ``(..., L)`` or ``(..., L, n)``, rounded once; None for 0."""
    g = getattr(evolution, "log_decay", None)
    if shift is None:
        return None if g is None else g.to(dtype)
    return shifted(g, shift[..., None] if per_channel(evolution) else shift, dtype)


def flips(evolution: Evolution) -> Float[Tensor, "*#batch L #n"] | None:
    """s_1 ... s_i, for a product with q and k: s_{j+1} ... s_i = (s_1 ... s_i) (s_1 ... s_j)."""
    sign = getattr(evolution, "sign", None)
    if sign is None:
        return None
    return sign.cumprod(-2) if per_channel(evolution) else sign.cumprod(-1)[..., None]


def flipped_sides(evolution: DiagonalPlusRankOne) -> tuple[Tensor, Tensor]:
    """left and right with the flips folded in; right_t reads what token t - 1 left."""
    sign = flips(evolution)
    if sign is None:
        return evolution.left, evolution.right
    before = torch.nn.functional.pad(sign[..., :-1, :], (0, 0, 1, 0), value=1.0)
    return evolution.left * sign, evolution.right * before
