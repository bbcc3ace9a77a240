"""A design between two designs, on the same tokens. ``js/blend.js`` holds the same arithmetic.

Every structure is a case of A_t = diag(a_t) (I - beta_t z_t z_t^T), so the way from one to the
other moves a_t, beta_t, z_t and b_j directly:

    log |a_t|, log b_j and beta_t linearly; z_t linearly, then to length one (half way to its
    opposite it stays where it was, as A_t does); a flipped sign of a_t passes through zero; alpha
    and eta are the mixtures (1 - t) from + t to.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch

from coefdyn import CoefficientDynamics, evolution, normalizer
from coefdyn.dynamics.evolution import Evolution
from coefdyn.dynamics.normalizer import FlooredRowSum, Given, Normalizer, RowSum
from coefdyn.dynamics.readout import FeatureMap, Pointwise, Readout
from coefdyn.shapes import Tensor
from coefdyn.widgets.settings import with_preset
from coefdyn.widgets.tokens import build_dynamics, decay_of

__all__ = ["Morph", "build_morph"]


class Morph:
    """The design at ``settings["morph"]`` on the way to the row ``settings["morph_to"]``."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        self.share = float(settings["morph"])
        self.ends = (
            build_dynamics(settings),
            build_dynamics(with_preset(settings, settings["morph_to"])),
        )

    def mix(self, start: Tensor, end: Tensor) -> Tensor:
        """(1 - t) of the start and t of the end; at t = 1 the start does not count, even if inf."""
        return end if self.share == 1 else (1 - self.share) * start + self.share * end

    def with_readout(self, phi: Readout) -> CoefficientDynamics:
        """The moved evolution and scaling under one of the two readouts; eta is 1."""
        first, last = self.ends
        logs = [torch.log(_scaling(end)) for end in self.ends]
        return replace(
            first,
            evolution=self._evolution(first.evolution, last.evolution),
            scaling=self.mix(*logs).exp(),
            log_scaling=None,
            readout=phi,
            normalizer=normalizer.One(),
        )

    def coefficients(self) -> Tensor:
        """alpha, ``(L, L)``, exact zeros above the diagonal."""
        start, end = (self.with_readout(d.readout).coefficients() for d in self.ends)
        return self.mix(start, end)

    def eta(self) -> Tensor:
        """eta_i, ``(L,)``."""
        sums = self.coefficients().sum(dim=-1)
        return self.mix(*(_eta(end.normalizer, sums) for end in self.ends))

    def dynamics(self) -> CoefficientDynamics:
        """The same as one ``CoefficientDynamics``, with a dense A_t.

        Two readouts of the score mix to one, and so do feature maps, the identity among them:
        (1 - t) psi(q)^T psi(h) + t chi(q)^T chi(h) is a product of the stacked features.

        Raises:
            ValueError: where exp, ReLU or softplus mixes with a feature map: alpha is then no
                single readout of one score. ``coefficients`` still gives it.
        """
        first, last = self.ends
        if self.share == 1:
            return last
        phi = _mix_readouts(first.readout, last.readout, self.share)
        kept = type(first.normalizer) is RowSum and type(last.normalizer) is RowSum
        eta = RowSum() if kept else Given(self.eta())
        return replace(self.with_readout(phi), normalizer=eta)

    def _evolution(self, first: Evolution, last: Evolution) -> Evolution:
        length, width = self.ends[0].q.shape
        here, there = (decay_of(end, length, width) for end in (first, last))
        matrices = torch.diag_embed(_mix_decay(here, there, self.share))
        if hasattr(first, "beta") or hasattr(last, "beta"):
            betas = [_beta(end, length) for end in (first, last)]
            sources = [end for end in (first, last) if hasattr(end, "direction")]
            z = self.mix(sources[0].direction, sources[-1].direction)
            norm = z.norm(dim=-1, keepdim=True)
            z = torch.where(norm > 1e-12, z / norm, sources[0].direction)
            beta = self.mix(*betas)[:, None, None]
            matrices = matrices @ (torch.eye(width) - beta * z[:, :, None] * z[:, None, :])
        return evolution.Dense(matrix=matrices)


def build_morph(settings: Mapping[str, Any]) -> Morph:
    """The morph that the page shows for complete settings with a ``morph_to``."""
    return Morph(settings)


def _mix_readouts(first: Readout, last: Readout, share: float) -> Readout:
    """(1 - t) of the first readout and t of the last as one readout, where there is one."""
    if first is last:
        return first
    name = f"{first.name} to {last.name}"
    if isinstance(first, Pointwise) and isinstance(last, Pointwise):
        return Pointwise(lambda s: (1 - share) * first(s) + share * last(s), name=name)
    if not all(isinstance(phi, FeatureMap) or phi.is_linear for phi in (first, last)):
        raise ValueError(
            f"dynamics at {share:.0%} of the way from readout {first.name!r} to {last.name!r}: "
            "that mixture is no single readout of one score, so no CoefficientDynamics has it. "
            "explorer.coefficients() and explorer.shown() give its numbers; or set morph to 0 or 1."
        )
    roots = ((1 - share) ** 0.5, share**0.5)

    def stacked(x: Tensor) -> Tensor:
        parts = [root * phi.fn(x) for root, phi in zip(roots, (first, last), strict=True)]
        return torch.cat(parts, dim=-1)

    return FeatureMap(stacked, name=name)


def _scaling(dynamics: CoefficientDynamics) -> Tensor:
    b = torch.as_tensor(dynamics.scaling, dtype=torch.float64).expand(dynamics.length)
    return b if dynamics.log_scaling is None else b * dynamics.log_scaling.exp()


def _mix_decay(start: Tensor, end: Tensor, share: float) -> Tensor:
    same = start.sign() * ((1 - share) * start.abs().log() + share * end.abs().log()).exp()
    through = start * (1 - 2 * share) if share < 0.5 else end * (2 * share - 1)
    return torch.where(start * end > 0, same, through)


def _beta(a: Evolution, length: int) -> Tensor:
    return a.beta if hasattr(a, "beta") else torch.zeros(length, dtype=torch.float64)


def _eta(rule: Normalizer, sums: Tensor) -> Tensor:
    if isinstance(rule, RowSum):
        return sums
    if isinstance(rule, FlooredRowSum):
        return sums.abs().clamp(min=rule.floor)
    return rule.eta if isinstance(rule, Given) else torch.ones_like(sums)
