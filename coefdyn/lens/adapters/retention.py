"""Retention: fla's layer of RetNet, a fixed decay per head; rotations of q and k come before.

A_t = (1 - 2^(-5-h)) I for head h = 0, 1, ...,  b_j = 1 / sqrt(n),  phi = Id,  eta = 1
"""

from __future__ import annotations

from typing import Any

import torch

from coefdyn.lens.adapters.simple_gla import SimpleGLA
from coefdyn.shapes import Float, Tensor

__all__ = ["Retention"]


class Retention(SimpleGLA):
    """``chunk_retention``: q, k, v with layout (B, L, H, n)."""

    mechanism = "retention"
    names = (
        "chunk_retention",
        "fused_chunk_retention",
        "fused_recurrent_retention",
        "parallel_retention",
    )
    gates = ()

    def fixed(self, given: dict[str, Any], t: dict[str, Tensor]) -> Float[Tensor, " H"] | None:
        """The decays that fla computes, in its float32."""
        head = torch.arange(t["q"].shape[1], dtype=torch.float32, device=t["q"].device)
        return (1 - 2.0 ** (-5.0 - head)).log()
