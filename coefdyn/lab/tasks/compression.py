"""Compression (MAD): an auto-encoder's task, to rebuild a sequence from its last position.

The input is random tokens and a final compress token; the target is the input itself, noise and
final token included. MAD's model pools the last position and decodes all positions from it.
The task by itself does not hide a position's own token: a model that reads each position's input
solves it by copying, so it needs the auto-encoder.

Source: MAD (Poli et al. 2024), mad-lab `compression`. Ids: content, noise, compress V-1.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch

from coefdyn.lab.tasks._draw import integers, uniform
from coefdyn.lab.tasks.base import Batch, Split, Task, TaskConfig, at_least, register


@dataclass(frozen=True, kw_only=True)
class CompressionConfig(TaskConfig):
    """Compression; the defaults are MAD's.

    vocab_size:  content ids, noise ids and the compress token.
    noise_vocab: number of noise ids.
    frac_noise:  probability in [0, 1) that a token is noise.
    """

    task_name: ClassVar[str] = "compression"

    vocab_size: int = 16
    seq_len: int = 32
    noise_vocab: int = 0
    frac_noise: float = 0.0

    @classmethod
    def paper(cls) -> CompressionConfig:
        """MAD's defaults: 15 content tokens, length 32, 12 800 sequences."""
        return cls()

    @classmethod
    def quick(cls) -> CompressionConfig:
        """Seven content tokens, length 16: for two CPU cores."""
        return cls(vocab_size=8, seq_len=16, train_examples=3_200, test_examples=640)

    def check(self) -> None:
        at_least(self, "noise_vocab", 0)
        at_least(self, "seq_len", 2)
        if not 0 <= self.frac_noise < 1:
            raise ValueError(f"frac_noise must lie in [0, 1); got {self.frac_noise}.")
        if self.frac_noise > 0 and self.noise_vocab == 0:
            raise ValueError(
                f"frac_noise={self.frac_noise} needs noise tokens; set noise_vocab >= 1."
            )
        if self.content < 1:
            raise ValueError(
                f"vocab_size={self.vocab_size} leaves no content after the compress token and "
                f"{self.noise_vocab} noise ids."
            )

    @property
    def content(self) -> int:
        """Number of content ids, [0, content)."""
        return self.vocab_size - 1 - self.noise_vocab


def sample_compression(
    config: CompressionConfig, n: int, generator: torch.Generator, split: Split
) -> Batch:
    """Draw n sequences, (n, seq_len); targets equal inputs; training and test are alike."""
    shape = (n, config.seq_len)
    inputs = integers(0, config.content, shape, generator)
    if config.frac_noise > 0:
        noise = integers(config.content, config.vocab_size - 1, shape, generator)
        inputs = torch.where(uniform(shape, generator) < config.frac_noise, noise, inputs)
    inputs[:, -1] = config.vocab_size - 1
    return Batch(inputs, inputs.clone())


def compression_token_name(config: CompressionConfig, token: int) -> str:
    """'end' for the compress token, n0.. for noise, the number for content."""
    if token == config.vocab_size - 1:
        return "end"
    return str(token) if token < config.content else f"n{token - config.content}"


register(
    Task(
        name="compression",
        config=CompressionConfig,
        sampler=sample_compression,
        token_name=compression_token_name,
        about="rebuild the whole sequence from the state at its last position.",
    )
)
