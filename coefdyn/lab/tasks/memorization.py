"""Memorization (MAD): a fixed map from keys to values that is learned, not read from context.

A sequence alternates a key and the insert token; the target at each insert token is the value
of the key before it. The map is the same in training and test, so a test measures which keys
training showed. Ids: keys 0..(V-1)//2-1, values from there to V-2, insert V-1.

At the coefficient-dynamics paper's setting 256 sequences draw 4 096 times from 2 047 keys. A key
is missed with probability (1 - 1/2047)^4096 = 0.135, so no model can expect more than about
0.867: ``ceiling`` gives that number for any training set.

Source: MAD (Poli et al. 2024), mad-lab `memorization`, without its noise option.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from coefdyn.lab.tasks._draw import integers
from coefdyn.lab.tasks.base import IGNORE, Batch, Split, TaskConfig, at_least, register
from coefdyn.shapes import Int


@register
@dataclass(frozen=True, kw_only=True)
class MemorizationConfig(TaskConfig):
    """Memorization; the defaults are MAD's.

    vocab_size: keys, values and the insert token.
    seq_len:    even; seq_len // 2 keys are shown.
    map_seed:   seed of the map, part of the task and not of a run; 12345 in MAD.
    """

    task_name: ClassVar[str] = "memorization"
    about: ClassVar[str] = "at 'ins', give the value that the key before it has in a fixed map."

    vocab_size: int = 256
    seq_len: int = 32
    map_seed: int = 12_345
    train_examples: int = 256

    @classmethod
    def paper(cls) -> MemorizationConfig:
        """Coefficient-dynamics paper, Appendix E: 2 047 pairs, 256 sequences of length 32."""
        return cls(vocab_size=4096)

    @classmethod
    def quick(cls) -> MemorizationConfig:
        """31 pairs, length 16: for two CPU cores."""
        return cls(vocab_size=64, seq_len=16, test_examples=640)

    def check(self) -> None:
        at_least(self, "vocab_size", 3)
        at_least(self, "map_seed", 0)
        if self.seq_len % 2:
            raise ValueError(f"seq_len must be even, a key and an insert; got {self.seq_len}.")

    @property
    def num_keys(self) -> int:
        """Number of key ids, [0, num_keys)."""
        return (self.vocab_size - 1) // 2

    def draw(self, n: int, generator: torch.Generator, split: Split) -> Batch:
        """Draw n sequences, (n, seq_len); training and test are alike, and nothing is shifted."""
        keys = integers(0, self.num_keys, (n, self.seq_len // 2), generator)
        return lay_out(keys, value_map(self).to(keys.device), self.vocab_size - 1)

    def token_name(self, token: int) -> str:
        """k0.. for keys, v0.. for values, 'ins' for the insert token."""
        if token == self.vocab_size - 1:
            return "ins"
        return f"k{token}" if token < self.num_keys else f"v{token - self.num_keys}"


@lru_cache(maxsize=8)
def _value_map(vocab_size: int, seed: int) -> tuple[int, ...]:
    num_keys = (vocab_size - 1) // 2
    rng = np.random.default_rng(seed)
    keys = rng.permutation(num_keys)
    values = num_keys + rng.permutation(vocab_size - 1 - num_keys)
    ordered = np.empty(num_keys, dtype=np.int64)
    ordered[keys] = values[:num_keys]
    return tuple(ordered.tolist())


def value_map(config: MemorizationConfig) -> Int[Tensor, " num_keys"]:
    """The value of each key, (num_keys,) int64; MAD's own map for the same vocabulary and seed."""
    return torch.tensor(_value_map(config.vocab_size, config.map_seed))


def lay_out(keys: Int[Tensor, "n K"], values: Int[Tensor, " num_keys"], insert: int) -> Batch:
    """Each key (n, K) followed by the insert token, where its value is asked for."""
    inputs = torch.stack([keys, torch.full_like(keys, insert)], dim=-1)
    targets = torch.stack([torch.full_like(keys, IGNORE), values[keys]], dim=-1)
    return Batch(inputs.flatten(1), targets.flatten(1))


def ceiling(config: MemorizationConfig, train: Batch) -> float:
    """Best expected accuracy on fresh sequences: the share of keys that a training set shows.

    A key that was never shown can only be guessed, so the figure is exact up to one in the
    number of values.
    """
    shown = train.inputs[train.inputs < config.num_keys].unique()
    return len(shown) / config.num_keys
