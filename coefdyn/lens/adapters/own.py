"""This library's own mixers, in any model that holds them."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator

import torch
from torch import nn

from coefdyn.dynamics.coefficients import CoefficientDynamics
from coefdyn.execution.state import State
from coefdyn.lens.adapters.base import (
    CONTINUES,
    Adapter,
    Call,
    Place,
    Refused,
    Unsupported,
    operation,
    wide,
)
from coefdyn.mixers import Mixer
from coefdyn.shapes import Tensor

__all__ = ["OwnMixer"]


class OwnMixer(Adapter):
    """``CoefficientDynamics.apply`` and the start of an ``extend``, as a mixer calls them."""

    mechanism = "coefdyn mixer"
    outside = "short convolution before q, k, v; output norm, gate and projection after y"

    def places(self, model: nn.Module) -> Iterator[Place]:
        if any(isinstance(module, Mixer) for module in model.modules()):
            yield Place(CoefficientDynamics, "apply")
            yield Place(CoefficientDynamics, "extend")

    def listen(self, original: Callable[..., Any], note: Callable[..., Any]) -> Callable[..., Any]:
        apply = original if original.__name__ == "apply" else CoefficientDynamics.apply

        def whole(dynamics: CoefficientDynamics, v: Tensor, method: str = "auto") -> Tensor:
            with operation():
                y = original(dynamics, v, method)
            return note(None, lambda: self.read(apply, dynamics, v, y, method), y)

        def piece(
            dynamics: CoefficientDynamics, v: Tensor, state: State | None = None
        ) -> tuple[Tensor, State]:
            with operation():
                y, after = original(dynamics, v, state)
            read = functools.partial(self.read, apply, dynamics, v, y, "auto", state)
            return note(None, read, y), after

        return functools.wraps(original)(whole if original.__name__ == "apply" else piece)

    def read(
        self,
        original: Callable[..., Tensor],
        dynamics: CoefficientDynamics,
        v: Tensor,
        y: Tensor,
        method: str,
        state: State | None = None,
    ) -> Call:
        """The dynamics as they are; they must have the leading axes (B, H)."""
        if state is not None:
            raise Refused(CONTINUES)
        if len(dynamics.batch_shape) != 2:
            raise Unsupported(
                f"its leading axes are {dynamics.batch_shape}; give the model a batch (B, L)"
            )

        def replay(columns: Tensor) -> Tensor:
            return original(dynamics, columns.to(y.dtype), method)

        return Call(
            dynamics=_detached(dynamics),
            values=wide(v).expand(*dynamics.batch_shape, *v.shape[-2:]),
            output=wide(y),
            replay=replay,
            columns=v.shape[-2],
            put=lambda changed: changed.to(y.dtype),
        )


def _detached(dynamics: CoefficientDynamics) -> CoefficientDynamics:
    half = dynamics.dtype in (torch.float16, torch.bfloat16)
    return dynamics.to(torch.float32) if half else dynamics
