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
    """``CoefficientDynamics.apply`` from the first token on, as a mixer calls it."""

    mechanism = "coefdyn mixer"
    outside = "short convolution before q, k, v; output norm, gate and projection after y"

    def places(self, model: nn.Module) -> Iterator[Place]:
        if any(isinstance(module, Mixer) for module in model.modules()):
            yield Place(CoefficientDynamics, "apply")

    def listen(self, original: Callable[..., Any], note: Callable[..., Any]) -> Callable[..., Any]:
        def listened(
            dynamics: CoefficientDynamics,
            v: Tensor,
            method: str = "auto",
            *,
            state: State | None = None,
            return_state: bool = False,
        ) -> Tensor | tuple[Tensor, State]:
            with operation():
                found = original(dynamics, v, method, state=state, return_state=return_state)
            y = found[0] if return_state else found
            read = functools.partial(self.read, original, dynamics, v, y, method, state)
            y = note(None, read, y)
            return (y, found[1]) if return_state else y

        return functools.wraps(original)(listened)

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
