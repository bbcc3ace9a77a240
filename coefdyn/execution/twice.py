"""Second derivatives of "auto": kernels have one, the whole matrix has as many as are asked for.

Up to TWICE_UP_TO tokens a call of "auto" that is differentiated again takes the matrix for it: at
once where torch.func says so, else when the backward pass is asked for a graph of its own. A first
derivative is the kernel's.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from coefdyn.dynamics.coefficients import CoefficientDynamics, with_tensors
from coefdyn.dynamics.evolution import Identity
from coefdyn.dynamics.readout import FeatureMap
from coefdyn.execution import parallel
from coefdyn.execution.inputs import can_read, tensors_of
from coefdyn.execution.restrictions import in_features
from coefdyn.shapes import Tensor

__all__ = ["TWICE_UP_TO", "nested", "twice"]

#: "auto" has second derivatives up to this length
TWICE_UP_TO = 128

Run = Callable[[CoefficientDynamics, Tensor], Tensor]


def nested(dynamics: CoefficientDynamics, v: Tensor) -> bool:
    """Return whether torch.func differentiates this call at two levels, or one above autograd."""
    functorch, levels, tracked = torch._C._functorch, set(), False
    if torch.compiler.is_compiling():
        return False
    for x in (*tensors_of(dynamics), v):
        while functorch.is_functorch_wrapped_tensor(x):
            if functorch.is_gradtrackingtensor(x):
                levels.add(functorch.maybe_get_level(x))
            x = functorch.get_unwrapped(x)
        tracked = tracked or x.requires_grad
    return len(levels) + (tracked and bool(levels)) >= 2


def twice(run: Run, dynamics: CoefficientDynamics, v: Tensor) -> Tensor:
    """run(dynamics, v), whose gradient can be differentiated again."""
    if dynamics.length > TWICE_UP_TO or not torch.is_grad_enabled():
        return run(dynamics, v)
    held = [*tensors_of(dynamics), v]
    if not any(x.requires_grad for x in held) or not all(can_read(x) for x in held):
        return run(dynamics, v)
    if isinstance(dynamics.readout, FeatureMap) and type(dynamics.evolution) is Identity:
        if getattr(dynamics.normalizer, "sink", None) is not None:
            return parallel.apply(dynamics, v)  # psi may have parameters, a sink needs psi
        dynamics = in_features(dynamics)
        held = [*tensors_of(dynamics), v]
    held = list({id(x): x for x in held}.values())
    return _Twice.apply(run(dynamics, v), dynamics, v, *held)


class _Twice(torch.autograd.Function):
    """y; its gradient is y's own, or that of the whole matrix where a graph of it is recorded."""

    @staticmethod
    def forward(ctx: Any, y: Tensor, dynamics: CoefficientDynamics, v: Tensor, *held: Tensor):
        ctx.save_for_backward(*held)
        ctx.problem, ctx.keys = (dynamics, v), [id(x) for x in held]
        return y.view_as(y)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        held = ctx.saved_tensors  # raises where one was changed in place
        if not torch.is_grad_enabled():
            return grad, None, None, *(None for _ in held)
        dynamics, v = ctx.problem
        # views end the graph, since one tensor may depend on another
        made = {key: x.view_as(x) for key, x in zip(ctx.keys, held, strict=True)}
        again = with_tensors(dynamics, lambda name, axes, x: made[id(x)])
        wanted = [x for x in made.values() if x.requires_grad]
        y = parallel.apply(again, made[id(v)])
        found = iter(torch.autograd.grad(y, wanted, grad, create_graph=True, allow_unused=True))
        return None, None, None, *(next(found) if x.requires_grad else None for x in held)
