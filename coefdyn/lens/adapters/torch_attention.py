"""Softmax attention of torch itself, in any module: ``scaled_dot_product_attention`` and
``nn.MultiheadAttention``.

    A_t = I,  b_j = 1,  phi = exp,  eta = row sum

q carries the scale. A mask hides pairs or, of numbers, is added to the scores.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import torch
from torch import nn
from torch.nn import functional

from coefdyn.lens.adapters.attention import softmax_dynamics
from coefdyn.lens.adapters.base import (
    Adapter,
    Call,
    MethodAdapter,
    Place,
    Unsupported,
    behind,
    busy,
    call_method,
    defining_modules,
    exchanged,
    repeat_heads,
    wide,
    with_first,
)
from coefdyn.lens.adapters.masks import read_mask
from coefdyn.shapes import Tensor

__all__ = ["MultiheadAttention", "TorchAttention"]

NAME = "scaled_dot_product_attention"
OUTSIDE = "projections before q, k, v; projection after y"


class TorchAttention(Adapter):
    """``F.scaled_dot_product_attention(q, k, v, ...)``, q (B, H, L, n) or (B, L, n).

    The function is heard where it is called as an attribute of ``torch.nn.functional``, or by the
    name under which a module of the model imported it.
    """

    mechanism = "softmax attention"
    outside = OUTSIDE

    def places(self, model: nn.Module) -> Iterator[Place]:
        yield Place(functional, NAME)
        original = inspect.unwrap(getattr(functional, NAME))
        for module in defining_modules(model):
            for name, value in list(vars(module).items()):
                heard = inspect.isroutine(value) and inspect.unwrap(value) is original
                if heard and module is not functional:
                    yield Place(module, name)

    def listen(self, original: Callable[..., Any], note: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def stand_in(*args: Any, **kwargs: Any) -> Tensor:
            y = original(*args, **kwargs)
            if busy():
                return y
            return note(None, lambda: read_sdpa(original, _bound(args, kwargs), y), y)

        return stand_in


class MultiheadAttention(MethodAdapter):
    """``nn.MultiheadAttention.forward``, which has a path of its own in evaluation.

    What is read is a second call through ``scaled_dot_product_attention``, held to the output of
    the first.
    """

    mechanism = "softmax attention"
    outside = OUTSIDE
    class_names = ("MultiheadAttention",)

    def read(self, original: Callable[..., Any], given: dict[str, Any], result: Any) -> Call:
        heard: list[Call] = []
        again = _without_fast_path(original, given, heard)
        if len(heard) != 1:
            raise Unsupported("this nn.MultiheadAttention calls no scaled_dot_product_attention")
        gap = (wide(again) - wide(result[0])).abs().amax()
        rounding = 1e-1 if result[0].dtype in (torch.float16, torch.bfloat16) else 1e-3
        if not bool(gap <= rounding * wide(result[0]).abs().amax()):
            raise Unsupported("this nn.MultiheadAttention computes something else with weights")

        def put(y: Tensor) -> Any:
            return with_first(result, _without_fast_path(original, given, [], heard[0].put(y)))

        return replace(heard[0], put=put)


def _without_fast_path(
    original: Callable[..., Any],
    given: dict[str, Any],
    heard: list[Call],
    changed: Tensor | None = None,
) -> Tensor:
    """The output of ``nn.MultiheadAttention`` once more, its attention read into ``heard``, or
    replaced by ``changed``."""
    plain = getattr(functional, NAME)

    def stand_in(*args: Any, **kwargs: Any) -> Tensor:
        y = plain(*args, **kwargs) if changed is None else changed
        if changed is None:
            heard.append(read_sdpa(plain, _bound(args, kwargs), y))
        return y

    before = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        with exchanged(functional, NAME, stand_in):
            return call_method(original, given, need_weights=False)[0]
    finally:
        torch.backends.mha.set_fastpath_enabled(before)


def _bound(args: tuple, kwargs: dict[str, Any]) -> dict[str, Any]:
    names = ("query", "key", "value", "attn_mask", "dropout_p", "is_causal", "scale", "enable_gqa")
    given = dict(zip(names, args, strict=False)) | kwargs
    return {"attn_mask": None, "dropout_p": 0.0, "is_causal": False, "scale": None} | given


def read_sdpa(original: Callable[..., Tensor], given: dict[str, Any], y: Tensor) -> Call:
    """One call of ``scaled_dot_product_attention``, its arguments by name."""
    if given["dropout_p"]:
        raise Unsupported("dropout is at work, so alpha is random; call model.eval() first")
    tensors = [given[name] for name in ("query", "key", "value")]
    axes = tensors[0].ndim
    if axes not in (3, 4):
        raise Unsupported(f"q has {axes} axes; expected (B, H, L, n) or (B, L, n)")
    q, k, v = (wide(x if axes == 4 else x[:, None]) for x in tensors)
    asked, kept = q.shape[-2], k.shape[-2] - q.shape[-2]
    mask = given["attn_mask"]
    alone = mask is None and asked > 1
    if kept < 0 or (kept and (alone or given["is_causal"])):  # torch counts from the first key
        raise Unsupported(f"{asked} queries read {kept + asked} keys: another sequence, or a cache")
    if mask is not None:
        while mask.ndim < axes:
            mask = mask[None]
        mask = mask if axes == 4 else mask[:, None]
        mask = mask.expand(*mask.shape[:-2], asked, kept + asked)
    pairs = read_mask(mask, asked, given["is_causal"] or kept > 0, kept)
    scale = given["scale"]
    heads = q.shape[1]
    q = behind(q * (q.shape[-1] ** -0.5 if scale is None else scale), kept)
    dynamics = softmax_dynamics(q, repeat_heads(k, heads), pairs)

    def replay(columns: Tensor) -> Tensor:
        shared = columns[:, :: heads // v.shape[1]].to(given["value"].dtype)
        value = shared if axes == 4 else shared[:, 0]
        answer = original(**{**given, "value": value})
        return answer if axes == 4 else answer[:, None]

    return Call(
        dynamics=dynamics,
        values=repeat_heads(v, heads),
        output=wide(y if axes == 4 else y[:, None]),
        replay=replay,
        columns=v.shape[-1],
        put=lambda changed: (changed if axes == 4 else changed[:, 0]).to(y.dtype),
        empty=None if pairs.empty is None else pairs.empty[..., kept:],
        start=kept,
    )
