"""A state as a layer of transformers' cache, which reorders it for beams."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from transformers import Cache, StaticCache
from transformers.cache_utils import CacheLayerMixin

from coefdyn.execution.state import MixerState, ModelState
from coefdyn.shapes import Float, Tensor

__all__ = ["StateLayer", "continued", "layer_of"]


class StateLayer(CacheLayerMixin):
    """One layer of a cache of transformers: a state of this library in place of keys and values.

    No state can be computed backwards. To take tokens back, as assisted generation asks for, a
    layer keeps the state before the latest piece and the inputs of that piece until the next one
    comes: the tokens that stay are run again together with it.

    Attributes:
        state: that of a mixer or of a model; None before the first token, and after padding on the
            right, which no state can step back over.
        tokens: number of tokens so far, padding included.
        before: the state before the latest piece.
        piece: inputs ``(B, L, d)`` of the latest piece, which can be taken back; None for none.
        again: inputs ``(B, L, d)`` after ``state`` that are to be run again; None for none.
    """

    is_croppable = True
    supports_early_init = False

    def __init__(self) -> None:
        super().__init__()
        self.state: Any = None
        self.tokens = 0
        self.again: Tensor | None = None
        self.before: Any = None
        self.piece: Tensor | None = None

    def keep(self, state: MixerState | ModelState | None, piece: Float[Tensor, "B L d"]) -> None:
        """Replace the state by that after a piece, whose inputs can then be taken back.

        Args:
            state: what the mixer or the model returned; None for one that cannot be continued.
            piece: its inputs, with those that were run again.
        """
        rerun = 0 if self.again is None else self.again.shape[1]
        self.before, self.piece, self.again = self.state, piece.detach(), None
        self.state, self.tokens = state, self.tokens - rerun + piece.shape[1]

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
        for name in ("state", "before"):
            held = getattr(self, name)
            setattr(self, name, None if held is None else held.index(beam_idx))
        for name in ("again", "piece"):
            inputs = getattr(self, name)
            rows = None if inputs is None else beam_idx.to(inputs.device)
            setattr(self, name, None if inputs is None else inputs.index_select(0, rows))

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
        if self.piece is not None:
            rows = torch.arange(self.piece.shape[0])
            self.reorder_cache(rows.repeat_interleave(repeats))

    def reset(self) -> None:
        """Forget everything."""
        self.state, self.tokens, self.again, self.before, self.piece = None, 0, None, None, None

    def crop(self, tokens_to_remove: int) -> None:
        """Take back tokens of the latest piece; those of it that stay are run again with the next.

        Args:
            tokens_to_remove: how many, with either sign; at most those of the latest piece.

        Raises:
            ValueError: for more than that.
        """
        count, piece = abs(tokens_to_remove), self.piece
        if not count:
            return
        room = 0 if piece is None else piece.shape[1]
        if piece is None or count > room:
            raise ValueError(
                f"a state can take back the tokens of its latest piece, {room} here, and not "
                f"{count}: copy the cache before tokens that may have to go."
            )
        self.state, self.tokens = self.before, self.tokens - count
        self.again = self.piece = piece[:, : room - count] if room > count else None

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


#: a mixer or a model: (inputs, state=, return_state=, attention_mask=) to outputs, and the state
Run = Callable[..., Any]


def continued(
    run: Run, x: Float[Tensor, "B L d"], held: StateLayer | None, mask: Tensor | None
) -> Tensor:
    """Output of a mixer or a model on the latest tokens, whose state a cache may carry.

    Args:
        run: the mixer, or ``transform`` of the model.
        x: inputs of the latest tokens, ``(B, L, d)``.
        held: the layer of the cache, or None.
        mask: ``(B, all tokens so far)``, 1 for a token and 0 for padding; None for none.

    Raises:
        ValueError: if the mask holds other numbers, or does not belong to the tokens which the
            state has seen, or the cache ended in padding.
    """
    asked, mask = x.shape[1], None if mask is None else _read(mask)
    if held is None:
        mask = None if mask is None or bool(mask.all()) else mask
        return run(x, state=None, attention_mask=mask)
    if held.again is not None:
        x = torch.cat([held.again, x], 1)
    return _piece(run, x, held, mask)[:, -asked:]


def _read(mask: Tensor) -> Tensor:
    real = mask == 1
    if not torch.equal(real, mask != 0):
        raise ValueError(
            "attention_mask must hold 1 (a token) and 0 (padding) only; an additive mask of 0 "
            "and -inf becomes one by mask == 0."
        )
    return real


def _piece(run: Run, x: Tensor, held: StateLayer, mask: Tensor | None) -> Tensor:
    """Output of one piece, which continues what the layer holds."""
    new, state, before = x.shape[1], held.state, held.tokens
    if held.again is not None:
        before -= held.again.shape[1]
    if before and state is None:
        raise ValueError(
            "the cache ended in padding on the right, which a state cannot step back over: pad the "
            "prompts on the left (tokenizer.padding_side='left')."
        )
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
    if ended:
        state, y = None, run(x, state=state, attention_mask=mask)
    else:
        y, state = run(x, state=state, return_state=True, attention_mask=mask)
    held.keep(state, x)
    return y
