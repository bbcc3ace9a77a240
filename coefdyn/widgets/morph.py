"""A design between two designs, on the same tokens. ``js/blend.js`` holds the same arithmetic.

Every structure is a case of A_t = diag(a_t) (I - beta_t z_t z_t^T) diag(a'_t), so the way from one
to the other moves a_t, a'_t, beta_t, z_t and b_j directly:

    log |a_t|, log a'_t, log b_j and beta_t linearly; z_t linearly, then to length one (half way to
    its opposite it stays where it was, as A_t does); a flipped sign of a_t passes through zero;
    alpha and eta are the mixtures (1 - t) from + t to. Beside phi, the decay moves in its
    logarithm, an own term linearly, a window by its size.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch

from coefdyn import CoefficientDynamics, evolution, mask, normalizer
from coefdyn.dynamics.evolution import Evolution
from coefdyn.dynamics.normalizer import FlooredRowSum, Given, Normalizer, RowSum
from coefdyn.dynamics.readout import FeatureMap, Pointwise, Readout
from coefdyn.shapes import Tensor
from coefdyn.widgets.settings import with_preset
from coefdyn.widgets.tokens import DrawnTokens, build_dynamics, decay_of

__all__ = ["Morph", "build_morph"]


@dataclass(frozen=True, kw_only=True, eq=False)
class _Factors:
    """A_t = diag(decay_t) (I - beta_t z_t z_t^T) diag(before_t); no z where nothing is erased."""

    decay: Tensor
    beta: Tensor
    z: Tensor | None
    before: Tensor


class Morph:
    """The design at ``settings["morph"]`` on the way to the row ``settings["morph_to"]``."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        self.share = float(settings["morph"])
        both = (settings, with_preset(settings, settings["morph_to"]))
        self.ends = tuple(build_dynamics(one) for one in both)
        self._parts = tuple(
            _factors(DrawnTokens(one), end) for one, end in zip(both, self.ends, strict=True)
        )

    def mix(self, start: Tensor, end: Tensor) -> Tensor:
        """Mix (1 - t) of the start and t of the end; at t = 1 an infinite start does not count."""
        return end if self.share == 1 else (1 - self.share) * start + self.share * end

    def with_readout(self, phi: Readout) -> CoefficientDynamics:
        """The moved evolution and scaling under one of the two readouts; eta is 1."""
        logs = [torch.log(_scaling(end)) for end in self.ends]
        return replace(
            self.ends[0],
            evolution=self._evolution(),
            scaling=self.mix(*logs).exp(),
            log_scaling=None,
            readout=phi,
            normalizer=normalizer.One(),
            own=self._beside("own"),
            outer_log_decay=self._beside("outer_log_decay"),
            mask=self._mask(),
        )

    def _beside(self, name: str) -> Tensor | None:
        """Values added to the diagonal, or the decay outside phi; none is 0."""
        values = [getattr(end, name) for end in self.ends]
        if values[0] is None and values[1] is None:
            return None
        none = torch.zeros(self.ends[0].length, dtype=torch.float64)
        return self.mix(*(none if value is None else value for value in values))

    def _mask(self) -> mask.Mask | None:
        """Mix two windows, to the next whole number; no window is as long as the text."""
        length = self.ends[0].length
        held = [end.mask for end in self.ends]
        sizes = [min(m.size, length) if isinstance(m, mask.Window) else length for m in held]
        mixed = sizes[1] if self.share == 1 else sizes[0] + self.share * (sizes[1] - sizes[0])
        size = math.floor(mixed + 0.5)
        return mask.Window(size) if size < length else None

    def coefficients(self) -> Tensor:
        """Coefficients alpha, ``(L, L)``, exact zeros above the diagonal."""
        start, end = (self.with_readout(d.readout).coefficients() for d in self.ends)
        return self.mix(start, end)

    def eta(self) -> Tensor:
        """Normalizer eta_i, ``(L,)``."""
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
        kept = all(
            isinstance(e.normalizer, RowSum) and e.normalizer.sink is None for e in self.ends
        )
        eta = RowSum() if kept else Given(self.eta())
        return replace(self.with_readout(phi), normalizer=eta)

    def _evolution(self) -> Evolution:
        here, there = self._parts
        matrices = torch.diag_embed(_mix_decay(here.decay, there.decay, self.share))
        directions = [part.z for part in self._parts if part.z is not None]
        if directions:
            z = self.mix(directions[0], directions[-1])
            norm = z.norm(dim=-1, keepdim=True)
            z = torch.where(norm > 1e-12, z / norm, directions[0])
            beta = self.mix(here.beta, there.beta)[:, None, None]
            eye = torch.eye(z.shape[-1], dtype=torch.float64)
            matrices = matrices @ (eye - beta * z[:, :, None] * z[:, None, :])
        before = _mix_decay(here.before, there.before, self.share)
        return evolution.Dense(matrix=matrices * before[:, None, :])


def build_morph(settings: Mapping[str, Any]) -> Morph:
    """The morph that the page shows for complete settings with a ``morph_to``."""
    return Morph(settings)


def _mix_readouts(first: Readout, last: Readout, share: float) -> Readout:
    """Mix (1 - t) of the first readout and t of the last into one readout, where there is one."""
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


def _factors(tokens: DrawnTokens, end: CoefficientDynamics) -> _Factors:
    """The general form of one end. With r a rate for each channel, diag(a) - (r z) z^T has the
    direction u = r^1/2 a^-1/2 z: it is diag(r^1/2 a^1/2) (I - u u^T) diag(a^1/2 r^-1/2). And
    (I - z (r z)^T) diag(a) has u = r^1/2 z: it is diag(r^-1/2) (I - u u^T) diag(r^1/2 a)."""
    length, width = end.q.shape
    a = end.evolution
    one = torch.ones(length, width, dtype=torch.float64)
    if not isinstance(a, evolution.DiagonalPlusRankOne):
        beta = a.beta if hasattr(a, "beta") else torch.zeros(length, dtype=torch.float64)
        z = getattr(a, "direction", None)
        return _Factors(decay=decay_of(a, length, width), beta=beta, z=z, before=one)
    sign = one if a.sign is None else a.sign
    z, kept = tokens.directions(end.k), a.log_decay.exp()
    if tokens.settings["structure"] == "erased_diagonal":
        return _Factors(decay=sign, beta=tokens.betas(), z=z, before=kept)
    rates = tokens.rates()
    root = torch.where(rates > 0, rates, one).sqrt()
    turned, after, before = root, 1 / root, root * kept
    if tokens.settings["structure"] == "diagonal_rank_one":
        half = kept.sqrt()
        turned, after, before = root / half, root * half, half / root
    u = torch.where(rates > 0, turned, 0 * one) * z
    beta = u.square().sum(-1)
    z = u / torch.where(beta > 0, beta, torch.ones_like(beta)).sqrt()[:, None]
    return _Factors(decay=sign * after, beta=beta, z=z, before=before)


def _eta(rule: Normalizer, sums: Tensor) -> Tensor:
    if isinstance(rule, RowSum):
        return (
            sums if rule.sink is None else sums + torch.as_tensor(rule.sink, dtype=sums.dtype).exp()
        )
    if isinstance(rule, FlooredRowSum):
        return sums.abs().clamp(min=rule.floor)
    return rule.eta if isinstance(rule, Given) else torch.ones_like(sums)
