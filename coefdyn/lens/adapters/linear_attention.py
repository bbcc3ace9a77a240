"""Linear attention: fla's layer, whose feature map is applied to q and k before the operation.

    A_t = I,  b_j = 1 / sqrt(n),  phi = Id,  eta = row sum with ``normalize``, otherwise 1

fla divides by the row sum plus 1e-10. That is the row sum to rounding, unless the terms of a row
cancel; the error of the layer tells.
"""

from __future__ import annotations

from typing import Any

from coefdyn import evolution, normalizer
from coefdyn.dynamics.evolution import Evolution
from coefdyn.dynamics.normalizer import Normalizer
from coefdyn.lens.adapters.fla import FlaOperation
from coefdyn.shapes import Tensor

__all__ = ["LinearAttention"]


class LinearAttention(FlaOperation):
    """``chunk_linear_attn``: q, k, v with layout (B, L, H, n)."""

    mechanism = "linear attention"
    outside = "feature map on q, k; norm and projection after y"
    names = ("chunk_linear_attn", "fused_chunk_linear_attn", "fused_recurrent_linear_attn")

    def evolves(self, t: dict[str, Tensor]) -> Evolution:
        return evolution.Identity()

    def divides(self, given: dict[str, Any]) -> Normalizer:
        return normalizer.RowSum() if given.get("normalize") else normalizer.One()
