"""``PlanCache``: transformers' cache with the rows that a plan keeps, and the attention over it.

Transformers hands attention one length for all heads. So a layer of this cache holds the heads that
keep everything apart from those that are cut, and returns the former only; the attention function
of the model's implementation, which ``AttentionInterface`` hands out, is exchanged for one that
calls it twice: on the former as the model would, and on the latter with the rows that they hold.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import nn
from transformers.cache_utils import (
    Cache,
    DynamicCache,
    DynamicLayer,
    DynamicSlidingWindowLayer,
)

from coefdyn.lens.adapters import ADAPTERS
from coefdyn.lens.adapters.attention import SoftmaxAttention
from coefdyn.lens.adapters.base import MethodAdapter, Refused
from coefdyn.lens.cache.places import Places
from coefdyn.lens.cache.plan_layer import HANDED, Home, PlanLayer
from coefdyn.lens.run.listening import anyone_hears, at
from coefdyn.lens.run.refusals import check_call
from coefdyn.shapes import Tensor

__all__ = ["PlanCache", "caching"]

#: key-value heads of a layer, True for those that are cut
Heads = Mapping[str, Sequence[bool]]
#: contexts that are open
_HOMES: list[Home] = []


class PlanCache(Cache):
    """Cache of a model whose cut key-value heads hold a sink and a window of tokens.

    Made by ``CachePlan.cache`` and used within its context as any cache of transformers, as
    ``past_key_values``: for a prompt in one or several parts, ``generate``, beams, and ``crop``,
    which is refused where cut heads have let go of what would be read. ``reset()`` empties it for
    another text; ``copy.deepcopy`` gives a second one. Other layers have the model's own cache.
    """

    layers: list[Any]

    @property
    def bytes(self) -> int:
        """Of the keys and values of all heads of the plan, measured on their tensors."""
        return sum(x.untyped_storage().nbytes() for layer in self._own() for x in layer.tensors())

    def _own(self) -> list[PlanLayer]:
        return [layer for layer in self.layers if isinstance(layer, PlanLayer)]

    def update(
        self, key_states: Tensor, value_states: Tensor, layer_idx: int, *args: Any, **kwargs: Any
    ) -> tuple[Tensor, Tensor]:
        """Take new tokens of a layer in; see ``PlanLayer.update``.

        Raises:
            ValueError: after the context; in a pass that is compiled or that the lens listens to;
                behind a pass that was broken off.
        """
        layer = self.layers[layer_idx]
        if not isinstance(layer, PlanLayer):
            return super().update(key_states, value_states, layer_idx, *args, **kwargs)
        if not layer.home.is_open:
            raise Refused("the context of this cache is over; make one with plan.cache(model).")
        if _is_compiled() or anyone_hears():
            raise Refused(
                "a pass with the cache of a plan is neither compiled nor traced, changed or "
                "planned: inside trace() and its like call the model without it."
            )
        others = self._own()
        done = others[: others.index(layer)]
        to_come = others[len(done) :]
        tokens = layer.get_seq_length()
        whole = all(one.get_seq_length() == tokens + key_states.shape[2] for one in done)
        whole &= all(one.get_seq_length() == tokens for one in to_come)
        if not whole or any(one.handed is not None for one in others):
            raise Refused(
                "the pass before was broken off, so the layers of this cache hold different "
                "tokens; call cache.reset()."
            )
        return super().update(key_states, value_states, layer_idx, *args, **kwargs)

    def crop(self, tokens_to_remove: int) -> None:
        """Take the last ``-tokens_to_remove`` tokens back in all layers, or in none.

        Raises:
            ValueError: as ``PlanLayer.crop``.
        """
        for layer in self._own():
            if layer.is_initialized:
                layer.check_crop(tokens_to_remove)
        super().crop(tokens_to_remove)

    def reset(self) -> None:
        """Forget all tokens."""
        super().reset()
        self.share_places()
        if HANDED.layer in self.layers:
            HANDED.layer = None

    def share_places(self) -> None:
        """Let layers of the same places, before the first token, find them together."""
        found: dict[tuple[int, int | None, int | None], Places] = {}
        for layer in self._own():
            places = layer.places
            layer.places = found.setdefault((places.sink, places.window, places.own), places)


@contextmanager
def caching(model: nn.Module, heads: Heads, sink: int, window: int) -> Iterator[PlanCache]:
    """A cache of some layers' heads cut, and the attention that reads it; see ``CachePlan.cache``.

    Args:
        model: that the cache is for.
        heads: by the name of a layer, which of its key-value heads are cut.
        sink, window: tokens that these keep.
    """
    check_call(model, (), {}, "a cache")
    kinds = _layers_of(model)
    modules = {_module(model, name, len(kinds)): name for name in heads}
    home = Home(modules)
    for module, name in modules.items():
        place, is_cut = module.layer_idx, heads[name]
        kind = kinds[place]
        if type(kind) not in (DynamicLayer, DynamicSlidingWindowLayer):
            raise Refused(
                f"{name} keeps its keys in a {type(kind).__name__}, which the cache of a plan does "
                "not stand for."
            )
        own = getattr(kind, "sliding_window", None)
        places = Places(sink=sink, window=window if any(is_cut) else None, own=own)
        kinds[place] = PlanLayer(home, name, is_cut, places)
    cache = PlanCache(layers=kinds)
    cache.share_places()
    adapter = next(one for one in ADAPTERS if isinstance(one, SoftmaxAttention))
    with ExitStack() as stack:
        for place in adapter.places(model):
            stack.enter_context(at(adapter, place, runner=_hand_out))
        _HOMES.append(home)
        stack.callback(_close, home)
        yield cache


def _is_compiled() -> bool:
    """Return whether ``torch.compile`` runs this code, or falls back to Python here."""
    if torch.compiler.is_compiling():
        return True
    return torch._C._dynamo.eval_frame.get_eval_frame_callback() is not None


def _close(home: Home) -> None:
    """End a context; its layers stay with whoever still holds the cache."""
    _HOMES.remove(home)
    home.close()
    if HANDED.layer is not None and HANDED.layer.home is home:
        HANDED.layer = None


def _layers_of(model: nn.Module) -> list[Any]:
    """Layers of the cache that transformers makes for this model."""
    config: Any = getattr(model, "config", None)
    supports = getattr(model, "_supports_default_dynamic_cache", lambda: False)
    if not hasattr(config, "get_text_config") or not supports():
        raise Refused(
            f"{type(model).__name__} does not keep its past in transformers' DynamicCache, so "
            "there is no cache of the plan for it."
        )
    text = config.get_text_config(decoder=True)
    types = getattr(text, "layer_types", None) or ()
    if "chunked_attention" in types or getattr(text, "attention_chunk_size", None):
        raise Refused(f"{type(model).__name__} attends within chunks, which a plan does not know.")
    shared = getattr(text, "num_kv_shared_layers", None)
    if shared or any(getattr(text, "kv_sharing_modes", None) or ()):
        raise Refused(f"layers of {type(model).__name__} read the keys of others.")
    return DynamicCache(config=text).layers


def _module(model: nn.Module, name: str, layers: int) -> Any:
    """The attention of this name, whose function ``AttentionInterface`` hands out."""
    try:
        module = model.get_submodule(name)
    except AttributeError:
        raise Refused(
            f"{type(model).__name__} has no layer {name}; a plan is for its own model."
        ) from None
    kinds = {kind.__name__ for kind in type(module).__mro__}
    written = [
        one for one in ADAPTERS if isinstance(one, MethodAdapter) and kinds & {*one.class_names}
    ]
    place = getattr(module, "layer_idx", None)
    if written or not isinstance(place, int) or place >= layers:
        raise Refused(
            f"{name} ({type(module).__name__}) does not ask AttentionInterface for its attention, "
            "or has no layer_idx in the cache, so its heads cannot have lengths of their own."
        )
    return module


def _hand_out(original: Callable[..., Any], args: tuple, kwargs: dict[str, Any]) -> Any:
    """``AttentionInterface.get_interface``: the model's own function, asked for each layer."""
    name = args[1] if len(args) > 1 else kwargs["attn_implementation"]
    return functools.partial(_attend, original(*args, **kwargs), name)


def _attend(
    attend: Callable[..., Any],
    implementation: str,
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None = None,
    **kwargs: Any,
) -> Any:
    layer = HANDED.layer
    if layer is None or layer.handed is None or layer.handed[0] is not key:
        if any(module in home.modules for home in _HOMES):
            raise Refused(
                "inside plan.cache(model) each pass takes the cache: model(ids, "
                "past_key_values=cache), or generate(..., past_key_values=cache)."
            )
        return attend(module, query, key, value, attention_mask, **kwargs)
    HANDED.layer = None
    if layer.home.modules.get(module) != layer.name:
        raise Refused(f"this cache is of another model, whose {layer.name} it holds.")
    _check(layer, implementation, module, attention_mask, kwargs, query.shape[2])
    return layer.attend(attend, module, query, attention_mask, kwargs), None


def _check(
    layer: PlanLayer,
    implementation: str,
    module: nn.Module,
    mask: Any,
    given: dict[str, Any],
    new: int,
) -> None:
    """Raise for what two calls over some heads each do not compute."""
    if implementation not in ("sdpa", "eager"):
        raise Refused(
            f"attention runs as {implementation!r}; call model.set_attn_implementation('sdpa') or "
            "('eager') first."
        )
    if implementation == "eager" and mask is None and new > 1:
        raise Refused(f"{layer.name} lets tokens read those to come: it came without a mask.")
    if given.get("dropout"):
        raise Refused("dropout is at work, so no two passes agree; call model.eval() first.")
    if given.get("position_bias") is not None:
        raise Refused(f"{layer.name} adds a bias to its scores, which a plan's cache has not.")
    config = getattr(module, "config", None)
    if given.get("output_attentions") or getattr(config, "output_attentions", False):
        raise Refused("cut heads have coefficients for what they hold only: no output_attentions.")
