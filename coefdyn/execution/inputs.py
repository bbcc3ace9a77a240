"""Checks of a method's arguments besides the design, and the precision of its computation."""

from __future__ import annotations

import contextlib

import torch

from coefdyn.dynamics import checks
from coefdyn.dynamics.checks import can_read
from coefdyn.dynamics.coefficients import CoefficientDynamics
from coefdyn.dynamics.readout import FeatureMap
from coefdyn.execution.state import (
    CacheState,
    LinearState,
    State,
    has_finite_state,
    is_weighted,
    keeps_apart,
    outgrows,
)
from coefdyn.shapes import Tensor, broadcast_shapes

__all__ = [
    "can_read",
    "can_read_all",
    "check_state",
    "check_values",
    "full_precision",
    "in_working_precision",
    "tensors_of",
]


def check_values(dynamics: CoefficientDynamics, v: Tensor) -> None:
    """Raise unless v fits q: length, dtype, device and leading axes."""
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
    """float16 and bfloat16 inputs are computed in float32; float32 and float64 as they are.

    One exception: with a log scaling, scores may leave float32's range while eta still cancels what
    is too large. A readout that is not homogeneous must then see them: it does, in float64.
    """
    working = v.dtype
    if v.dtype in (torch.float16, torch.bfloat16):
        working = torch.float32
    if needs_float64(dynamics):
        working = torch.float64
    return (dynamics, v) if working == v.dtype else (dynamics.to(working), v.to(working))


def needs_float64(dynamics: CoefficientDynamics) -> bool:
    """Return whether scores of some hundred nats meet a readout that takes no scale out."""
    cancels = dynamics.normalizer.cancels_scale and not dynamics.readout.is_homogeneous
    return cancels and dynamics.log_scaling is not None


def full_precision(device: torch.device) -> contextlib.AbstractContextManager:
    """Disable autocast: every method computes in the dtype it is given."""
    kind = device.type
    if torch.amp.is_autocast_available(kind) and torch.is_autocast_enabled(kind):
        return torch.autocast(device.type, enabled=False)
    return contextlib.nullcontext()


def can_read_all(dynamics: CoefficientDynamics, *others: Tensor | None) -> bool:
    """``can_read`` of every tensor of a design and of ``others``."""
    return all(can_read(x) for x in (*tensors_of(dynamics), *others) if x is not None)


def tensors_of(dynamics: CoefficientDynamics) -> list[Tensor]:
    """Every tensor of a design; those that its readout's function holds are not known."""
    held = [value for value, _ in dynamics._named_tensors().values()]
    return held if dynamics.mask is None else [*held, *dynamics.mask.tensors().values()]


def check_state(dynamics: CoefficientDynamics, v: Tensor, state: State) -> None:
    """A state is of the kind that this design continues, with its sizes, dtype, log weights, outer
    decay and place in a mask.

    Raises:
        ValueError: naming the first thing that does not fit.
    """
    held_apart = isinstance(state, CacheState) and keeps_apart(dynamics)
    expected = LinearState if has_finite_state(dynamics) and not held_apart else CacheState
    if not isinstance(state, expected):
        why = "the readout or evolution changed along the sequence. Start again with state=None."
        if outgrows(dynamics):
            why = (
                "the outer decay of these tokens outgrows the dtype beside decays per channel. "
                "Give the whole sequence to apply, or to one extend."
            )
        raise ValueError(
            f"this design continues a {expected.__name__}, got a {type(state).__name__}: {why}"
        )
    weighted = is_weighted(dynamics)
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
    lead = broadcast_shapes(batch, v.shape[:-2])
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
    if isinstance(state, CacheState):
        _check_restrictions(dynamics, state, begin)


def _check_restrictions(dynamics: CoefficientDynamics, state: CacheState, begin: str) -> None:
    """The outer decay and the mask of a design go on where those of a state ended."""
    outer, mask = state.stored.outer, dynamics.mask
    if (outer is None) != (dynamics.outer_log_decay is None):
        raise ValueError(
            f"the state was made {'without' if outer is None else 'with'} an outer_log_decay, this "
            f"design has {'one' if outer is None else 'none'}: the decay of what is stored would "
            f"be lost. {begin} Where nothing decays, outer_log_decay is all zeros."
        )
    if mask is None or mask.begins() is None:
        return
    held = state.stored.vectors.shape[-2]
    position = held if state.position is None else state.position
    if not mask.continues(position):
        raise ValueError(
            f"the state ends before token {position}, and {mask!r} begins at position "
            f"{mask.begins()}: its rows would read other tokens. Give it position={position}, or "
            "cut it from that of the whole sequence (mask.narrow)."
        )
