"""Initial values: drawn when a module is built, and drawn again by ``reset_parameters``.

The order of the draws is part of what a seed means: kept results started from it. So every module
draws in its constructor's order, and ``reset_parameters`` after ``torch.manual_seed(s)`` gives what
building the module anew after ``torch.manual_seed(s)`` would.

It also serves torch's recipe for large models: build under ``torch.device("meta")``, ``to_empty``,
then ``reset_parameters`` of the model, or of each of its modules in any order.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

import torch
from torch import nn

from coefdyn.shapes import Tensor

__all__ = ["Linear", "Resettable", "draw_timestep", "reset"]


def reset(module: nn.Module) -> None:
    """Redraw the initial values of a module and of all its parts.

    Raises:
        ValueError: for parameters whose initial values no ``reset_parameters`` knows.
    """
    own = getattr(module, "reset_parameters", None)
    if callable(own):
        own()
        return
    names = [name for name, _ in module.named_parameters(recurse=False)]
    if names:
        raise _unknown(module, names)
    for part in module.children():
        reset(part)


def _unknown(module: nn.Module, names: list[str]) -> ValueError:
    return ValueError(
        f"{type(module).__name__} has the parameters {', '.join(names)}, and nothing says how they "
        "start: define start(self), which fills them in place under torch.no_grad() (a mixer), or "
        "reset_parameters(self)."
    )


class Resettable(nn.Module):
    """A module whose initial values can be drawn again.

    A subclass with parameters of its own fills them in ``start``, and calls it in its constructor.
    """

    def begin(self) -> None:
        """Fill in place the parameters that are drawn before the parts."""

    def drawn(self) -> Iterable[nn.Module]:
        """The parts, in the order in which the constructor draws them."""
        return self.children()

    def start(self) -> None:
        """Fill in place the parameters of this module itself."""

    @torch.no_grad()
    def reset_parameters(self) -> None:
        """Draw all initial values again, parts included, from torch's current generator.

        Raises:
            ValueError: for a parameter that neither ``start`` nor a part fills.
        """
        before = {name: one._version for name, one in self.named_parameters(recurse=False)}
        self.begin()
        for part in self.drawn():
            reset(part)
        self.start()
        own = self.named_parameters(recurse=False)
        left = [name for name, one in own if one._version == before[name]]
        if left:
            raise _unknown(self, left)


class Linear(nn.Linear):
    """Linear map with its own initial bias: ``torch.nn.Linear``, then ``start(bias)``."""

    def __init__(self, inputs: int, outputs: int, start: Callable[[Tensor], object]) -> None:
        self.start = start  # ahead of the first reset_parameters, which the base calls
        super().__init__(inputs, outputs, bias=True)

    @torch.no_grad()
    def reset_parameters(self) -> None:
        """Draw torch's initial values, and the custom bias."""
        super().reset_parameters()
        self.start(self.bias)


def draw_timestep(bias: Tensor, low: float = 1e-3, high: float = 0.1) -> None:
    """Fill biases c such that softplus(c) is log-uniform in [low, high] (Mamba-2's start)."""
    log_delta = torch.empty_like(bias).uniform_(math.log(low), math.log(high))
    delta = log_delta.exp().clamp_min(1e-4)
    bias.copy_(delta + torch.log(-torch.expm1(-delta)))
