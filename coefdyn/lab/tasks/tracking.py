"""State tracking: parity, the symmetric group S3, and the majority of two tokens.

Every position is scored, and the answer depends on every token before it: one bit, one of six
elements, or a difference of counts has to be carried from token to token.

Source: the circuits view of state tracking (Merrill et al. 2024; Grazzi et al. 2025, parity and
S3); the sizes are ours.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import permutations
from typing import ClassVar

import torch
from torch import Tensor

from coefdyn.lab.tasks._draw import integers, uniform
from coefdyn.lab.tasks.base import Batch, Split, TaskConfig, register

#: the six permutations of three things; number 0 is the identity
S3 = tuple(permutations(range(3)))


@register
@dataclass(frozen=True, kw_only=True)
class ParityConfig(TaskConfig):
    """Bits; the target is the parity of all bits so far, (x_1 + ... + x_i) mod 2."""

    task_name: ClassVar[str] = "parity"
    about: ClassVar[str] = "at every bit, say whether the number of ones so far is odd."

    vocab_size: int = 2
    seq_len: int = 256

    @classmethod
    def quick(cls) -> ParityConfig:
        """40 bits: for two CPU cores."""
        return cls(seq_len=40, train_examples=6_400, test_examples=640)

    def check(self) -> None:
        if self.vocab_size != 2:
            raise ValueError(f"parity has 2 tokens; got vocab_size={self.vocab_size}.")

    def draw(self, n: int, generator: torch.Generator, split: Split) -> Batch:
        """Draw n sequences, (n, seq_len); training and test are alike."""
        bits = integers(0, 2, (n, self.seq_len), generator)
        return Batch(bits, bits.cumsum(1) % 2)


@register
@dataclass(frozen=True, kw_only=True)
class PermutationConfig(TaskConfig):
    """Elements of S3; the target is the product so far, g_i ... g_2 g_1, one of six classes."""

    task_name: ClassVar[str] = "permutations"
    about: ClassVar[str] = (
        "at every permutation of three things, say which arrangement they are in by now."
    )

    vocab_size: int = 6
    seq_len: int = 256

    @classmethod
    def quick(cls) -> PermutationConfig:
        """24 elements: for two CPU cores."""
        return cls(seq_len=24, train_examples=6_400, test_examples=640)

    def check(self) -> None:
        if self.vocab_size != len(S3):
            raise ValueError(f"S3 has 6 elements; got vocab_size={self.vocab_size}.")

    def draw(self, n: int, generator: torch.Generator, split: Split) -> Batch:
        """Draw n sequences, (n, seq_len); training and test are alike."""
        elements = integers(0, len(S3), (n, self.seq_len), generator)
        product, table = torch.zeros_like(elements), _products().to(elements.device)
        state = torch.zeros_like(elements[:, 0])
        for i in range(self.seq_len):
            state = table[elements[:, i], state]
            product[:, i] = state
        return Batch(elements, product)

    def token_name(self, token: int) -> str:
        return "".join(str(x + 1) for x in S3[token])


@register
@dataclass(frozen=True, kw_only=True)
class MajorityConfig(TaskConfig):
    """Two tokens; the target says which has been more frequent so far: 0, 1, or 2 for a tie.

    The share of token 1 is drawn uniformly for each sequence.
    """

    task_name: ClassVar[str] = "majority"
    about: ClassVar[str] = "at every token, say which of the two has been more frequent so far."

    vocab_size: int = 3
    seq_len: int = 256

    @classmethod
    def quick(cls) -> MajorityConfig:
        """48 tokens: for two CPU cores."""
        return cls(seq_len=48, train_examples=6_400, test_examples=640)

    def check(self) -> None:
        if self.vocab_size != 3:
            raise ValueError(
                f"majority has 2 tokens and 3 answers, vocab_size=3; got {self.vocab_size}."
            )

    def draw(self, n: int, generator: torch.Generator, split: Split) -> Batch:
        """Draw n sequences, (n, seq_len); training and test are alike."""
        share = uniform((n, 1), generator)
        tokens = (uniform((n, self.seq_len), generator) < share).long()
        lead = (2 * tokens - 1).cumsum(1)
        return Batch(tokens, torch.where(lead == 0, 2, (lead > 0).long()))

    def token_name(self, token: int) -> str:
        return "=" if token == 2 else "ab"[token]


def _products() -> Tensor:
    """The group's table, (6, 6): entry (a, b) is the permutation "first b, then a"."""
    rows = [[S3.index(tuple(a[b[x]] for x in range(3))) for b in S3] for a in S3]
    return torch.tensor(rows)
