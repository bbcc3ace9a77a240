"""A state as a layer of transformers' cache, which reorders it for beams."""

from __future__ import annotations

from typing import Any

import torch
from transformers import Cache, StaticCache
from transformers.cache_utils import CacheLayerMixin

from coefdyn.execution.state import MixerState, ModelState
from coefdyn.mixers import Mixer
from coefdyn.models.sequence_model import SequenceModel
from coefdyn.shapes import Tensor

__all__ = ["StateLayer", "continued", "layer_of"]


class StateLayer(CacheLayerMixin):
    """One layer of a cache of transformers: a state of this library in place of keys and values.

    Attributes:
        state: that of a mixer or of a model; None before the first token, and after padding on the
            right, which no state can step back over.
        tokens: number of tokens so far, padding included.
    """

    is_croppable = False
    supports_early_init = False

    def __init__(self) -> None:
        super().__init__()
        self.state: Any = None
        self.tokens = 0

    def keep(self, state: MixerState | ModelState | None, tokens: int) -> None:
        """Replace the state by that after further tokens.

        Args:
            state: what the mixer or the model returned; None for one that cannot be continued.
            tokens: how many tokens it has read since the last one.
        """
        self.state, self.tokens = state, self.tokens + tokens

    def get_seq_length(self) -> int:
        """Number of tokens so far, padding included."""
        return self.tokens

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        """Number of tokens with the next ones, and the first of them: masks cover all.

        Args:
            query_length: number of the next tokens.
        """
        return self.tokens + query_length, 0

    def get_max_length(self) -> int:
        """Return -1: there is no longest sequence."""
        return -1

    def reorder_cache(self, beam_idx: Tensor) -> None:
        """Choose rows of the batch: those that beams continue.

        Args:
            beam_idx: the rows, in their new order.
        """
        if self.state is not None:
            self.state = self.state.index(beam_idx)

    def batch_select_indices(self, indices: Tensor) -> None:
        """Choose rows of the batch.

        Args:
            indices: the rows, in their new order.
        """
        self.reorder_cache(indices)

    def batch_repeat_interleave(self, repeats: int) -> None:
        """Repeat each row of the batch.

        Args:
            repeats: how often.
        """
        if self.state is not None:
            rows = torch.arange(self.state.batch_shape[0])
            self.reorder_cache(rows.repeat_interleave(repeats))

    def reset(self) -> None:
        """Forget everything."""
        self.state, self.tokens = None, 0

    def crop(self, tokens_to_remove: int) -> None:
        """Refuse to take tokens back (assisted generation asks for it).

        Args:
            tokens_to_remove: 0 is admitted.

        Raises:
            ValueError: for any other number.
        """
        if tokens_to_remove:
            raise ValueError(
                f"a state cannot take back {abs(tokens_to_remove)} tokens, as a cache of keys and "
                "values can; generate without an assistant, or keep a state from before."
            )

    def lazy_initialization(self, key_states: Tensor, value_states: Tensor) -> None:
        """Refuse keys and values.

        Args:
            key_states: keys of an attention module.
            value_states: its values.

        Raises:
            ValueError: always.
        """
        raise ValueError(
            "this layer of the cache holds the state of a mixer, and takes no keys and values; an "
            "attention module with the same layer_idx wrote to it: give each module its own."
        )

    def update(self, key_states: Tensor, value_states: Tensor, *args: Any, **given: Any) -> Any:
        """Refuse keys and values, see ``lazy_initialization``.

        Args:
            key_states: keys of an attention module.
            value_states: its values.
            args, given: whatever transformers passes on.
        """
        self.lazy_initialization(key_states, value_states)


def layer_of(cache: Cache, index: int) -> StateLayer:
    """The layer of a cache for a state; put there before the first token."""
    if isinstance(cache, StaticCache):
        raise ValueError(
            "a static cache holds keys and values of a fixed length, and no state: leave "
            "cache_implementation out, the default cache takes any layer."
        )
    while len(cache.layers) <= index:
        cache.layers.append(StateLayer())
    held = cache.layers[index]
    if not isinstance(held, StateLayer):
        if held.get_seq_length():
            raise ValueError(
                f"layer {index} of the cache holds keys and values of another module, and no state "
                "follows from them; begin with an empty cache."
            )
        held = cache.layers[index] = StateLayer()
    return held


def continued(
    module: Mixer | SequenceModel, x: Tensor, held: StateLayer | None, mask: Tensor | None
) -> Tensor:
    """Output of a mixer or a model on the latest tokens, whose state a cache may carry.

    Args:
        module: the mixer or the model.
        x: the latest tokens, ``(B, L, d)`` or ids ``(B, L)``.
        held: the layer of the cache, or None.
        mask: ``(B, all tokens so far)``, 1 for a token and 0 for padding; None for none.

    Raises:
        ValueError: if the mask holds other numbers, or does not belong to the tokens which the
            state has seen, or the cache ended in padding.
    """
    new, state = x.shape[1], None if held is None else held.state
    if held is not None and held.tokens and state is None:
        raise ValueError(
            "the cache ended in padding on the right, which a state cannot step back over: pad the "
            "prompts on the left (tokenizer.padding_side='left')."
        )
    if mask is not None:
        real = mask == 1
        if not torch.equal(real, mask != 0):
            raise ValueError(
                "attention_mask must hold 1 (a token) and 0 (padding) only; an additive mask of 0 "
                "and -inf becomes one by mask == 0."
            )
        mask = real
    if mask is not None and state is not None:
        seen, known = mask[:, :-new].sum(-1), torch.as_tensor(state.position, device=mask.device)
        if known.ndim and known.shape != seen.shape:
            raise ValueError(
                f"the cache has seen {len(known)} sequences, these are {len(seen)}; choose its "
                "rows by cache.batch_select_indices, or begin with an empty cache."
            )
        if not bool((seen == known).all()):
            raise ValueError(
                f"attention_mask counts {seen.tolist()} tokens before the {new} new ones, but the "
                f"cache has seen {known.tolist()}; give the mask of all tokens, with the padding "
                "that the cache was made with."
            )
    ended = mask is not None and bool((mask.any(-1) & ~mask[:, -1]).any())  # not padding so far
    mask = None if mask is None or bool(mask[:, -new:].all()) else mask[:, -new:]
    if held is None or ended:
        state, y = None, module(x, state=state, attention_mask=mask)
    else:
        y, state = module.extend(x, state, attention_mask=mask)
    if held is not None:
        held.keep(state, new)
    return y
