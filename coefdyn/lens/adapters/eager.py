"""Softmax attention that classes of transformers write out: GPT-Neo, GPT-J, CodeGen, Bloom, MPT.

    A_t = I,  b_j = 1,  phi = exp,  eta = row sum

Windows are masks and ALiBi is an outer decay, relative to the score of the token itself.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Any

import torch

from coefdyn.lens.adapters.attention import softmax_dynamics
from coefdyn.lens.adapters.base import (
    CONTINUES,
    Call,
    MethodAdapter,
    ProjectedAdapter,
    Refused,
    Unsupported,
    behind,
    call_method,
    first,
    wide,
    with_first,
)
from coefdyn.lens.adapters.masks import Pairs, read_mask
from coefdyn.shapes import Tensor

__all__ = ["MPT", "Bloom", "WrittenOut"]


class WrittenOut(MethodAdapter):
    """``_attn(query, key, value, attention_mask)``, each (B, H, L, n), of GPT-Neo and its like."""

    mechanism = "softmax attention"
    outside = "projections (and RoPE) before q, k, v; projection after y"
    class_names = ("GPTNeoSelfAttention", "GPTJAttention", "CodeGenAttention")
    method = "_attn"

    def read(self, original: Callable[..., Any], given: dict[str, Any], result: Any) -> Call:
        module, mask = given["self"], given["attention_mask"]
        q, k, v = (wide(given[name]) for name in ("query", "key", "value"))
        _check(module.attn_dropout.p, module)
        length, window = k.shape[-2], getattr(module, "bias", None)
        kept = length - q.shape[-2]
        pairs = read_mask(mask, q.shape[-2], window is not None or kept > 0, kept)
        if window is not None:
            pairs = pairs.within(window[:, :, :length, :length])
        q = behind(q / getattr(module, "scale_attn", 1.0), kept)
        return Call(
            dynamics=softmax_dynamics(q, k, pairs),
            values=v,
            output=wide(first(result)),
            replay=lambda x: first(call_method(original, given, value=x.to(given["value"].dtype))),
            columns=length,
            put=lambda y: with_first(result, y),
            empty=None if pairs.empty is None else pairs.empty[..., kept:],
            start=kept,
        )


class _WithAlibi(ProjectedAdapter):
    """One fused projection before q, k, v, scores with ALiBi, one projection after y."""

    mechanism = "softmax attention"
    outside = "projection before q, k, v; projection after y"
    #: the axes of the fused projection behind (B, L): q, k, v in the front or behind the heads
    fused: int

    @abstractmethod
    def scores(self, given: dict[str, Any], q: Tensor) -> tuple[float, Pairs, Tensor, Any]:
        """The factor of q^T k, the mask, the bias (B, H, L, L) and the cache of this call."""

    def read(self, original: Callable[..., Any], given: dict[str, Any], result: Any) -> Call:
        module, fused = given["self"], result["qkv"]
        heads = getattr(module, "num_heads", None) or module.n_heads
        shape = (3, heads, -1) if self.fused == 0 else (heads, 3, -1)
        q, k, v = wide(self.clipped(module, fused)).unflatten(-1, shape).unbind(2 + self.fused)
        q, k, v = (x.transpose(1, 2) for x in (q, k, v))
        factor, pairs, bias, cache = self.scores(given, q)
        if cache is not None and cache.get_seq_length(module.layer_idx) != q.shape[-2]:
            raise Refused(CONTINUES)
        _check(self.dropout(module), module)

        def replay(columns: Tensor) -> Tensor:
            parts = [x.transpose(1, 2) for x in (q, k, columns.to(q.dtype))]
            qkv = torch.stack(parts, 2 + self.fused).flatten(2).to(fused.dtype)
            alone = {name: None for name in _CACHES if name in given}
            with self.overheard(module, qkv) as heard:
                call_method(original, given, **alone)
            return self.heads_of(heard["y"], heads)

        return Call(
            dynamics=softmax_dynamics(factor * q, k, pairs.plus(bias)),
            values=v,
            output=self.heads_of(wide(result["y"]), heads),
            replay=replay,
            columns=v.shape[-1],
            put=lambda y: y.transpose(1, 2).flatten(2).to(result["y"].dtype),
            empty=pairs.empty,
        )

    @abstractmethod
    def dropout(self, module: Any) -> float:
        """Its share of coefficients that dropout takes in training."""

    def clipped(self, module: Any, fused: Tensor) -> Tensor:
        """q, k, v as the class limits them."""
        return fused

    @staticmethod
    def heads_of(y: Tensor, heads: int) -> Tensor:
        """y (B, L, H d) as (B, H, L, d)."""
        return y.unflatten(-1, (heads, -1)).transpose(1, 2)


class Bloom(_WithAlibi):
    """``BloomAttention.forward``: alibi is (B H, 1, L), its own slope times j."""

    class_names = ("BloomAttention",)
    into, out, fused = "query_key_value", "dense", 1

    def dropout(self, module: Any) -> float:
        return module.attention_dropout.p

    def scores(self, given: dict[str, Any], q: Tensor) -> tuple[float, Pairs, Tensor, Any]:
        module, length = given["self"], q.shape[-2]
        bias = module.beta * wide(given["alibi"]).unflatten(0, (q.shape[0], q.shape[1]))
        pairs = read_mask(given["attention_mask"], length, causal=False)
        cache = next((given[name] for name in _CACHES if given.get(name) is not None), None)
        return module.inv_norm_factor, pairs, bias.expand(-1, -1, length, -1), cache


class MPT(_WithAlibi):
    """``MptAttention.forward``: position_bias is (H, 1, longest), its last L columns count."""

    class_names = ("MptAttention",)
    into, out, fused = "Wqkv", "out_proj", 0

    def dropout(self, module: Any) -> float:
        return module.attn_dropout_p

    def clipped(self, module: Any, fused: Tensor) -> Tensor:
        clip = module.clip_qkv
        return fused.clamp(min=-clip, max=clip) if clip else fused

    def scores(self, given: dict[str, Any], q: Tensor) -> tuple[float, Pairs, Tensor, Any]:
        module, length, hidden = given["self"], q.shape[-2], given["attention_mask"]
        pairs = read_mask(None if hidden is None else ~hidden, length, causal=False)
        bias = wide(given["position_bias"])[None, :, :, -length:].expand(-1, -1, length, -1)
        cache = next((given[name] for name in _CACHES if given.get(name) is not None), None)
        return module.softmax_scale, pairs, bias.to(q.dtype), cache


_CACHES = ("cache", "layer_past", "past_key_values")


def _check(dropout: float, module: Any) -> None:
    if dropout and module.training:
        raise Unsupported("dropout is at work, so alpha is random; call model.eval() first")
