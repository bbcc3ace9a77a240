"""Rows before a token that is not finite, kept as they are.

Fast algorithms multiply a whole tile at once, and 0 * NaN is NaN: one overflow late in a sequence
would take earlier rows with it, which do not depend on it. Where such a row comes out, it is
computed again from inputs that end before that token.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch

from coefdyn.dynamics.coefficients import CoefficientDynamics, with_tensors
from coefdyn.execution.inputs import can_read
from coefdyn.shapes import Bool, Float, Tensor

__all__ = ["contained"]

Run = Callable[[CoefficientDynamics, Tensor], Tensor]


def contained(
    run: Run, dynamics: CoefficientDynamics, v: Tensor, y: Float[Tensor, "*batch L c"]
) -> Float[Tensor, "*batch L c"]:
    """y = run(dynamics, v), its rows before the first token with NaN or infinity computed apart.

    Only where numbers can be read without waiting for them: not on CUDA, nor while a graph is
    recorded (torch.compile, torch.func).
    """
    if y.device.type != "cpu" or not can_read(y) or math.isfinite(float(y.detach().sum())):
        return y
    before = finite_so_far(dynamics, v)
    spoilt = ~torch.isfinite(y.detach()).all(-1) & before
    if not bool(spoilt.any()) or bool(before.all()):
        return y
    apart = run(ended(dynamics, before), torch.where(before[..., None], v, 0.0))
    return torch.where(before[..., None], apart, y)


def finite_so_far(dynamics: CoefficientDynamics, v: Tensor) -> Bool[Tensor, "*batch L"]:
    """Return whether no input of this token or an earlier one is NaN or infinite."""
    finite = torch.isfinite(v).all(-1)
    for value, axes in dynamics._named_tensors().values():
        here = torch.isfinite(value)
        for _ in axes[1:]:
            here = here.all(-1)
        finite = finite & here
    return finite.to(torch.int8).cummin(-1).values.bool()


def ended(dynamics: CoefficientDynamics, before: Bool[Tensor, "*batch L"]) -> CoefficientDynamics:
    """The same design with tokens that change nothing where ``before`` is False."""

    def cut(name: str, axes: str, value: Tensor) -> Tensor:
        here = before.reshape(*before.shape, *(1 for _ in axes[1:]))
        return torch.where(here, value, 1.0 if name.endswith((".sign", ".eta")) else 0.0)

    return with_tensors(dynamics, cut)
