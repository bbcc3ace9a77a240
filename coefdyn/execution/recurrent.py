"""Token by token: one state matrix for linear readouts, all keys and values for any other."""

from __future__ import annotations

from dataclasses import replace

import torch

from coefdyn.dynamics.coefficients import CoefficientDynamics
from coefdyn.execution.growth import hidden_growth
from coefdyn.execution.problem import Gates, finish, lower, product
from coefdyn.execution.reference import advance, nothing_stored, read_row
from coefdyn.execution.restrictions import check_unrestricted
from coefdyn.execution.rows import log_size, normalize
from coefdyn.execution.state import CacheState, LinearState, has_finite_state
from coefdyn.shapes import Tensor, broadcast_shapes

__all__ = ["apply", "check_recurrent", "step_cache", "step_linear"]


def check_recurrent(dynamics: CoefficientDynamics) -> None:
    """Raise ValueError for a readout whose past does not fit into a state of fixed size."""
    check_unrestricted(dynamics, "recurrent", "Use method='chunked' or 'auto'.")
    if has_finite_state(dynamics):
        return
    phi, evolution = dynamics.readout, type(dynamics.evolution).__name__
    raise ValueError(
        f"method='recurrent' needs a linear readout, or a FeatureMap with Identity evolution; got "
        f"{phi!r} with {evolution}. Its past does not fit into a state of fixed size (Lemma 1: "
        "with a state of n x d_v numbers only phi = identity has a recurrent form). "
        "Use method='parallel' or 'auto'; extend() also works and keeps every key and value."
    )


def apply(dynamics: CoefficientDynamics, v: Tensor) -> Tensor:
    """y through S_i = A_i S_{i-1} + b_i k_i v_i^T, y_i = S_i^T q_i / eta_i (Lemma 1).

    O(L n d_v) work, O(n d_v) memory.
    """
    return step_linear(dynamics, v, None)[0]


def step_linear(
    dynamics: CoefficientDynamics, v: Tensor, state: LinearState | None
) -> tuple[Tensor, LinearState]:
    """These tokens after those in ``state``, for any structure that can rotate a vector."""
    if hidden_growth(dynamics):
        return step_growing(dynamics, v, state)
    problem = lower(dynamics, v, state)
    weight, scale, shift, _ = problem.gates
    growth, dtype = dynamics.evolution.common_log_decay, dynamics.dtype
    if shift is not None:
        growth = (shift if growth is None else growth.double() + shift).to(dtype)
    factor = None if growth is None else growth.exp()[..., None, None]
    weight = product(weight, None if scale == 1.0 else problem.v.new_tensor(scale))
    v = problem.v if weight is None else problem.v * weight[..., None]
    s = problem.start
    if s is None:
        s = v.new_zeros(*problem.batch, problem.k.shape[-1], v.shape[-1])
    s = s.transpose(-1, -2)
    outputs = []
    for t in range(dynamics.length):
        s = dynamics.evolution.rotate(s, t)
        s = s if factor is None else factor[..., t, :, :] * s
        s = s + v[..., t, :, None] * problem.k[..., t, None, :]
        outputs.append((s @ problem.q[..., t, :, None])[..., 0])
    out = torch.stack(outputs, dim=-2)
    return finish(dynamics, problem, out, s.transpose(-1, -2))


def step_growing(
    dynamics: CoefficientDynamics, v: Tensor, state: LinearState | None
) -> tuple[Tensor, LinearState]:
    """``step_linear`` with an offset that follows the state's own size.

    That of the gates follows what an erasing evolution could have kept, and where such a design
    grows far more may be gone: the state would fall below the dtype's range.
    """
    growth, log_b = dynamics.evolution.common_log_decay, dynamics.log_scaling
    tracked = dynamics.normalizer.cancels_scale
    problem = lower(replace(dynamics, log_scaling=None), v, state)
    k, v, s = dynamics.scaled_keys(), problem.v, problem.start
    size = log_size(torch.linalg.vector_norm(k, dim=-1)).double()
    if s is None:
        s = v.new_zeros(*problem.batch, k.shape[-1], v.shape[-1])
    s = s.transpose(-1, -2)
    offset = s.new_zeros(problem.batch, dtype=torch.float64)
    if state is not None and state.offset is not None:
        offset = state.offset.double()
    outputs, offsets = [], []
    for t in range(dynamics.length):
        s = dynamics.evolution.rotate(s, t)
        kept = offset if growth is None else offset + growth[..., t].double()
        written = torch.zeros_like(offset)
        written = written if log_b is None else written + log_b[..., t].double()
        offset = torch.zeros_like(offset)
        if tracked:
            held = log_size(s).amax((-2, -1)).double() + kept.detach()
            offset = torch.maximum(held, written.detach() + size[..., t])
        down, up = ((x - offset).exp().to(s.dtype)[..., None, None] for x in (kept, written))
        s = down * s + up * (v[..., t, :, None] * k[..., t, None, :])
        outputs.append((s @ problem.q[..., t, :, None])[..., 0])
        offsets.append(offset.to(s.dtype))
    gates = Gates(None, 1.0, None, torch.stack(offsets, -1) if tracked else None)
    out = torch.stack(outputs, dim=-2)
    return finish(dynamics, problem._replace(gates=gates), out, s.transpose(-1, -2))


def step_cache(
    dynamics: CoefficientDynamics, v: Tensor, state: CacheState | None
) -> tuple[Tensor, CacheState]:
    """These tokens after those in ``state``, for any readout."""
    batch = broadcast_shapes(dynamics.batch_shape, v.shape[:-2])
    v = v.expand(*batch, *v.shape[-2:])
    if state is None:
        state = CacheState(nothing_stored(dynamics, tuple(batch)), v[..., :0, :])
    stored, past = state.stored, state.values
    outputs = []
    for t in range(dynamics.length):
        stored = advance(dynamics, stored, t)
        past = torch.cat([past, v[..., t : t + 1, :]], dim=-2)
        row, offset = read_row(dynamics, stored, t)
        eta = dynamics.normalizer.narrow(t, 1)
        outputs.append(normalize(row, row.sum(-1, keepdim=True), offset, eta) @ past)
    begun = None if dynamics.mask is None else dynamics.mask.begins()
    after = None if begun is None else begun + dynamics.length
    return torch.cat(outputs, dim=-2), CacheState(stored, past, after)
