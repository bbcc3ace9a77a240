"""Lightning attention of transformers' minimax: a fixed decay per head.

    A_t = exp(-slope) I,  b_j = 1,  phi = Id,  eta = 1,  q, k, v = act(qkv)

The class has no operation of its own, so q, k, v are taken off ``qkv_proj`` and y before ``norm``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from coefdyn import CoefficientDynamics, evolution, normalizer, readout
from coefdyn.lens.adapters.base import Call, ProjectedAdapter, Unsupported, call_method, wide
from coefdyn.shapes import Tensor

__all__ = ["Lightning"]


class Lightning(ProjectedAdapter):
    """``MiniMaxLightningAttention.forward``."""

    mechanism = "lightning attention"
    outside = "norm, output gate and projection after y"
    class_names = ("MiniMaxLightningAttention",)

    into = "qkv_proj"
    out = "norm"

    def read(self, original: Callable[..., Any], given: dict[str, Any], result: Any) -> Call:
        module = given["self"]
        heads, width = module.num_attention_heads, module.head_dim
        whole = module.act_fn(result["qkv"])
        mask = given["attention_mask"]
        if mask is not None:
            if mask.ndim != 2:
                raise Unsupported(f"the mask has shape {tuple(mask.shape)}, expected (B, L)")
            whole = whole * mask[..., None].to(whole.dtype)
        q, k, v = wide(whole).unflatten(-1, (heads, 3, width)).permute(3, 0, 2, 1, 4)
        slope = wide(module.slope_rate).to(q.dtype).reshape(1, heads, 1)
        dynamics = CoefficientDynamics(
            q=q,
            k=k,
            evolution=evolution.Scalar(log_decay=-slope.expand(len(q), -1, q.shape[-2])),
            scaling=1.0,
            readout=readout.identity,
            normalizer=normalizer.One(),
        )

        def replay(columns: Tensor) -> Tensor:
            qkv = torch.stack([q, k, columns.to(q.dtype)]).permute(1, 3, 2, 0, 4).flatten(2)
            return self._replay(original, given, qkv.to(result["qkv"].dtype))

        return Call(
            dynamics=dynamics,
            values=v,
            output=_heads(wide(result["y"]), heads),
            replay=replay,
            columns=width,
            put=lambda y: y.transpose(1, 2).flatten(2).to(result["y"].dtype),
        )

    def _replay(self, original: Callable[..., Any], given: dict[str, Any], qkv: Tensor) -> Tensor:
        """The module's own forward on these q, k, v (after the activation), up to ``norm``."""
        module = given["self"]
        kept = {name: None for name in given if name in ("cache", "past_key_values")}
        act, module.act_fn = module.act_fn, nn.Identity()
        try:
            with self.overheard(module, qkv) as heard:
                call_method(original, given, attention_mask=None, **kept)
        finally:
            module.act_fn = act
        return _heads(heard["y"], module.num_attention_heads)


def _heads(y: Tensor, heads: int) -> Tensor:
    return y.unflatten(-1, (heads, -1)).transpose(1, 2)
