"""Kimi delta attention: kimi_linear, glm5_next, bailing_hybrid of transformers, and fla's layer.

A_t = (I - beta_t k_t k_t^T) diag(exp(g_t)),  b_j = beta_j / sqrt(n),  phi = Id,  eta = 1
"""

from __future__ import annotations

from coefdyn import evolution
from coefdyn.dynamics.evolution import Evolution
from coefdyn.lens.adapters.gated_deltanet import GatedDeltaNet
from coefdyn.shapes import Tensor

__all__ = ["KimiDeltaAttention"]


class KimiDeltaAttention(GatedDeltaNet):
    """``chunk_kda``: as Gated DeltaNet with one decay per channel, g (B, L, H, n)."""

    mechanism = "kimi delta attention"
    names = ("chunk_kimi_delta_attention", "chunk_kda", "fused_recurrent_kda")
    continuing = ("recurrent_kimi_delta_attention",)

    def evolves(self, t: dict[str, Tensor]) -> Evolution:
        return evolution.DiagonalPlusRankOne(
            log_decay=t["g"], left=t["beta"][..., None] * t["k"], right=t["g"].exp() * t["k"]
        )
