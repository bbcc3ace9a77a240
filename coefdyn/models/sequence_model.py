"""Embedding, blocks, norm, head: the model of every experiment."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from coefdyn import CoefficientDynamics
from coefdyn.models.blocks import Block, build_norm
from coefdyn.models.config import ModelConfig
from coefdyn.options import check_choice
from coefdyn.shapes import Float, Int

__all__ = ["SequenceModel", "language_model_config"]


class SequenceModel(nn.Module):
    """Tokens to logits, one block after another (MAD's shell).

    Embedding weights are drawn from N(0, embedding_std); other linear maps as torch does; the
    head's bias starts at 0 and its weights are not tied to the embedding.

    Args:
        config: sizes and choices.
        vocab: number of input token ids.
        classes: number of outputs per position; ``vocab`` if None.
        length: longest input in tokens; needed for position="learned" only.

    Raises:
        ValueError: for options that do not fit, or a missing length.
    """

    def __init__(
        self,
        config: ModelConfig,
        *,
        vocab: int,
        classes: int | None = None,
        length: int | None = None,
    ) -> None:
        super().__init__()
        self.config = config
        self.embedding = nn.Embedding(vocab, config.width)
        nn.init.normal_(self.embedding.weight, std=config.embedding_std)
        self.positions = self._position_table(length)
        self.blocks = nn.ModuleList([Block(config) for _ in range(config.layers)])
        self.norm = build_norm(config)
        self.head = nn.Linear(config.width, classes or vocab)
        nn.init.zeros_(self.head.bias)

    def _position_table(self, length: int | None) -> nn.Parameter | None:
        if self.config.position != "learned":
            return None
        if length is None:
            raise ValueError("position='learned' needs length, the longest input in tokens.")
        return nn.Parameter(self.config.embedding_std * torch.randn(length, self.config.width))

    def embed(self, tokens: Int[torch.Tensor, "*batch L"]) -> Float[torch.Tensor, "*batch L d"]:
        """What the first block is fed."""
        x = self.embedding(tokens)
        if self.positions is None:
            return x
        if tokens.shape[-1] > self.positions.shape[0]:
            raise ValueError(
                f"position='learned' holds {self.positions.shape[0]} positions, got a sequence of "
                f"{tokens.shape[-1]}; build the model with a larger length, or use 'rotary'."
            )
        return x + self.positions[: tokens.shape[-1]]

    def forward(
        self, tokens: Int[torch.Tensor, "*batch L"], method: str = "auto"
    ) -> Float[torch.Tensor, "*batch L classes"]:
        """Logits; ``method`` as in ``CoefficientDynamics.apply``."""
        x = self.embed(tokens)
        for block in self.blocks:
            x = block(x, method=method)
        return self.head(self.norm(x))

    def dynamics(self, tokens: Int[torch.Tensor, "*batch L"]) -> list[CoefficientDynamics]:
        """The coefficient dynamics of every layer on these tokens, batch shape ``(..., H)``."""
        x, found = self.embed(tokens), []
        for block in self.blocks:
            found.append(block.mixer.dynamics(block.mixer_norm(x))[0])
            x = block(x)
        return found

    def core_parameters(self) -> int:
        """Parameters of the blocks: all but embedding, positions, last norm and head."""
        return sum(parameter.numel() for parameter in self.blocks.parameters())

    def no_weight_decay_names(self) -> set[str]:
        """Names of the parameters that a mixer's authors exempt from weight decay."""
        return {
            f"blocks.{index}.mixer.{name}"
            for index, block in enumerate(self.blocks)
            for name in block.mixer.no_weight_decay_names()
        }


def language_model_config(kind: str, *, scaling: str = "inverse_sqrt") -> ModelConfig:
    """The 8-layer language models of the paper's Tables 3 and 11: d = n = 768, 12 heads, MLP 512.

    "softmax": softmax attention in type 1 blocks with learned positions. "mamba2": a scalar decay
    exp(-Delta_t a), identity readout and eta = 1 in type 2 blocks without positions. With GPT-2's
    50 257 tokens and length 1024 these have 106.4 M and 110.4 M parameters; the paper reports 120 M
    and 110 M, and its text does not say what the attention model's 14 M more are.

    Args:
        kind: "softmax" or "mamba2".
        scaling: b_j, a name of ``DesignMixer``: "one", "inverse_sqrt" or (mamba2) "delta".
    """
    check_choice("kind", kind, ("softmax", "mamba2"))
    options: dict[str, Any] = {"n_heads": 12, "scaling": scaling}
    if kind == "softmax":
        options |= {"evolution": "identity", "readout": "exp", "normalizer": "row_sum"}
    else:
        options |= {"evolution": "scalar", "decay": "mamba2"}
        options |= {"readout": "identity", "normalizer": "one"}
    return ModelConfig(
        width=768,
        layers=8,
        options=options,
        block="transformer" if kind == "softmax" else "gated",
        mlp=512,
        position="learned" if kind == "softmax" else "none",
    )
