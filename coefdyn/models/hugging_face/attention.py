"""A mixer in the place of an attention module, in a model of transformers."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from transformers import Cache

from coefdyn.dynamics.checks import can_read
from coefdyn.mixers import Mixer
from coefdyn.models.hugging_face.cache import continued, layer_of
from coefdyn.shapes import Float, Tensor

__all__ = ["MixerAttention"]


class MixerAttention(nn.Module):
    """A mixer in the place of an attention module of transformers, with Llama's signature.

        layer.self_attn = MixerAttention(mixer, layer_idx=layer.self_attn.layer_idx)

    The state is carried in layer ``layer_idx`` of the model's cache. Padding is read from the mask
    that the model hands to its layers, whatever its attention implementation; packed documents,
    windows and biases in that mask are refused. Rotary angles of the model are not used: a mixer
    with position="rotary" has its own, which count from a row's first real token.

    Args:
        mixer: of the model's width.
        layer_idx: which layer of the model this is, from 0.
    """

    def __init__(self, mixer: Mixer, layer_idx: int) -> None:
        super().__init__()
        self.mixer, self.layer_idx = mixer, layer_idx

    def forward(
        self,
        hidden_states: Float[Tensor, "B L d"],
        position_embeddings: Any = None,
        attention_mask: Any = None,
        past_key_values: Cache | None = None,
        cache: Cache | None = None,
        position_ids: Tensor | None = None,
        **others: Any,
    ) -> tuple[Float[Tensor, "B L d"], None]:
        """Apply the mixer, and continue its state where there is a cache.

        Args:
            hidden_states: ``(B, L, d_model)``.
            position_embeddings: rotary angles of the model, not used.
            attention_mask: the model's: ``(B, all tokens)`` or ``(B, 1, L, all tokens)``; None.
            past_key_values: the cache, or None.
            cache: its name from transformers 5.24 on.
            position_ids: of these tokens; read to find packed documents.
            others: further arguments of attention modules, not used.

        Returns:
            the output, and None for the weights that there are not.

        Raises:
            ValueError: for packed documents, and masks that are not causal with padding.
        """
        cache = past_key_values if cache is None else cache
        held = None if cache is None else layer_of(cache, self.layer_idx)
        mask, new = None, hidden_states.shape[1]
        if attention_mask is not None:
            mask = padding_in(attention_mask, new, new + (held.tokens if held else 0))
        if others.get("cu_seq_lens_q") is not None or begin_anew(position_ids, mask):
            raise ValueError(
                "packed documents (positions that begin anew) are not supported here: give the "
                "model one document per row, with padding and an attention_mask."
            )
        return continued(self.mixer, hidden_states, held, mask), None


def begin_anew(position_ids: Tensor | None, mask: Tensor | None) -> bool:
    """Return whether positions of real tokens do not count on: documents are packed."""
    if position_ids is None or position_ids.ndim != 2 or not can_read(position_ids):
        return False
    jumps = position_ids.diff() != 1
    if mask is not None:
        real = mask[:, -position_ids.shape[1] :]
        jumps = jumps & real[:, 1:] & real[:, :-1]
    return bool(jumps.any())


def padding_in(mask: Any, new: int, total: int) -> Tensor:
    """Padding in a mask of attention: of two axes, or causal of four (bool or added to scores).

    Args:
        mask: ``(B, total)``, or ``(B, 1, new, total)``.
        new: number of the latest tokens.
        total: number of all.

    Raises:
        ValueError: for anything that is not causal with padding.
    """
    shape = tuple(getattr(mask, "shape", ()))
    if isinstance(mask, Tensor) and shape[1:] == (total,):
        return mask
    if isinstance(mask, Tensor) and shape[1:] == (1, new, total):
        seen = (mask if mask.dtype == torch.bool else mask == 0)[:, 0]
        additive = mask.is_floating_point()
        hidden = (mask <= torch.finfo(mask.dtype).min)[:, 0] if additive else ~seen
        real = seen[:, -1]
        causal = torch.ones(new, total, dtype=torch.bool, device=mask.device).tril(total - new)
        # the rows of padding are compared too: packed documents differ from it there alone
        if torch.equal(hidden, ~seen) and torch.equal(seen, causal & real[:, None]):
            return real
    raise ValueError(
        f"the attention_mask {type(mask).__name__} {shape} is not causal with padding, (B, {total})"
        f" or (B, 1, {new}, {total}): windows, packed documents and biases are not supported here; "
        "a mixer with a window of its own takes none from the model."
    )
