"""Multi-query associative recall (MQAR).

D pairs of distinct keys and distinct values come first; later each key appears once more, and
its value is asked for at that very position. The value itself is never shown again.
Ids: filler 0, keys 1..V/2-1, values V/2..V-1.

The places of the queries favour early slots: D of the (L - 2D) // 2 slots after the pairs are
drawn without replacement with p(i) proportional to i^(a - 1), i = 1, 2, ... This is a property of
slots, not of keys.

Every sequence has exactly D scored positions, so the mean of per-sequence accuracies, which the
papers report, is the share of correct answers among all that are asked for.

Source: Zoology (Arora et al. 2023), `multiquery_ar`; the DSF paper's four sizes are
``MqarConfig.paper(seq_len)``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from coefdyn.lab.tasks._draw import integers, ordered_distinct, uniform
from coefdyn.lab.tasks.base import IGNORE, Batch, Split, TaskConfig, at_least, register
from coefdyn.shapes import Int

#: sequences drawn at a time; 100 000 of 512 tokens at once need gigabytes while they are drawn
BLOCK = 8_192
PAPER_PAIRS = {64: 4, 128: 8, 256: 16, 512: 64}


@register
@dataclass(frozen=True, kw_only=True)
class MqarConfig(TaskConfig):
    """Multi-query associative recall; the defaults are those of the hardest published size.

    vocab_size: filler, keys and values, even, greater than seq_len.
    seq_len:    even, at least 4 * pairs.
    pairs:      number D of key-value pairs.
    power:      a in p(i) proportional to i^(a - 1); 0.01 puts queries soon after the pairs.
    random_filler: replace each filler by a uniform token of the whole vocabulary, which may
                repeat keys by chance.
    """

    task_name: ClassVar[str] = "mqar"
    block: ClassVar[int | None] = BLOCK
    about: ClassVar[str] = "at each later appearance of a key, give the value it was paired with."

    vocab_size: int = 8_192
    seq_len: int = 512
    pairs: int = 64
    power: float = 0.01
    random_filler: bool = False
    train_examples: int = 100_000
    test_examples: int = 3_000

    @classmethod
    def paper(cls, seq_len: int = 512) -> MqarConfig:
        """DSF paper: {length, pairs} = {64, 4}, {128, 8}, {256, 16} or {512, 64}."""
        if seq_len not in PAPER_PAIRS:
            raise ValueError(
                f"the paper uses lengths {sorted(PAPER_PAIRS)}; got {seq_len}. "
                f"Other sizes: MqarConfig(seq_len=..., pairs=...)."
            )
        return cls(seq_len=seq_len, pairs=PAPER_PAIRS[seq_len])

    @classmethod
    def quick(cls) -> MqarConfig:
        """Four pairs in 32 tokens, 31 keys and 32 values: for two CPU cores."""
        return cls(vocab_size=64, seq_len=32, pairs=4, train_examples=6_400, test_examples=640)

    def check(self) -> None:
        at_least(self, "pairs", 1)
        if self.vocab_size % 2 or self.vocab_size <= self.seq_len:
            raise ValueError(
                f"vocab_size must be even and exceed seq_len={self.seq_len}; got {self.vocab_size}."
            )
        if self.seq_len % 2 or 4 * self.pairs > self.seq_len:
            raise ValueError(
                f"{self.pairs} pairs and their queries need an even seq_len >= "
                f"{4 * self.pairs}; got {self.seq_len}."
            )
        if not self.power > 0:
            raise ValueError(f"power must be positive; got {self.power}.")

    @property
    def slots(self) -> int:
        """Places of two tokens each after the pairs; a query takes the first token of one."""
        return (self.seq_len - 2 * self.pairs) // 2

    def draw(self, n: int, generator: torch.Generator, split: Split) -> Batch:
        """Draw n sequences, (n, seq_len); exactly ``pairs`` targets per sequence."""
        half = self.vocab_size // 2
        keys = ordered_distinct(1, half - 1, self.pairs, (n,), generator)
        values = ordered_distinct(half, half, self.pairs, (n,), generator)
        slots = draw_slots(self, n, generator)
        batch = lay_out(keys, values, slots, self.seq_len)
        if self.random_filler:
            filler = integers(0, self.vocab_size, (n, self.seq_len), generator)
            batch = batch._replace(inputs=torch.where(batch.inputs == 0, filler, batch.inputs))
        return batch

    def token_name(self, token: int) -> str:
        """'_' for filler, k1.. for keys, v0.. for values."""
        half = self.vocab_size // 2
        if token == 0:
            return "_"
        return f"k{token}" if token < half else f"v{token - half}"


def draw_slots(config: MqarConfig, n: int, generator: torch.Generator) -> Int[Tensor, "n D"]:
    """The slot of each key's query, (n, pairs) int64, distinct within a row.

    Drawn one after another without replacement, p(i) proportional to i^(a - 1): the order of
    arrival of independent exponential clocks with these rates.
    """
    place = torch.arange(1, config.slots + 1, device=generator.device, dtype=torch.float64)
    u = uniform((n, config.slots), generator).double()
    arrival = -torch.log1p(-u) * place ** (1 - config.power)
    return arrival.topk(config.pairs, dim=1, largest=False, sorted=True).indices


def lay_out(
    keys: Int[Tensor, "n D"], values: Int[Tensor, "n D"], slots: Int[Tensor, "n D"], seq_len: int
) -> Batch:
    """Pairs first, then key j at position 2D + 2 slots[j] with its value as target; (n, D) each."""
    n, pairs = keys.shape
    inputs = torch.zeros(n, seq_len, dtype=torch.int64, device=keys.device)
    inputs[:, : 2 * pairs] = torch.stack([keys, values], dim=-1).flatten(1)
    place = 2 * pairs + 2 * slots
    inputs.scatter_(1, place, keys)
    targets = torch.full_like(inputs, IGNORE).scatter_(1, place, values)
    return Batch(inputs, targets)
