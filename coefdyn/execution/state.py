"""The state between two tokens.

A linear readout lets the sum over j move inside (Lemma 1): one matrix S of n x d_v numbers.
Any other readout needs every stored key h_{i,j} and every value, so its state grows with L.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from coefdyn.dynamics.coefficients import CoefficientDynamics
from coefdyn.dynamics.evolution import Dense, Evolution, Identity
from coefdyn.dynamics.readout import FeatureMap
from coefdyn.shapes import Float, Tensor

__all__ = ["CacheState", "LinearState", "State", "Stored", "has_finite_state", "is_weighted"]


class Stored(NamedTuple):
    """All keys written so far, as seen at position i: h_{i,j} = vectors_j * exp(log_weights_j).

    ``log_weights`` is None for a design without a common growth and without a log scaling,
    ``outer`` (what an outer decay has come to) for one without that.
    """

    vectors: Float[Tensor, "*batch j n"]
    log_weights: Float[Tensor, "*#batch j"] | None
    outer: Float[Tensor, "*batch j"] | None = None

    def states(self) -> Float[Tensor, "*batch j n"]:
        """h_{i,j} itself."""
        if self.log_weights is None:
            return self.vectors
        return self.vectors * self.log_weights.exp()[..., None]


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
    """Every stored key as evolved so far, its log weight if it has one, and every value.

    ``position`` is that of the next token for a mask that counts positions, else None.
    """

    stored: Stored
    values: Float[Tensor, "*batch j dv"]
    position: int | None = None


State = LinearState | CacheState


def has_finite_state(dynamics: CoefficientDynamics) -> bool:
    """Return whether one matrix holds the past: identity readout, or a feature map with A_t = I.

    Not where pairs are masked, nor with an outer decay that A_t cannot take in: of features beside
    a sink, of a structure of one's own, or of a Dense one where eta follows its scale in the log.
    """
    phi = dynamics.readout
    sunk = getattr(dynamics.normalizer, "sink", None) is not None
    kind = type(dynamics.evolution)
    own = kind.__module__ != Evolution.__module__
    own = own or (kind is Dense and dynamics.normalizer.cancels_scale)
    if dynamics.mask is not None or ((sunk or own) and dynamics.outer_log_decay is not None):
        return False
    return phi.is_linear or (isinstance(phi, FeatureMap) and type(dynamics.evolution) is Identity)


def is_weighted(dynamics: CoefficientDynamics) -> bool:
    """Return whether a cache keeps log weights.

    They serve a common growth, a log scaling, or an outer decay of a homogeneous readout, which may
    grow as fast as the vectors fade.
    """
    inside = dynamics.outer_log_decay is not None and dynamics.readout.is_homogeneous
    common = dynamics.evolution.common_log_decay
    return inside or common is not None or dynamics.log_scaling is not None
