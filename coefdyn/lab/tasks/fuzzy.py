"""Fuzzy in-context recall (MAD): keys and values are tuples of several tokens.

A key (value) is an ordered tuple of distinct key (value) ids. One pair, the probe, is drawn
first, shown once somewhere inside, and asked for at the end. Sequences are padded on the left.

Source: MAD (Poli et al. 2024), mad-lab `fuzzy_in_context_recall`; the coefficient-dynamics
paper, Appendix E, fixes vocabulary, length and size but not the tuple sizes: MAD's task file
says three, its program's default is one. Both are settings here, three is the default.

The reference does not always show the probe: when its insertion index lies beyond the last
place where a pair is begun, the loop ends first. This is kept: at the paper's setting 2.4 in 100
test sequences ask for a value that was never shown, and most scored tokens are the probe's, so
no model can expect much more than 0.98. With tuples of one token it is 1 in 10 000.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor

from coefdyn.lab.tasks._draw import first_occurrence, integers, integers_below, ordered_distinct
from coefdyn.lab.tasks.base import IGNORE, Batch, Split, TaskConfig, at_least, register
from coefdyn.lab.tasks.recall import shift
from coefdyn.shapes import Bool, Int


@register
@dataclass(frozen=True, kw_only=True)
class FuzzyRecallConfig(TaskConfig):
    """Fuzzy in-context recall; the defaults are those of MAD's task file.

    vocab_size:  keys, values, pad, and the copy prefix unless multi_query.
    seq_len:     length of the input, left padding included.
    key_size:    most tokens of a key. Training draws 1..key_size, test always key_size.
    value_size:  most tokens of a value, drawn from 1..value_size.
    multi_query: score every repeated key in test, not only the probe.
    """

    task_name: ClassVar[str] = "fuzzy-recall"
    about: ClassVar[str] = (
        "keys and values are tuples; after a key that was shown, recall its value."
    )

    vocab_size: int = 16
    seq_len: int = 128
    key_size: int = 3
    value_size: int = 3
    multi_query: bool = True

    @classmethod
    def paper(cls) -> FuzzyRecallConfig:
        """Coefficient-dynamics paper, Appendix E: 15 key ids, 16 value ids, length 128."""
        return cls(vocab_size=32)

    @classmethod
    def quick(cls) -> FuzzyRecallConfig:
        """Four key ids, four value ids, tuples up to two, length 48: for two CPU cores."""
        return cls(
            vocab_size=9,
            seq_len=48,
            key_size=2,
            value_size=2,
            train_examples=6_400,
            test_examples=640,
        )

    def check(self) -> None:
        at_least(self, "key_size", 1)
        at_least(self, "value_size", 1)
        if self.key_size > self.num_keys or self.value_size > self.content - self.num_keys:
            raise ValueError(
                f"keys of {self.key_size} and values of {self.value_size} distinct tokens need "
                f"as many ids; vocab_size={self.vocab_size} gives {self.num_keys} key ids and "
                f"{self.content - self.num_keys} value ids. Raise vocab_size."
            )
        if self.seq_len <= 2 * (self.key_size + self.value_size):
            raise ValueError(
                f"seq_len must exceed {2 * (self.key_size + self.value_size)}, two of the "
                f"longest pairs; got {self.seq_len}."
            )
        if (self.num_keys + 1) ** self.key_size >= 2**62:
            raise ValueError(f"{self.num_keys} ids in tuples of {self.key_size} are too many.")

    @property
    def content(self) -> int:
        """Number of ids that are keys or values."""
        return self.vocab_size - (1 if self.multi_query else 2)

    @property
    def num_keys(self) -> int:
        """Number of key ids; keys are [0, num_keys), values [num_keys, content)."""
        return self.content // 2

    @property
    def pad(self) -> int:
        """Id that fills the left; the copy prefix, if any, is vocab_size - 1."""
        return self.content

    def draw(self, n: int, generator: torch.Generator, split: Split) -> Batch:
        """Draw n sequences, (n, seq_len).

        Train targets are all next tokens, padding included. Test targets are the tokens of values
        whose key was shown before; the first sits at the key's last token.
        """
        pairs = _draw_pairs(self, n, generator, split)
        code = _key_codes(pairs, self.num_keys)
        probe_length = pairs.lengths[:, :1]
        limit = self.seq_len - probe_length - (self.key_size + self.value_size)
        index = integers_below(self.seq_len - 2 * probe_length, generator)
        order = _insert_probe(pairs.lengths[:, 1:], code[:, 1:] == code[:, :1], index, limit)
        shown = pairs.take(order)
        keep = _starts(shown.lengths) < limit
        keep[:, -1] = True
        seen_code = code.gather(1, order)
        places = torch.arange(order.shape[1], device=order.device)
        asked = (first_occurrence(seen_code) < places) & self.multi_query
        asked[:, -1] = True
        copy = None if self.multi_query else self.vocab_size - 1
        sequence, answers = lay_out(shown, keep, asked, self.seq_len + 1, self.pad, copy)
        return shift(sequence, answers, split)

    def token_name(self, token: int) -> str:
        """k0.. for key ids, v0.. for value ids, '_' for padding, 'copy' for the prefix."""
        if token < self.num_keys:
            return f"k{token}"
        if token < self.content:
            return f"v{token - self.num_keys}"
        return "_" if token == self.pad else "copy"


class Pairs(NamedTuple):
    """Key-value tuples: ids (n, P, size) and the number of them that count, (n, P)."""

    keys: Int[Tensor, "n P k"]
    key_sizes: Int[Tensor, "n P"]
    values: Int[Tensor, "n P v"]
    value_sizes: Int[Tensor, "n P"]

    @property
    def lengths(self) -> Tensor:
        """Tokens of each pair, (n, P)."""
        return self.key_sizes + self.value_sizes

    def take(self, index: Tensor) -> Pairs:
        """The pairs at an index, (n, S)."""
        return Pairs(
            _take_tuples(self.keys, index),
            self.key_sizes.gather(1, index),
            _take_tuples(self.values, index),
            self.value_sizes.gather(1, index),
        )


def _draw_pairs(
    config: FuzzyRecallConfig, n: int, generator: torch.Generator, split: Split
) -> Pairs:
    """Draw the probe (index 0) and pairs that fill a sequence; a repeated key keeps its value."""
    smallest_key = 1 if split == "train" else config.key_size
    count = 1 + math.ceil(config.seq_len / (smallest_key + 1))
    shape = (n, count)
    key_sizes = integers(smallest_key, config.key_size + 1, shape, generator)
    value_sizes = integers(1, config.value_size + 1, shape, generator)
    values = config.content - config.num_keys
    pairs = Pairs(
        ordered_distinct(0, config.num_keys, config.key_size, shape, generator),
        key_sizes,
        ordered_distinct(config.num_keys, values, config.value_size, shape, generator),
        value_sizes,
    )
    first = first_occurrence(_key_codes(pairs, config.num_keys))
    return pairs._replace(
        values=_take_tuples(pairs.values, first), value_sizes=value_sizes.gather(1, first)
    )


def _key_codes(pairs: Pairs, num_keys: int) -> Int[Tensor, "n P"]:
    """One integer per different key, (n, P): digits id + 1 in base num_keys + 1."""
    size = pairs.keys.shape[-1]
    places = torch.arange(size, device=pairs.keys.device)
    digits = torch.where(places < pairs.key_sizes[..., None], pairs.keys + 1, 0)
    return (digits * (num_keys + 1) ** places).sum(dim=-1)


def _insert_probe(lengths: Tensor, is_probe: Tensor, index: Tensor, limit: Tensor) -> Tensor:
    """Order in which pairs are shown: (n, P + 2) indices, 0 the probe, p + 1 draw p.

    The probe goes before the first draw that would start at or after ``index`` (and below
    ``limit``), unless a draw showed it already. The last column is the probe that is asked for.
    """
    starts = _starts(lengths)
    drawn_before = is_probe.cumsum(dim=1) - is_probe.long() > 0
    fits = (starts >= index) & (starts < limit) & ~drawn_before
    count = lengths.shape[1]
    where = torch.where(fits.any(dim=1), fits.long().argmax(dim=1), count + 1)[:, None]
    slot = torch.arange(count + 1, device=lengths.device).expand(len(lengths), -1)
    order = torch.where(slot < where, slot + 1, slot).masked_fill(slot == where, 0)
    return torch.cat([order.clamp(max=count), torch.zeros_like(where)], dim=1)


def _starts(lengths: Int[Tensor, "n P"]) -> Int[Tensor, "n P"]:
    """Position at which each pair begins when written one after another, (n, P)."""
    return lengths.cumsum(dim=1) - lengths


def _take_tuples(tuples: Int[Tensor, "n P k"], index: Int[Tensor, "n S"]) -> Int[Tensor, "n S k"]:
    """tuples[n, index[n, s], :], shape (n, S, size)."""
    return tuples.gather(1, index[..., None].expand(*index.shape, tuples.shape[-1]))


def lay_out(
    pairs: Pairs,
    keep: Bool[Tensor, "n P"],
    asked: Bool[Tensor, "n P"],
    length: int,
    pad: int,
    copy: int | None,
) -> tuple[Int[Tensor, "n {length}"], Int[Tensor, "n {length}"]]:
    """Write the kept pairs one after another, padded on the left to ``length``.

    keep, asked: (n, P) bool, whether a pair is written and whether its value is scored. A copy
    token, if given, goes before the last pair. Returns sequence and answers, (n, length).
    """
    lengths = torch.where(keep, pairs.lengths, 0)
    if copy is not None:
        lengths[:, -1] += 1
    begin = lengths.cumsum(dim=1) - lengths + (length - lengths.sum(dim=1, keepdim=True))
    if copy is not None:
        begin[:, -1] += 1
    spare = length  # unused tokens go to a last column that is cut off
    shape = (len(keep), length + 1)
    sequence = torch.full(shape, pad, device=keep.device)
    answers = torch.full(shape, IGNORE, device=keep.device)
    key_place = _places(begin, pairs.key_sizes, pairs.keys.shape[-1], keep, spare)
    value_begin = begin + pairs.key_sizes
    value_place = _places(value_begin, pairs.value_sizes, pairs.values.shape[-1], keep, spare)
    answer_place = torch.where(asked[..., None], value_place, spare)
    sequence.scatter_(1, key_place.flatten(1), pairs.keys.flatten(1))
    sequence.scatter_(1, value_place.flatten(1), pairs.values.flatten(1))
    answers.scatter_(1, answer_place.flatten(1), pairs.values.flatten(1))
    if copy is not None:
        sequence.scatter_(1, begin[:, -1:] - 1, copy)
    return sequence[:, :length], answers[:, :length]


def _places(begin: Tensor, sizes: Tensor, largest: int, keep: Tensor, spare: int) -> Tensor:
    """Position of each token of each tuple, (n, S, largest); ``spare`` where none is written."""
    offset = torch.arange(largest, device=begin.device)
    written = (offset < sizes[..., None]) & keep[..., None]
    return torch.where(written, begin[..., None] + offset, spare)
