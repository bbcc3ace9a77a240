"""Softmax attention of every transformers class that asks AttentionInterface for its function.

    A_t = I,  b_j = 1,  phi = exp (with softcap c: exp(c tanh(s / c))),  eta = row sum

q and k are those after RoPE, q with the class's scaling. A sink adds exp(sink) to eta; padding,
windows and blocks are masks, and ALiBi is an outer decay. Grouped keys are repeated.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from torch import nn

from coefdyn import CoefficientDynamics, evolution, normalizer, readout
from coefdyn.dynamics.readout import Pointwise
from coefdyn.lens.adapters.base import (
    CONTINUES,
    Adapter,
    Call,
    Place,
    Refused,
    Unsupported,
    behind,
    operation,
    repeat_heads,
    wide,
    with_first,
)
from coefdyn.lens.adapters.masks import Pairs, as_decay, as_mask, extend, read_mask
from coefdyn.shapes import Float, Tensor

__all__ = ["SoftmaxAttention", "softmax_dynamics"]


@functools.lru_cache
def capped(cap: float) -> Pointwise:
    """exp(cap tanh(s / cap))."""
    return Pointwise(lambda s: (cap * (s / cap).tanh()).exp(), name=f"exp({cap:g} tanh(s/{cap:g}))")


class SoftmaxAttention(Adapter):
    """``attention(module, query, key, value, mask, scaling=...)``, q (B, H, L, n)."""

    mechanism = "softmax attention"
    outside = "projections and RoPE before q, k; output gate (where there is one) and projection"

    def places(self, model: nn.Module) -> Iterator[Place]:
        try:
            from transformers.modeling_utils import AttentionInterface
        except ImportError:
            return
        if any(type(module).__module__.startswith("torch.") is False for module in model.modules()):
            yield Place(AttentionInterface, "get_interface")

    def listen(self, original: Callable[..., Any], note: Callable[..., Any]) -> Callable[..., Any]:
        """``original`` hands out attention functions; each is replaced by one that is heard."""

        @functools.wraps(original)
        def get_interface(interface: Any, name: str, default: Callable[..., Any]) -> Any:
            attend = original(interface, name, default)

            @functools.wraps(attend)
            def heard(module: nn.Module, *args: Any, **kwargs: Any) -> Any:
                with operation():
                    result = attend(module, *args, **kwargs)
                called = (module, *args)
                return note(module, lambda: self.read(attend, called, kwargs, result, name), result)

            return heard

        return get_interface

    def read(
        self,
        original: Callable[..., Any],
        args: tuple,
        kwargs: dict[str, Any],
        result: Any,
        name: str,
    ) -> Call:
        """One call of an attention function; ``name`` is that of the implementation."""
        given = dict(zip(("module", "query", "key", "value", "attention_mask"), args, strict=False))
        given |= kwargs
        module = given["module"]
        _check(module, given, name)
        q, k, v = (wide(given[part]) for part in ("query", "key", "value"))
        heads, length, kept = q.shape[1], q.shape[2], k.shape[2] - q.shape[2]
        causal = given.get("is_causal")
        causal = getattr(module, "is_causal", True) if causal is None else bool(causal)
        mask = given.get("attention_mask")
        if kept and length > 1 and mask is None:
            raise Unsupported(f"{length} queries read {kept + length} keys without a mask")
        pairs = read_mask(mask, length, (causal and name != "eager") or kept > 0, kept)
        if given.get("position_bias") is not None:
            if kept:
                raise Refused(CONTINUES)
            pairs = pairs.plus(given["position_bias"].to(q.dtype))
        scaling = given.get("scaling")
        q = behind(q * (q.shape[-1] ** -0.5 if scaling is None else scaling), kept)
        k = repeat_heads(k, heads)
        dynamics = softmax_dynamics(q, k, pairs, given.get("softcap"), _sinks(module, given))
        y = result[0]

        def replay(columns: Tensor) -> Tensor:
            shared = columns[:, :: heads // v.shape[1]].to(given["value"].dtype)
            changed = {**{k: x for k, x in given.items() if k != "module"}, "value": shared}
            return original(module, **changed)[0].transpose(1, 2)

        return Call(
            dynamics=dynamics,
            values=repeat_heads(v, heads),
            output=wide(y).transpose(1, 2),
            replay=replay,
            columns=v.shape[-1],
            put=lambda y: with_first(result, y.transpose(1, 2).contiguous()),
            empty=None if pairs.empty is None else pairs.empty[..., kept:],
            start=kept,
        )


def _check(module: nn.Module, given: dict[str, Any], name: str) -> None:
    if name.startswith(("flash", "flex", "paged")):
        raise Unsupported(
            f"attention runs as {name!r}, whose masks are not tensors; "
            "call model.set_attn_implementation('sdpa') or ('eager') first"
        )
    if given.get("dropout") and module.training:
        raise Unsupported("dropout is at work, so alpha is random; call model.eval() first")
    if getattr(module, "is_cross_attention", False):
        raise Unsupported("cross-attention reads another sequence")
    asked, kept = given["query"].shape[2], given["key"].shape[2]
    if asked > kept:
        raise Unsupported(f"{asked} queries read {kept} keys: another sequence")


def _sinks(module: nn.Module, given: dict[str, Any]) -> Tensor | None:
    sinks = given.get("s_aux", getattr(module, "sinks", None))
    return None if sinks is None else wide(sinks).flatten()


def softmax_dynamics(
    q: Float[Tensor, "B H L n"],
    k: Float[Tensor, "B H L n"],
    pairs: Pairs,
    softcap: float | None = None,
    sinks: Float[Tensor, " H"] | None = None,
) -> CoefficientDynamics:
    """alpha, q with the scale of the scores.

    A bias that is no decay goes into q and k, where a softcap would bend it. Without a sink, biases
    are relative to that of the token itself: the row sum divides by what a row shares.
    """
    if pairs.bias is not None and sinks is None and softcap is None:
        own = pairs.bias.diagonal(0, -2, -1)[..., None]
        pairs = replace(pairs, bias=pairs.bias - own)
    fade = as_decay(pairs)
    if pairs.bias is not None and fade is None:
        if softcap is not None:
            raise Unsupported("a softcap together with a bias on the scores")
        q, k = extend(q, k, pairs.bias)
    return CoefficientDynamics(
        q=q,
        k=k,
        evolution=evolution.Identity(),
        scaling=1.0,
        readout=readout.exp if softcap is None else capped(float(softcap)),
        normalizer=normalizer.RowSum(None if sinks is None else _per_token(sinks, q)),
        outer_log_decay=None if fade is None else fade.to(q.dtype),
        mask=as_mask(pairs.allowed),
    )


def _per_token(sinks: Float[Tensor, " H"], q: Float[Tensor, "B H L n"]) -> Float[Tensor, "1 H L"]:
    return sinks.to(q.dtype)[None, :, None].expand(1, *q.shape[1:3])
