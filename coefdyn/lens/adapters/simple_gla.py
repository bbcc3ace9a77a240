"""Simple GLA: fla's layer, gated linear attention with one decay per head.

A_t = exp(g_t) I,  b_j = 1 / sqrt(n),  phi = Id,  eta = 1
"""

from __future__ import annotations

from typing import Any, ClassVar

from coefdyn import evolution
from coefdyn.dynamics.evolution import Evolution
from coefdyn.lens.adapters.base import Unsupported, wide
from coefdyn.lens.adapters.fla import FlaOperation
from coefdyn.shapes import Float, Tensor

__all__ = ["SimpleGLA"]


class SimpleGLA(FlaOperation):
    """``chunk_simple_gla``: q, k, v with layout (B, L, H, n), and g (B, L, H), g_gamma (H) or none.

    g_gamma is a decay that is the same at every token.
    """

    mechanism = "simple gated linear attention"
    names = (
        "chunk_simple_gla",
        "fused_chunk_simple_gla",
        "fused_recurrent_simple_gla",
        "parallel_simple_gla",
    )
    gates: ClassVar[tuple[str, ...]] = ("g",)

    def fixed(self, given: dict[str, Any], t: dict[str, Tensor]) -> Float[Tensor, " H"] | None:
        """The logarithm of a decay per head that no token changes, or None."""
        gamma = given.get("g_gamma")
        return None if gamma is None else wide(gamma)

    def arguments(self, given: dict[str, Any]) -> dict[str, Tensor]:
        """Arguments with g also where the decay is fixed."""
        t = super().arguments(given)
        gamma = self.fixed(given, t)
        if gamma is not None:
            if "g" in t:
                raise Unsupported("the kernel is called with both g and g_gamma, two decays")
            t["g"] = gamma.to(t["k"].dtype)[:, None].expand(t["k"].shape[:-1])
        return t

    def evolves(self, t: dict[str, Tensor]) -> Evolution:
        return evolution.Scalar(log_decay=t["g"]) if "g" in t else evolution.Identity()
