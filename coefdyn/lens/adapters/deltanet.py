"""DeltaNet: fla's layer.

A_t = I - beta_t k_t k_t^T,  b_j = beta_j / sqrt(n),  phi = Id,  eta = 1
"""

from __future__ import annotations

from typing import Any, ClassVar

import torch

from coefdyn import evolution
from coefdyn.dynamics.evolution import Evolution
from coefdyn.lens.adapters.base import Unsupported
from coefdyn.lens.adapters.fla import FlaOperation
from coefdyn.shapes import Tensor

__all__ = ["DeltaNet"]


class DeltaNet(FlaOperation):
    """``chunk_delta_rule``: q, k, v with layout (B, L, H, n), beta (B, L, H) or 1."""

    mechanism = "deltanet"
    names = ("chunk_delta_rule", "fused_chunk_delta_rule", "fused_recurrent_delta_rule")
    gates: ClassVar[tuple[str, ...]] = ("beta",)

    def arguments(self, given: dict[str, Any]) -> dict[str, Tensor]:
        """Arguments with beta, and with q and k of length one where the kernel normalises them."""
        t = super().arguments(given)
        beta = t.setdefault("beta", torch.ones_like(t["k"][..., 0]))
        if beta.ndim != 3:
            raise Unsupported(
                "the kernel is called with a beta per channel of the values, so each channel has "
                "a map of its own"
            )
        if given.get("use_qk_l2norm_in_kernel"):
            t["q"], t["k"] = _unit(t["q"]), _unit(t["k"])
        return t

    def evolves(self, t: dict[str, Tensor]) -> Evolution:
        return evolution.Householder(direction=t["k"], beta=t["beta"])

    def scales(self, t: dict[str, Tensor], scale: float) -> Tensor | float:
        return t["beta"] * scale


def _unit(x: Tensor) -> Tensor:
    """x / sqrt(|x|^2 + 1e-6), as the kernels do it."""
    return x * (x.square().sum(-1, keepdim=True) + 1e-6).rsqrt()
