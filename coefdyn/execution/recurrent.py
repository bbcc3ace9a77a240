"""Token by token: one state matrix for linear readouts, all keys and values for any other.

States are continued here, and by the chunks of a linear readout (``chunked/linear.py``).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch.utils.checkpoint import checkpoint

from coefdyn.dynamics.coefficients import CoefficientDynamics
from coefdyn.dynamics.evolution import Identity
from coefdyn.execution.growth import hidden_growth
from coefdyn.execution.inputs import can_read_all, tensors_of
from coefdyn.execution.parallel import outer_sums
from coefdyn.execution.problem import Gates, finish, lower, product
from coefdyn.execution.reference import advance, nothing_stored, read_row
from coefdyn.execution.restrictions import check_unrestricted
from coefdyn.execution.rows import averaged, log_size
from coefdyn.execution.state import CacheState, LinearState, State, Stored, has_finite_state
from coefdyn.shapes import Tensor, broadcast_shapes

__all__ = ["apply", "check_recurrent", "checkpointed", "remember", "step_cache", "step_linear"]

#: tokens per tile of a design that keeps every key
ROWS = 128


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
        offsets.append(offset)
    gates = Gates(None, 1.0, None, torch.stack(offsets, -1) if tracked else None)
    out = torch.stack(outputs, dim=-2)
    return finish(dynamics, problem._replace(gates=gates), out, s.transpose(-1, -2))


def step_cache(
    dynamics: CoefficientDynamics, v: Tensor, state: CacheState | None, rows: int = ROWS
) -> tuple[Tensor, CacheState]:
    """These tokens after those in ``state``, for any readout.

    A tile of ``rows`` tokens at a time; the backward pass computes it again.
    """
    stored, values = _before(dynamics, v, state)
    outputs = []
    for start in range(0, dynamics.length, rows):
        stop = min(start + rows, dynamics.length)
        y, stored = checkpointed(_tile, dynamics, values, stored, start, stop)
        outputs.append(y)
    return torch.cat(outputs, dim=-2), CacheState(stored, values, _position(dynamics))


def remember(dynamics: CoefficientDynamics, v: Tensor) -> CacheState:
    """The state after the first tokens of a sequence: ``step_cache`` without its y."""
    stored, values = _before(dynamics, v, None)
    if type(dynamics.evolution) is Identity:  # nothing evolves
        keys = dynamics.scaled_keys().expand(*stored.vectors.shape[:-2], *dynamics.k.shape[-2:])
        logs, outer = stored.log_weights, outer_sums(dynamics, dynamics.length - 1)
        if logs is not None:
            written = dynamics.log_scaling
            logs = keys.new_zeros(()) if written is None else written
            logs = logs.double().expand(keys.shape[:-1])
        if outer is not None:
            outer = outer[..., 0, :].expand(keys.shape[:-1])
        return CacheState(Stored(keys, logs, outer), values, _position(dynamics))
    for start in range(0, dynamics.length, ROWS):
        stop = min(start + ROWS, dynamics.length)
        stored = checkpointed(_advanced, dynamics, values, stored, start, stop)
    return CacheState(stored, values, _position(dynamics))


def _before(
    dynamics: CoefficientDynamics, v: Tensor, state: CacheState | None
) -> tuple[Stored, Tensor]:
    """Stored keys before these tokens, and all values, those of these tokens included."""
    batch = tuple(broadcast_shapes(dynamics.batch_shape, v.shape[:-2]))
    v = v.expand(*batch, *v.shape[-2:])
    if state is None:
        return nothing_stored(dynamics, batch), v
    return state.stored, torch.cat([state.values, v], dim=-2)


def _position(dynamics: CoefficientDynamics) -> int | None:
    """Position of the next token, for a mask that counts positions."""
    begun = None if dynamics.mask is None else dynamics.mask.begins()
    return None if begun is None else begun + dynamics.length


def _tile(
    dynamics: CoefficientDynamics, values: Tensor, stored: Stored, start: int, stop: int
) -> tuple[Tensor, Stored]:
    """Rows start .. stop - 1, and the stored keys after them."""
    past, outputs = values.shape[-2] - dynamics.length, []
    for i in range(start, stop):
        stored = advance(dynamics, stored, i)
        eta = dynamics.normalizer.narrow(i, 1)
        outputs.append(averaged(read_row(dynamics, stored, i), values[..., : past + i + 1, :], eta))
    return torch.cat(outputs, -2), stored


def _advanced(
    dynamics: CoefficientDynamics, values: Tensor, stored: Stored, start: int, stop: int
) -> Stored:
    """Stored keys after tokens start .. stop - 1."""
    for i in range(start, stop):
        stored = advance(dynamics, stored, i)
    return stored


def checkpointed(tile: Callable[..., Any], dynamics: CoefficientDynamics, v: Tensor, *args: Any):
    """Call tile(dynamics, v, *args); the backward pass computes it again."""
    kept = [x for one in args if isinstance(one, State) for x in one.tensors()]
    if not torch.is_grad_enabled() or not can_read_all(dynamics, v, *kept):
        return tile(dynamics, v, *args)  # torch.func knows no checkpoints
    held = [x for x in (*tensors_of(dynamics), v, *kept) if not x.is_inference()]
    versions = [x._version for x in held]

    def unchanged(*args: Any):
        if [x._version for x in held] != versions:
            raise RuntimeError(
                "an input of apply was changed in place between the forward and the backward "
                "pass, which computes its rows again from it; change a clone instead."
            )
        return tile(*args)

    return checkpoint(unchanged, dynamics, v, *args, use_reentrant=False)
