"""Tasks on what to keep and what to drop: overwrite, forget, long memory, and position.

Overwrite and forget are recall with a past that no longer counts: a key's earlier values, or
everything before a reset. Long memory is one value through noise of the same kind; position asks
for a token by its distance alone. The definitions and sizes are ours.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from coefdyn.lab.tasks._draw import integers, ordered_distinct, uniform
from coefdyn.lab.tasks.base import IGNORE, Batch, Split, TaskConfig, at_least, register


@dataclass(frozen=True, kw_only=True)
class KeyedConfig(TaskConfig):
    """Keys 1..V/2-1, values V/2..V-1; token 0 is the reset, and as a target "nothing".

    vocab_size: even.
    seq_len:    set by the other fields.
    pairs:      number D of keys in a sequence.
    """

    vocab_size: int = 32
    pairs: int = 4

    def check(self) -> None:
        at_least(self, "pairs", 1)
        if self.vocab_size % 2 or self.vocab_size // 2 - 1 < self.pairs:
            raise ValueError(
                f"{self.pairs} keys need an even vocab_size >= {2 * self.pairs + 2}; "
                f"got {self.vocab_size}."
            )
        if self.seq_len != self._length():
            raise ValueError(
                f"these fields make sequences of {self._length()} tokens; got "
                f"seq_len={self.seq_len}."
            )

    def _length(self) -> int:
        raise NotImplementedError

    def pairs_of(self, n: int, generator: torch.Generator, values: int) -> tuple[Tensor, Tensor]:
        """Distinct keys (n, D), and as many distinct values for each of them, (n, D, values)."""
        half = self.vocab_size // 2
        keys = ordered_distinct(1, half - 1, self.pairs, (n,), generator)
        return keys, ordered_distinct(half, half, values, (n, self.pairs), generator)

    def token_name(self, token: int) -> str:
        half = self.vocab_size // 2
        if token == 0:
            return "/"
        return f"k{token}" if token < half else f"v{token - half}"


@register
@dataclass(frozen=True, kw_only=True)
class OverwriteConfig(KeyedConfig):
    """Each key is written several times, every time with another value; the last one is asked.

    writes: how often each key is written; the order of all writes is random.
    """

    task_name: ClassVar[str] = "overwrite"
    about: ClassVar[str] = "keys are written several times; at the end give each key's last value."

    seq_len: int = 28
    writes: int = 3

    @classmethod
    def paper(cls) -> OverwriteConfig:
        """16 keys written 4 times."""
        return cls(vocab_size=128, pairs=16, writes=4, seq_len=144)

    @classmethod
    def quick(cls) -> OverwriteConfig:
        """Four keys written three times: for two CPU cores."""
        return cls(train_examples=6_400, test_examples=640)

    def check(self) -> None:
        at_least(self, "writes", 1)
        super().check()

    def _length(self) -> int:
        return self.pairs * (2 * self.writes + 1)

    def draw(self, n: int, generator: torch.Generator, split: Split) -> Batch:
        """Draw n sequences, (n, seq_len): all writes in random order, then each key once."""
        keys, values = self.pairs_of(n, generator, self.writes)
        slots = self.pairs * self.writes
        order = uniform((n, slots), generator).argsort(1)  # slot of the writes, key by key
        place = order.view(n, self.pairs, self.writes).sort(2).values  # a key's writes in order
        inputs = torch.zeros(n, self.seq_len, dtype=torch.int64, device=keys.device)
        flat = 2 * place.flatten(1)
        inputs.scatter_(1, flat, keys[:, :, None].expand_as(place).flatten(1))
        inputs.scatter_(1, flat + 1, values.flatten(1))
        return _ask(inputs, keys, values[:, :, -1], generator)


@register
@dataclass(frozen=True, kw_only=True)
class ForgetConfig(KeyedConfig):
    """Pairs, a reset, half of the keys again with other values, then every key is asked.

    A key that was not written since the reset has the answer 0, "nothing".
    """

    task_name: ClassVar[str] = "forget"
    about: ClassVar[str] = (
        "after the reset '/' only what came since counts; '/' is the answer for nothing."
    )

    seq_len: int = 17

    @classmethod
    def paper(cls) -> ForgetConfig:
        """16 keys."""
        return cls(vocab_size=128, pairs=16, seq_len=65)

    @classmethod
    def quick(cls) -> ForgetConfig:
        """Four keys: for two CPU cores."""
        return cls(train_examples=6_400, test_examples=640)

    def _length(self) -> int:
        return 2 * self.pairs + 1 + 2 * (self.pairs // 2) + self.pairs

    def draw(self, n: int, generator: torch.Generator, split: Split) -> Batch:
        """Draw n sequences, (n, seq_len)."""
        keys, values = self.pairs_of(n, generator, 2)
        again = self.pairs // 2  # keys come in random order, so the first ones are any
        before = _shuffled(torch.stack([keys, values[:, :, 0]], -1), generator)
        after = torch.stack([keys, values[:, :, 1]], -1)[:, :again]
        inputs = torch.zeros(n, self.seq_len, dtype=torch.int64, device=keys.device)
        inputs[:, : 2 * self.pairs] = before.flatten(1)
        start = 2 * self.pairs + 1
        inputs[:, start : start + 2 * again] = after.flatten(1)
        answers = values[:, :, 1].clone()
        answers[:, again:] = 0
        return _ask(inputs, keys, answers, generator)


@register
@dataclass(frozen=True, kw_only=True)
class LongMemoryConfig(TaskConfig):
    """A mark and a value, then noise that looks like values, then the question.

    Ids: values 0..V-3, mark V-2, question V-1. One position is scored, the last.
    """

    task_name: ClassVar[str] = "long-memory"
    about: ClassVar[str] = "keep the value behind 'keep' through noise, and give it at '?'."

    vocab_size: int = 16
    seq_len: int = 1_024

    @classmethod
    def quick(cls) -> LongMemoryConfig:
        """256 tokens of noise: for two CPU cores."""
        return cls(seq_len=259, train_examples=6_400, test_examples=640)

    def check(self) -> None:
        at_least(self, "vocab_size", 4)
        at_least(self, "seq_len", 3)

    def draw(self, n: int, generator: torch.Generator, split: Split) -> Batch:
        """Draw n sequences, (n, seq_len); training and test are alike."""
        inputs = integers(0, self.vocab_size - 2, (n, self.seq_len), generator)
        inputs[:, 0], inputs[:, -1] = self.vocab_size - 2, self.vocab_size - 1
        targets = torch.full_like(inputs, IGNORE)
        targets[:, -1] = inputs[:, 1]
        return Batch(inputs, targets)

    def token_name(self, token: int) -> str:
        return {self.vocab_size - 2: "keep", self.vocab_size - 1: "?"}.get(token, str(token))


@register
@dataclass(frozen=True, kw_only=True)
class PositionConfig(TaskConfig):
    """Uniform tokens; the target is the token ``distance`` places back."""

    task_name: ClassVar[str] = "position"
    about: ClassVar[str] = "at every token, give the one that stood a fixed number of places back."

    vocab_size: int = 16
    seq_len: int = 256
    distance: int = 8

    @classmethod
    def quick(cls) -> PositionConfig:
        """40 tokens: for two CPU cores."""
        return cls(seq_len=40, train_examples=6_400, test_examples=640)

    def check(self) -> None:
        at_least(self, "distance", 1)
        if self.distance >= self.seq_len:
            raise ValueError(f"distance must be below seq_len={self.seq_len}; got {self.distance}.")

    def draw(self, n: int, generator: torch.Generator, split: Split) -> Batch:
        """Draw n sequences, (n, seq_len); training and test are alike."""
        inputs = integers(0, self.vocab_size, (n, self.seq_len), generator)
        targets = torch.full_like(inputs, IGNORE)
        targets[:, self.distance :] = inputs[:, : -self.distance]
        return Batch(inputs, targets)


def _shuffled(items: Tensor, generator: torch.Generator) -> Tensor:
    """(n, D, m) with the second axis of each row in random order."""
    order = uniform(tuple(items.shape[:2]), generator).argsort(1)
    return items.gather(1, order[:, :, None].expand_as(items))


def _ask(inputs: Tensor, keys: Tensor, answers: Tensor, generator: torch.Generator) -> Batch:
    """Ask for every key once, in random order, at the end; its answer is the target there."""
    order = uniform(tuple(keys.shape), generator).argsort(1)
    targets = torch.full_like(inputs, IGNORE)
    inputs[:, -keys.shape[1] :] = keys.gather(1, order)
    targets[:, -keys.shape[1] :] = answers.gather(1, order)
    return Batch(inputs, targets)
