"""Token by token: what has to be remembered between two steps.

A linear readout lets the sum over j move inside (Lemma 1): one matrix S of n x d_v numbers.
Any other readout needs every stored key h_{i,j} and every value, so its state grows with L.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from coefdyn.dynamics.coefficients import CoefficientDynamics
from coefdyn.dynamics.evolution import Dense, Identity
from coefdyn.dynamics.normalizer import FlooredRowSum, RowSum
from coefdyn.dynamics.readout import FeatureMap
from coefdyn.execution.reference import Stored, advance, nothing_stored, read_row
from coefdyn.execution.rows import normalize
from coefdyn.shapes import Float, Tensor

__all__ = [
    "CacheState",
    "LinearState",
    "State",
    "check_state",
    "has_finite_state",
    "step",
    "step_by_step",
]

#: a linear readout takes this many tokens or more at once, as a prompt, chunk by chunk
PROMPT_TOKENS = 64


@dataclass(frozen=True, eq=False)
class LinearState:
    """S_i = sum_j (A_i ... A_{j+1} b_j k_j) v_j^T, as rows: one per value channel, of length n.

    Where eta needs the row sum, one more channel carries the value 1. ``matrix * exp(offset)`` is
    the true state; the offset is None unless a normalizer that cancels it is in use.
    """

    matrix: Float[Tensor, "*batch dv n"]
    offset: Float[Tensor, "*batch"] | None


@dataclass(frozen=True, eq=False)
class CacheState:
    """Every stored key as evolved so far, its log weight if it has one, and every value."""

    stored: Stored
    values: Float[Tensor, "*batch j dv"]


State = LinearState | CacheState


def has_finite_state(dynamics: CoefficientDynamics) -> bool:
    """Whether the past fits into one matrix: identity readout, or a feature map with A_t = I."""
    phi = dynamics.readout
    return phi.is_linear or (
        isinstance(phi, FeatureMap) and isinstance(dynamics.evolution, Identity)
    )


def step(
    dynamics: CoefficientDynamics, v: Float[Tensor, "*#batch L dv"], state: State | None
) -> tuple[Tensor, State]:
    """Run the tokens held by ``dynamics`` after those remembered in ``state``."""
    from coefdyn.execution.chunked.dispatch import continue_chunked

    prompt = dynamics.length >= PROMPT_TOKENS and not isinstance(dynamics.evolution, Dense)
    if prompt and has_finite_state(dynamics) and not isinstance(state, CacheState):
        return continue_chunked(dynamics, v, state)
    return step_by_step(dynamics, v, state)


def step_by_step(
    dynamics: CoefficientDynamics, v: Float[Tensor, "*#batch L dv"], state: State | None
) -> tuple[Tensor, State]:
    """``step``, one token after the other however many there are."""
    from coefdyn.execution.apply import check_values, in_working_precision

    check_values(dynamics, v)
    dtype = v.dtype
    dynamics, v = in_working_precision(dynamics, v)
    expected = LinearState if has_finite_state(dynamics) else CacheState
    if state is not None and not isinstance(state, expected):
        raise ValueError(
            f"this design continues a {expected.__name__}, got a {type(state).__name__}: "
            "the readout or evolution changed along the sequence. Start again with state=None."
        )
    if state is not None:
        check_state(dynamics, v, state)
    run = _step_linear if expected is LinearState else _step_cache
    y, state = run(dynamics, v, state)  # type: ignore[arg-type]
    return y.to(dtype), state


def check_state(dynamics: CoefficientDynamics, v: Tensor, state: State) -> None:
    """A state of the kind that this design continues has its sizes, dtype and log weights too.

    Raises:
        ValueError: naming the first thing that does not fit.
    """
    weighted = dynamics.evolution.common_log_decay is not None or dynamics.log_scaling is not None
    n, dv, batch = dynamics.key_dim, v.shape[-1], dynamics.batch_shape
    if isinstance(state, LinearState):
        ones = dynamics.normalizer.cancels_scale
        if isinstance(dynamics.readout, FeatureMap):
            n, weighted = dynamics.readout.features(dynamics.q[..., :1, :]).shape[-1], False
        held, weighted = state.matrix.transpose(-1, -2), weighted and ones
        sizes, kept, logs = (n, dv + ones), tuple(held.shape[-2:]), state.offset
        legend = "n, d_v and 1 for a row sum" if ones else "n, d_v"
    else:
        held, logs = state.values, state.stored.log_weights
        sizes, kept = (n, dv), (state.stored.vectors.shape[-1], state.values.shape[-1])
        legend = "n, d_v"
    lead = tuple(torch.broadcast_shapes(batch, v.shape[:-2]))
    begin = "Start again with state=None, or continue with the design that made the state."
    if kept != sizes or tuple(held.shape[:-2]) != lead:
        raise ValueError(
            f"the state was made for leading axes {tuple(held.shape[:-2])} and ({legend}) = "
            f"{kept}; these tokens have {lead} and {sizes}. {begin}"
        )
    if held.dtype != v.dtype or held.device != v.device:
        raise ValueError(
            f"the state has dtype {held.dtype} on {held.device}, these tokens are computed in "
            f"{v.dtype} on {v.device}. {begin}"
        )
    if (logs is not None) != weighted:
        raise ValueError(
            f"the state was made {'without' if logs is None else 'with'} a decay common to all "
            f"channels or a log_scaling, this design has {'one' if weighted else 'none'}: its "
            f"weights would be lost. {begin}"
        )


def _step_linear(
    dynamics: CoefficientDynamics, v: Tensor, state: LinearState | None
) -> tuple[Tensor, LinearState]:
    eta = dynamics.normalizer
    q, k, log_b = _linear_inputs(dynamics)
    growth = dynamics.evolution.common_log_decay
    batch = torch.broadcast_shapes(dynamics.batch_shape, v.shape[:-2])
    if eta.cancels_scale:
        v = torch.cat([v, torch.ones_like(v[..., :1])], dim=-1)
    weighted = eta.cancels_scale and (growth is not None or log_b is not None)
    zero = v.new_zeros(())
    if state is None:
        start = 0.0 if isinstance(eta, FlooredRowSum) else -torch.inf
        offset = v.new_full(batch, start) if weighted else None
        state = LinearState(v.new_zeros(*batch, v.shape[-1], k.shape[-1]), offset)
    s, m = state.matrix, state.offset
    outputs = []
    for t in range(dynamics.length):
        g = zero if growth is None else growth[..., t]
        log_w = zero if log_b is None else log_b[..., t]
        if weighted:
            assert m is not None, "a weighted state carries its offset"
            new = torch.maximum(m + g, log_w).detach()
            new = new.clamp(min=0.0) if isinstance(eta, FlooredRowSum) else new
            g, log_w, m = m + g - new, log_w - new, new
        written = v[..., t, :, None] * (log_w.exp()[..., None] * k[..., t, :])[..., None, :]
        s = g.exp()[..., None, None] * dynamics.evolution.rotate(s, t) + written
        out = (s @ q[..., t, :, None])[..., None, :, 0]
        outputs.append(_divide(out, m, dynamics, t))
    return torch.cat(outputs, dim=-2), LinearState(s, m)


def _linear_inputs(dynamics: CoefficientDynamics) -> tuple[Tensor, Tensor, Tensor | None]:
    """q, b k and the log scaling, in the space where the readout is linear."""
    phi, k, log_b = dynamics.readout, dynamics.scaled_keys(), dynamics.log_scaling
    if isinstance(phi, FeatureMap):
        k = k if log_b is None else k * log_b.exp()[..., None]
        return phi.features(dynamics.q), phi.features(k), None
    assert phi.is_linear, f"{phi!r} has no finite state"
    return dynamics.q, k, log_b


def _divide(out: Tensor, offset: Tensor | None, dynamics: CoefficientDynamics, t: int) -> Tensor:
    """Split off the channel of ones and divide by eta_t."""
    eta = dynamics.normalizer.narrow(t, 1)
    if not isinstance(eta, (RowSum, FlooredRowSum)):
        return normalize(out, out[..., :1], None, eta)
    m = None if offset is None else offset[..., None, None]
    return normalize(out[..., :-1], out[..., -1:], m, eta)


def _step_cache(
    dynamics: CoefficientDynamics, v: Tensor, state: CacheState | None
) -> tuple[Tensor, CacheState]:
    batch = torch.broadcast_shapes(dynamics.batch_shape, v.shape[:-2])
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
    return torch.cat(outputs, dim=-2), CacheState(stored, past)
