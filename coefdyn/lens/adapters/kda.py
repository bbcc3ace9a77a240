"""Kimi delta attention: kimi_linear, glm5_next, bailing_hybrid of transformers, and fla's layer.

A_t = (I - beta_t k_t k_t^T) diag(exp(g_t)),  b_j = beta_j / sqrt(n),  phi = Id,  eta = 1
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from coefdyn import CoefficientDynamics, evolution, normalizer, readout
from coefdyn.lens.adapters.base import Call, OpAdapter, first, wide
from coefdyn.lens.adapters.gated_deltanet import delta_arguments, replay_delta

__all__ = ["KimiDeltaAttention"]


class KimiDeltaAttention(OpAdapter):
    """``chunk_kda``: as Gated DeltaNet with one decay per channel, g (B, L, H, n)."""

    mechanism = "kimi delta attention"
    outside = "short convolution on q, k, v; gated norm and projection after y"
    names = ("chunk_kimi_delta_attention", "chunk_kda")
    continuing = ("recurrent_kimi_delta_attention",)

    def read_op(self, op: Callable[..., Any], given: dict[str, Any], result: Any) -> Call:
        t = delta_arguments(given)
        scale = given.get("scale") or t["q"].shape[-1] ** -0.5
        dynamics = CoefficientDynamics(
            q=t["q"],
            k=t["k"],
            evolution=evolution.DiagonalPlusRankOne(
                log_decay=t["g"], left=t["beta"][..., None] * t["k"], right=t["g"].exp() * t["k"]
            ),
            scaling=t["beta"] * scale,
            readout=readout.identity,
            normalizer=normalizer.One(),
        )
        return Call(
            dynamics=dynamics,
            values=t["v"],
            output=wide(first(result)).transpose(1, 2),
            replay=replay_delta(op, given),
            columns=t["v"].shape[-1],
        )
