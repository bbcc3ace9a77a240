"""Additions to the four ingredients of a design: an own term, an outer decay, a mask.

    alpha_{i,j} = M_{i,j} (exp(c_{j+1} + ... + c_i) phi(q_i^T h_{i,j}) + [i = j] own_i)

Algorithms see as little of it as they can: an outer decay of a linear readout is a decay of A_t
(``absorbed``), an own term is added to o_i where it is known (``with_own``), a sink to the row sum
(``with_sink``). What is left, masks and outer decays of other readouts, goes through rows.
"""

from __future__ import annotations

from dataclasses import replace

import torch

from coefdyn.dynamics import readout as readouts
from coefdyn.dynamics.coefficients import CoefficientDynamics
from coefdyn.dynamics.evolution import (
    Dense,
    Diagonal,
    DiagonalPlusRankOne,
    Evolution,
    Householder,
    Identity,
    Scalar,
)
from coefdyn.dynamics.readout import FeatureMap
from coefdyn.execution.state import has_finite_state, outgrows
from coefdyn.shapes import Bool, Float, Tensor

__all__ = ["absorbed", "allowed", "check_unrestricted", "in_features", "with_own", "with_sink"]


def absorbed(dynamics: CoefficientDynamics) -> CoefficientDynamics:
    """The same design with its outer decay as a factor of A_t, where the readout allows that.

    It does if it is linear, also in features of A_t = I (but for a sink, which belongs to the
    features). Others keep theirs, and so does a mask: what it shuts out may grow out of range.
    """
    c, phi = dynamics.outer_log_decay, dynamics.readout
    if c is None:
        return dynamics
    if phi.is_linear and has_finite_state(dynamics):
        evolution = faded(dynamics.evolution, c)
        if evolution is not None:
            return replace(dynamics, evolution=evolution, outer_log_decay=None)
    if isinstance(phi, FeatureMap) and has_finite_state(dynamics):
        linear, decay = in_features(dynamics), Scalar(log_decay=c)
        return replace(linear, evolution=decay, outer_log_decay=None)
    return dynamics


def in_features(dynamics: CoefficientDynamics) -> CoefficientDynamics:
    """psi(q) and psi(b k) as queries and keys of a linear readout, for A_t = I."""
    phi, k, log_b = dynamics.readout, dynamics.scaled_keys(), dynamics.log_scaling
    assert isinstance(phi, FeatureMap), f"{phi!r} has no features"
    k = k if log_b is None else k * log_b.exp()[..., None]
    return replace(
        dynamics,
        q=phi.features(dynamics.q),
        k=phi.features(k),
        scaling=1.0,
        log_scaling=None,
        readout=readouts.identity,
    )


def faded(evolution: Evolution, c: Float[Tensor, "*#batch L"]) -> Evolution | None:
    """exp(c_t) A_t; None for a structure of one's own."""
    half = (0.5 * c).exp()[..., None]  # exp(c) itself may be out of range
    rules = {
        Identity: lambda a: Scalar(log_decay=c),
        Scalar: lambda a: replace(a, log_decay=a.log_decay + c),
        Diagonal: lambda a: replace(a, log_decay=a.log_decay + c[..., None]),
        Householder: lambda a: replace(
            a, log_decay=c.expand_as(a.beta + c) if a.log_decay is None else a.log_decay + c
        ),
        DiagonalPlusRankOne: lambda a: replace(
            a,
            log_decay=a.log_decay + c[..., None],
            left=a.left * half,
            right=a.right * half,
        ),
        Dense: lambda a: replace(a, matrix=a.matrix * half[..., None] * half[..., None]),
    }
    rule = rules.get(type(evolution))
    return None if rule is None else rule(evolution)


def check_unrestricted(dynamics: CoefficientDynamics, method: str, remedy: str) -> None:
    """Raise ValueError where a mask or an outer decay is left that a method cannot compute."""
    if dynamics.mask is not None:
        raise ValueError(
            f"method={method!r} cannot leave pairs out: a state is a sum over all of the past, and "
            f"mask={dynamics.mask!r} asks for some of it. {remedy}"
        )
    if dynamics.outer_log_decay is not None:
        why = "it lies outside phi, and is no factor of A_t there"
        if outgrows(dynamics):
            why = "it outgrows the dtype beside decays per channel"
        raise ValueError(
            f"method={method!r} has no outer decay with the readout {dynamics.readout!r}: {why}. "
            f"{remedy}"
        )


def allowed(
    dynamics: CoefficientDynamics, start: int, stop: int, first: int = 0
) -> Bool[Tensor, "*#batch rows columns"]:
    """Rows start .. stop - 1 against columns first .. stop - 1: causal, and not masked."""
    ones = torch.ones(stop - start, stop - first, dtype=torch.bool, device=dynamics.device)
    causal = ones.tril(start - first)
    if dynamics.mask is None:
        return causal
    return causal & dynamics.mask.rows(start, stop, first, dynamics.device)


def with_own(
    out: Float[Tensor, "*#batch L c"],
    offset: Float[Tensor, "*#batch L 1"] | None,
    own: Float[Tensor, "*#batch L"] | None,
    v: Float[Tensor, "*#batch L c"],
) -> tuple[Tensor, Tensor | None]:
    """(out + own v, offset), where everything but own v is known up to exp(offset)."""
    if own is None:
        return out, offset
    own = own[..., None]
    if offset is None:
        return out + own * v, None
    size = own.detach().abs().clamp(min=torch.finfo(own.dtype).tiny).log()
    higher = torch.maximum(offset, size)
    return out * (offset - higher).exp() + own * v * (-higher).exp(), higher


def with_sink(
    numerator: Tensor, total: Tensor, offset: Tensor | None, sink: Float[Tensor, "*#batch i 1"]
) -> tuple[Tensor, Tensor]:
    """(numerator, total + exp(sink)), both up to one factor that keeps them in range."""
    offset = torch.zeros_like(total) if offset is None else offset
    higher = torch.maximum(offset, sink.detach())
    down = (offset - higher).exp()
    return numerator * down, total * down + (sink - higher).exp()
