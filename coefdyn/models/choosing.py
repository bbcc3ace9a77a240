"""Prompts as one batch, and the choice of the next token."""

from __future__ import annotations

from collections.abc import Sequence

import torch

__all__ = ["choose", "one_batch"]


def one_batch(
    prompt: torch.Tensor | Sequence[torch.Tensor], mask: torch.Tensor | None
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """Prompts of different lengths as one tensor, padded on the left, with its mask."""
    if isinstance(prompt, torch.Tensor):
        return prompt, mask
    if mask is not None:
        raise ValueError(
            "a list of prompts makes its own mask: leave out attention_mask, or give one padded "
            "tensor."
        )
    rows = [torch.as_tensor(row) for row in prompt]
    if not rows or any(row.ndim != 1 or len(row) == 0 for row in rows):
        shapes = [tuple(row.shape) for row in rows]
        raise ValueError(f"a list of prompts holds ids (length,) of at least one, got {shapes}.")
    most = max(map(len, rows))
    pad = torch.nn.functional.pad
    tokens = torch.stack([pad(row, (most - len(row), 0)) for row in rows])
    real = torch.stack([pad(torch.ones_like(row), (most - len(row), 0)) for row in rows])
    return tokens, real


def choose(
    logits: torch.Tensor,
    temperature: float,
    generator: torch.Generator | None,
    top_k: int | None = None,
) -> torch.Tensor:
    """Choose one token per sequence: the likeliest, or one drawn from the ``top_k`` likeliest."""
    largest = logits.amax(-1, keepdim=True)
    if not bool(torch.isfinite(largest).all()):
        raise ValueError(
            "the logits hold NaN or infinity, and no token follows from them: a parameter is NaN "
            "(a run that diverged, weights never loaded), or a number left the dtype's range."
        )
    if temperature == 0:
        return logits.argmax(-1)
    if top_k is not None:
        least = logits.topk(top_k, dim=-1).values[..., -1:]
        logits = logits.masked_fill(logits < least, -torch.inf)
    logits = logits - largest  # 0 at the largest, at any temperature
    temperature = max(temperature, torch.finfo(logits.dtype).tiny)
    chances = torch.softmax(logits / temperature, dim=-1)
    drawn = torch.multinomial(chances.reshape(-1, chances.shape[-1]), 1, generator=generator)
    return drawn.view(logits.shape[:-1])
