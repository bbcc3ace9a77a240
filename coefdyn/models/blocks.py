"""Blocks: a mixer or a SwiGLU between a norm and a residual connection (paper, Figure 12)."""

from __future__ import annotations

from typing import TypedDict, Unpack

import torch
from torch import nn
from torch.nn import functional

from coefdyn import mixers
from coefdyn.mixers.initial import Resettable
from coefdyn.models.config import ModelConfig
from coefdyn.models.names import find_mixer
from coefdyn.shapes import Float

__all__ = ["Block", "Masks", "SwiGLU", "build_mixer", "build_norm"]


class Masks(TypedDict, total=False):
    """Documents of a batch: the options of ``Mixer.forward`` that a model hands to every layer.

    attention_mask: ``(..., L)``, 1 for a token and 0 for padding, or None.
    cu_seqlens: boundaries of packed documents, or None.
    """

    attention_mask: torch.Tensor | None
    cu_seqlens: torch.Tensor | None


def given(masks: Masks) -> Masks:
    """The options that are set: a mixer of one's own need not accept the others."""
    return {name: value for name, value in masks.items() if value is not None}  # type: ignore[return-value]


class SwiGLU(Resettable):
    """y = W_3 (SiLU(W_1 x) * W_2 x), no biases (Shazeer, 2020).

    Args:
        width: channels in and out.
        inner: channels in between.
    """

    def __init__(self, *, width: int, inner: int) -> None:
        super().__init__()
        self.gate = nn.Linear(width, inner, bias=False)
        self.up = nn.Linear(width, inner, bias=False)
        self.down = nn.Linear(inner, width, bias=False)

    def forward(self, x: Float[torch.Tensor, "*any d"]) -> Float[torch.Tensor, "*any d"]:
        return self.down(functional.silu(self.gate(x)) * self.up(x))


def build_norm(config: ModelConfig) -> nn.Module:
    """LayerNorm (weight and offset), RMSNorm (weight) or none, as ``config.norm`` says."""
    if config.norm == "none":
        return nn.Identity()
    if config.norm == "layer":
        return nn.LayerNorm(config.width)
    return nn.RMSNorm(config.width, eps=1e-5)


def build_mixer(config: ModelConfig, layer: int = 0) -> mixers.Mixer:
    """Build the mixer of a layer from its block's and its own options.

    Args:
        config: which names the mixer, or the pattern of mixers.
        layer: counted from 0.

    Raises:
        ValueError: if an option does not fit.
    """
    name, options = config.mixer_name(layer), config.mixer_options(layer)
    try:
        return find_mixer(name)(d_model=config.width, **options)
    except TypeError as error:
        words = str(error).removesuffix(".")
        raise ValueError(
            f"mixer {name!r} cannot be built with options={options!r} (those of block="
            f"{config.block!r} included): {words}. Give them in ModelConfig, such as "
            "options={'n_heads': 4}."
        ) from error


class Block(Resettable):
    r"""Pre-norm residual block: x + mixer(norm(x)), then x + MLP(norm(x)) where there is one.

    With ``config.skip=False`` the first half is mixer(norm(x)).

    Type 1 and type 2 of the paper's Figure 12 differ inside the mixer: type 2 has the short
    convolution before, and the gated output norm after, the coefficient dynamics.

    Args:
        config: sizes and choices of the model.
        layer: which of its layers this is, from 0.
    """

    def __init__(self, config: ModelConfig, layer: int = 0) -> None:
        super().__init__()
        self.skip = config.skip
        self.mixer_norm = build_norm(config)
        self.mixer = build_mixer(config, layer)
        self.mlp_norm = build_norm(config) if config.mlp else None
        self.mlp = SwiGLU(width=config.width, inner=config.mlp) if config.mlp else None

    def forward(
        self,
        x: Float[torch.Tensor, "*batch L d"],
        method: str = "auto",
        *,
        state: mixers.MixerState | None = None,
        return_state: bool = False,
        **masks: Unpack[Masks],
    ) -> Float[torch.Tensor, "*batch L d"] | tuple[torch.Tensor, mixers.MixerState | None]:
        """Apply the block; arguments as in ``Mixer.forward``, only the mixer has a state."""
        normed, chosen = self.mixer_norm(x), given(masks)
        if state is None and not return_state:
            return self._feed(x, self.mixer(normed, method=method, **chosen))
        y = self.mixer(normed, method=method, state=state, return_state=return_state, **chosen)
        return (self._feed(x, y[0]), y[1]) if return_state else self._feed(x, y)

    def extend(
        self,
        x: Float[torch.Tensor, "*batch L d"],
        state: mixers.MixerState | None = None,
        **masks: Unpack[Masks],
    ) -> tuple[Float[torch.Tensor, "*batch L d"], mixers.MixerState | None]:
        """Continue a sequence: ``forward(x, state=state, return_state=True)``."""
        return self.forward(x, state=state, return_state=True, **masks)  # type: ignore[return-value]

    def _feed(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        """Add the mixer's output y to x, and apply the second half of the block."""
        x = x + y if self.skip else y
        return x if self.mlp is None else x + self.mlp(self.mlp_norm(x))
