"""Lightning attention of transformers' minimax: a fixed decay per head.

    A_t = exp(-slope) I,  b_j = 1,  phi = Id,  eta = 1,  q, k, v = act(qkv)

The class has no operation of its own, so q, k, v are taken off ``qkv_proj`` and y before ``norm``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.nn import functional

from coefdyn import CoefficientDynamics, evolution, normalizer, readout
from coefdyn.execution.state import LinearState
from coefdyn.lens.adapters.base import Call, ProjectedAdapter, Unsupported, call_method, wide
from coefdyn.lens.adapters.running import Runs, Taken
from coefdyn.shapes import Tensor

__all__ = ["Lightning"]


class Lightning(ProjectedAdapter, Runs):
    """``MiniMaxLightningAttention.forward``."""

    mechanism = "lightning attention"
    outside = "norm, output gate and projection after y"
    class_names = ("MiniMaxLightningAttention",)

    into = "qkv_proj"
    out = "norm"

    def is_step(self, given: dict[str, Any]) -> bool:
        return given["hidden_states"].shape[1] == 1

    def take(self, given: dict[str, Any]) -> Taken:
        """Project; norm, gate, projection and cache come with the result. States (B, H, n, d_v)."""
        module, cache, x = given["self"], given.get("past_key_values"), given["hidden_states"]
        _check_mask(given["attention_mask"])
        state = None if cache is None else cache.get_linear_cache(module.layer_idx)
        qkv = module.qkv_proj(x)
        dynamics, values = _dynamics(module, qkv, given["attention_mask"])
        kept = torch.promote_types(qkv.dtype, module.slope_rate.dtype)

        def result(y: Tensor, after: LinearState | None) -> tuple[Tensor, Tensor]:
            assert after is not None, "the operation always returns its state"
            y = module.norm(y.transpose(1, 2).flatten(2).to(qkv.dtype))
            y = module.out_proj(functional.sigmoid(module.output_gate(x)) * y)
            last = after.matrix.mT.to(kept).contiguous()
            if cache is not None:
                cache.set_linear_cache(module.layer_idx, last)
            return y, last

        return Taken(
            dynamics=dynamics,
            values=values,
            result=result,
            before=None
            if state is None
            else LinearState(matrix=state.to(values.dtype).mT, offset=None),
            keeps=True,
        )

    def read(self, original: Callable[..., Any], given: dict[str, Any], result: Any) -> Call:
        module, mask = given["self"], given["attention_mask"]
        heads, width = module.num_attention_heads, module.head_dim
        _check_mask(mask)
        dynamics, v = _dynamics(module, result["qkv"], mask)
        q, k = dynamics.q, dynamics.k

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


def _check_mask(mask: Tensor | None) -> None:
    if mask is not None and mask.ndim != 2:
        raise Unsupported(f"the mask has shape {tuple(mask.shape)}, expected (B, L)")


def _dynamics(
    module: nn.Module, qkv: Tensor, mask: Tensor | None
) -> tuple[CoefficientDynamics, Tensor]:
    """Dynamics and values from what leaves ``qkv_proj``."""
    whole = module.act_fn(qkv)
    if mask is not None:
        whole = whole * mask[..., None].to(whole.dtype)
    heads = module.num_attention_heads
    q, k, v = wide(whole).unflatten(-1, (heads, 3, -1)).permute(3, 0, 2, 1, 4)
    slope = wide(module.slope_rate).to(q.dtype).reshape(1, heads, 1)
    dynamics = CoefficientDynamics(
        q=q,
        k=k,
        evolution=evolution.Scalar(log_decay=-slope.expand(len(q), -1, q.shape[-2])),
        scaling=1.0,
        readout=readout.identity,
        normalizer=normalizer.One(),
    )
    return dynamics, v
