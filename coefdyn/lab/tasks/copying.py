"""Selective copying (MAD): repeat the content tokens in order, skip the blanks between them.

Source: MAD (Poli et al. 2024), mad-lab `selective_copying`; the coefficient-dynamics paper,
Appendix E, fixes the values. Ids: content 0..V-3, blank V-2, copy V-1.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from coefdyn.lab.tasks._draw import integers
from coefdyn.lab.tasks.base import IGNORE, Batch, Split, TaskConfig, at_least, register
from coefdyn.shapes import Int


@register
@dataclass(frozen=True, kw_only=True)
class SelectiveCopyingConfig(TaskConfig):
    """Selective copying; the defaults are MAD's.

    seq_len:   tokens in the input, more than 2 * tokens_to_copy + 1.
    tokens_to_copy: content tokens, drawn with replacement.
    selective: blanks fall between the content tokens; if false all blanks follow them.
    """

    task_name: ClassVar[str] = "selective-copying"
    about: ClassVar[str] = (
        "after 'copy', repeat the content tokens in order without the blanks '_'."
    )

    vocab_size: int = 16
    seq_len: int = 256
    tokens_to_copy: int = 16
    selective: bool = True

    @classmethod
    def paper(cls) -> SelectiveCopyingConfig:
        """Coefficient-dynamics paper, Appendix E: 32 of 512 tokens, 3 200 sequences."""
        return cls(vocab_size=64, seq_len=512, tokens_to_copy=32, train_examples=3_200)

    @classmethod
    def quick(cls) -> SelectiveCopyingConfig:
        """Eight of 48 tokens: for two CPU cores."""
        return cls(seq_len=48, tokens_to_copy=8, train_examples=3_200, test_examples=640)

    def check(self) -> None:
        at_least(self, "tokens_to_copy", 1)
        at_least(self, "vocab_size", 3)
        if self.seq_len <= 2 * self.tokens_to_copy + 1:
            raise ValueError(
                f"copying {self.tokens_to_copy} tokens needs "
                f"seq_len > {2 * self.tokens_to_copy + 1}; got {self.seq_len}."
            )

    @property
    def blanks(self) -> int:
        """Blank tokens before the copy token."""
        return self.seq_len - 2 * self.tokens_to_copy - 1

    def draw(self, n: int, generator: torch.Generator, split: Split) -> Batch:
        """Draw n sequences, (n, seq_len); training and test are alike, and nothing is shifted.

        Each blank falls before a uniformly chosen content token, never after the last one. The
        targets are the content, in order, on the last ``tokens_to_copy`` positions.
        """
        count = self.tokens_to_copy
        content = integers(0, self.vocab_size - 2, (n, count), generator)
        if self.selective:
            gaps = integers(0, count, (n, self.blanks), generator)
            blanks_before = torch.zeros_like(content).scatter_add_(1, gaps, torch.ones_like(gaps))
        else:
            blanks_before = torch.zeros_like(content)
        return lay_out(content, blanks_before, self.seq_len, self.vocab_size)

    def token_name(self, token: int) -> str:
        """'_' for a blank, 'copy' for the copy token, the number for content."""
        return {self.vocab_size - 2: "_", self.vocab_size - 1: "copy"}.get(token, str(token))


def lay_out(
    content: Int[Tensor, "n c"], blanks_before: Int[Tensor, "n c"], seq_len: int, vocab_size: int
) -> Batch:
    """Place content token i after the blanks that stand before it.

    content and blanks_before are (n, c) int64. Everything else is blank, except the copy token
    at position seq_len - c - 1.
    """
    n, count = content.shape
    inputs = torch.full((n, seq_len), vocab_size - 2, device=content.device)
    place = blanks_before.cumsum(dim=1) + torch.arange(count, device=content.device)
    inputs.scatter_(1, place, content)
    inputs[:, seq_len - count - 1] = vocab_size - 1
    targets = torch.full_like(inputs, IGNORE)
    targets[:, seq_len - count :] = content
    return Batch(inputs, targets)
