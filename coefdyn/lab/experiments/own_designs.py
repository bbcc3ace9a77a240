"""The three designs of the chapter on a mixer of one's own, by name, for the runs that judge them.

The chapter writes the same classes cell by cell; a test compares the two.
"""

from __future__ import annotations

from dataclasses import replace

from torch.nn import functional

from coefdyn import CoefficientDynamics, normalizer, readout
from coefdyn.mixers import GatedDeltaNet, register_mixer
from coefdyn.mixers.base import Tokens
from coefdyn.shapes import Tensor

__all__ = ["FocusedDeltaNet", "PoisedDeltaNet", "RectifiedDeltaNet"]


def _poised(s: Tensor) -> Tensor:
    """softplus(s - 4)^2: near zero at zero, steep after it, and never exactly zero."""
    return functional.softplus(s - 4).square()


@register_mixer
class RectifiedDeltaNet(GatedDeltaNet):
    """Gated DeltaNet's evolution, a ReLU, a row sum."""

    def build(self, tokens: Tokens) -> CoefficientDynamics:
        return replace(
            super().build(tokens),
            scaling=self.key_dim**-0.5,
            readout=readout.relu,
            normalizer=normalizer.RowSum(),
        )


@register_mixer
class FocusedDeltaNet(GatedDeltaNet):
    """Gated DeltaNet's evolution, exp of 8 times the cosine, a row sum."""

    def build(self, tokens: Tokens) -> CoefficientDynamics:
        return replace(
            super().build(tokens),
            scaling=8.0,
            readout=readout.exp,
            normalizer=normalizer.RowSum(),
        )


@register_mixer
class PoisedDeltaNet(GatedDeltaNet):
    """Gated DeltaNet's evolution, a readout near zero at zero, a row sum."""

    def build(self, tokens: Tokens) -> CoefficientDynamics:
        return replace(
            super().build(tokens),
            scaling=8.0,
            readout=readout.Pointwise(_poised),
            normalizer=normalizer.RowSum(),
        )
