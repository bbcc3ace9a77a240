"""Gated linear attention: fla's layers GLA and HGRN2.

A_t = diag(exp(g_t)),  b_j = 1 / sqrt(n),  phi = Id,  eta = 1
"""

from __future__ import annotations

from coefdyn import evolution
from coefdyn.dynamics.evolution import Evolution
from coefdyn.lens.adapters.fla import FlaOperation
from coefdyn.shapes import Tensor

__all__ = ["GatedLinearAttention"]


class GatedLinearAttention(FlaOperation):
    """``chunk_gla``: q, k, v with layout (B, L, H, n), and g, of the shape of k.

    The recurrent function calls it gk, and may have none.
    """

    mechanism = "gated linear attention"
    names = ("chunk_gla", "fused_chunk_gla", "fused_recurrent_gla")
    gates = ("g", "gk")

    def evolves(self, t: dict[str, Tensor]) -> Evolution:
        gates = [t[name] for name in self.gates if name in t]
        return evolution.Diagonal(log_decay=gates[0]) if gates else evolution.Identity()
