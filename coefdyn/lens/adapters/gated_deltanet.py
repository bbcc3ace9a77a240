"""Gated DeltaNet: qwen3_next, qwen3_5, qwen4_exp, olmo_hybrid of transformers, and fla's layer.

A_t = exp(g_t) (I - beta_t k_t k_t^T),  b_j = beta_j / sqrt(n),  phi = Id,  eta = 1
"""

from __future__ import annotations

from coefdyn import evolution
from coefdyn.dynamics.evolution import Evolution
from coefdyn.lens.adapters.deltanet import DeltaNet
from coefdyn.lens.adapters.fla import REFUSED
from coefdyn.shapes import Tensor

__all__ = ["GatedDeltaNet"]


class GatedDeltaNet(DeltaNet):
    """``chunk_gated_delta_rule``: as DeltaNet with one decay per head, g (B, L, H)."""

    mechanism = "gated deltanet"
    names = (
        "torch_chunk_gated_delta_rule",
        "chunk_gated_delta_rule",
        "fused_recurrent_gated_delta_rule",
    )
    continuing = ("torch_recurrent_gated_delta_rule",)
    gates = ("g", "beta")
    refused = REFUSED | {"gk": "a second decay, per channel of the keys"}

    def evolves(self, t: dict[str, Tensor]) -> Evolution:
        return evolution.Householder(direction=t["k"], beta=t["beta"], log_decay=t.get("g"))
