"""Arguments of an operation, read before it has run, and enough to compute it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from coefdyn.dynamics.coefficients import CoefficientDynamics
from coefdyn.execution.state import LinearState
from coefdyn.lens.adapters.base import wide
from coefdyn.shapes import Float, Tensor

__all__ = ["Runs", "Taken", "at_least_float32"]


@dataclass(frozen=True, kw_only=True, eq=False)
class Taken:
    """The arguments of one call as coefficient dynamics.

    Attributes:
        dynamics: batch shape ``(B, H)``, or ``(B, G, H / G)`` where heads share q and k in groups.
        values: ``(B, H, L, d_v)``, or with groups as well.
        result: the operation's result in its own form, dtype and layout, from y, shaped as values,
            and the state after it, which is None unless ``keeps``.
        before: the state that the call continues, None for none.
        keeps: whether the result has the state after these tokens.
    """

    dynamics: CoefficientDynamics
    values: Float[Tensor, "B *heads L dv"]
    result: Callable[[Tensor, LinearState | None], Any]
    before: LinearState | None = None
    keeps: bool = False


class Runs(ABC):
    """An adapter from whose arguments an operation is computed as well as read."""

    @abstractmethod
    def take(self, given: dict[str, Any]) -> Taken:
        """Read the arguments, all of them by name; what runs before the mixing runs here, too.

        Raises:
            Unsupported: where they have no exact form, before anything has run.
        """

    def is_step(self, given: dict[str, Any]) -> bool:
        """Return whether this is one token, which the model's own code computes faster."""
        return False


def at_least_float32(*values: Tensor) -> torch.dtype:
    """Return the widest dtype of these, and float32 for half precision."""
    dtype = torch.float32
    for value in values:
        dtype = torch.promote_types(dtype, wide(value).dtype)
    return dtype
