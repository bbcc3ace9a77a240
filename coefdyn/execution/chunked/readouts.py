"""Pointwise readouts on one tile of scores: value and derivative, written by hand where known."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch.nn import functional

from coefdyn.execution.rows import SOFTPLUS_IS_EXP
from coefdyn.shapes import Float, Tensor

__all__ = ["Rule", "rule"]

#: below this score exp() cannot overflow float32, and log1p(exp(s)) needs no second branch
SAFE_EXP = 80.0
#: torch's softplus is the identity above this score
LINEAR_ABOVE = 20.0


class Rule:
    """phi and phi' of one readout.

    Args:
        fn: phi; the base class differentiates it by autograd, tile by tile.
    """

    #: whether rows come shifted by their largest score, where eta cancels that
    shifts = False
    #: and if so, those whose largest score is at most this
    shift_below = torch.inf
    #: whether a factor of phi(s) is a summand of s
    additive = False

    def __init__(self, fn: Callable[[Tensor], Tensor]) -> None:
        self.fn = fn

    def value(self, scores: Float[Tensor, "g R C"]) -> Tensor:
        """phi(scores); scores may be overwritten."""
        return self.fn(scores)

    def both(self, scores: Float[Tensor, "g R C"]) -> tuple[Tensor, Tensor]:
        """(phi, phi'); scores are kept."""
        with torch.enable_grad():
            at = scores.detach().requires_grad_()
            value = self.fn(at.clone())  # fn may work in place
            if not value.requires_grad:  # a step function, or a constant
                return value, torch.zeros_like(at)
            (slope,) = torch.autograd.grad(value.sum(), at, materialize_grads=True)
        return value.detach(), slope

    def shifted(self, scores: Tensor, offset: Float[Tensor, "g R"]) -> tuple[Tensor, Tensor]:
        """(phi e^-m, phi' e^-m) of scores s - m, m the offset of their row."""
        return self.both(scores)


class _Identity(Rule):
    def value(self, scores: Tensor) -> Tensor:
        return scores

    def both(self, scores: Tensor) -> tuple[Tensor, Tensor]:
        return scores, torch.ones_like(scores)


class _Exp(Rule):
    shifts = additive = True

    def value(self, scores: Tensor) -> Tensor:
        return scores.exp_()

    def both(self, scores: Tensor) -> tuple[Tensor, Tensor]:
        value = scores.exp()
        return value, value


class _Relu(Rule):
    def value(self, scores: Tensor) -> Tensor:
        return scores.relu_()

    def both(self, scores: Tensor) -> tuple[Tensor, Tensor]:
        return scores.relu(), (scores > 0).to(scores.dtype)


class _Softplus(Rule):
    """log(1 + e^s); log1p(exp(s)) is cheaper than torch's guarded form where no score is large.

    torch takes s itself above 20. float32 cannot tell, float64 can: there its form is kept. A row
    whose scores are all below SOFTPLUS_IS_EXP comes shifted by their maximum, and is exp(s).
    """

    shifts = True
    shift_below = SOFTPLUS_IS_EXP

    def shifted(self, scores: Tensor, offset: Float[Tensor, "g R"]) -> tuple[Tensor, Tensor]:
        low = (offset < 0)[..., None]
        if not bool(low.any()):
            return self.both(scores)
        faint = scores.clamp(max=0.0).exp()
        value, slope = self.both(scores)
        return torch.where(low, faint, value), torch.where(low, faint, slope)

    def value(self, scores: Tensor) -> Tensor:
        if scores.dtype != torch.float64 and float(scores.amax()) < SAFE_EXP:
            return scores.exp_().log1p_()
        return functional.softplus(scores)

    def both(self, scores: Tensor) -> tuple[Tensor, Tensor]:
        slope = scores.sigmoid()
        if scores.dtype == torch.float64:
            slope.masked_fill_(scores > LINEAR_ABOVE, 1.0)
        return self.value(scores.clone()), slope


_RULES: dict[str, Rule] = {
    "identity": _Identity(lambda s: s),
    "exp": _Exp(torch.exp),
    "relu": _Relu(torch.relu),
    "softplus": _Softplus(functional.softplus),
}


def rule(readout: str | Callable[[Tensor], Tensor]) -> Rule:
    """The rule of a known readout by name, or of any elementwise torch function."""
    return _RULES[readout] if isinstance(readout, str) else Rule(readout)
