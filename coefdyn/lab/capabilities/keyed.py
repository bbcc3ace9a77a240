"""Constructions by hand for recall, overwrite, forget and the long memory: keys that read a token.

A value token has the key of the token before it (a convolution with one tap), a question has the
query of its own token, so the scores are 0 wherever nothing was written.
"""

from __future__ import annotations

import math
from itertools import combinations

import torch

from coefdyn.lab.capabilities.hand import WIDTH, Hand, Member
from coefdyn.shapes import Tensor

__all__ = ["SLOW", "forget", "long_memory", "overwrite", "recall"]

#: channels of a head of 16 that rotary positions turn slowly: pairs (r, r + 8) of r = 4 .. 7
SLOW = (4, 5, 6, 7, 12, 13, 14, 15)
BEFORE = (0.0, 1.0)
ROTARY = ("softmax attention", "linear attention", "normalized attention")


def one_of(heads: int, answers: range, first: int = 0) -> Tensor:
    """Values: token a of ``answers`` has a 1 in channel a - answers[0], from head ``first`` on."""
    table = torch.zeros(WIDTH, heads * 16).double()
    for at, token in enumerate(answers):
        table[token, 16 * first + at] = 1.0
    return table.view(WIDTH, heads, 16)


def reading(table: Tensor, answers: range) -> Tensor:
    """A decoder that reads the channel of every answer; other answers have weight 0."""
    weight = torch.zeros(WIDTH, table[0].numel()).double()
    weight[list(answers)] = table.flatten(1)[list(answers)]
    return weight


def codes(count: int, row: str, size: float) -> Tensor:
    """Different binary codes of one weight, so that a key fits itself better than any other."""
    places, weight = (SLOW, 4) if row in ROTARY else (tuple(range(16)), 2)
    table = torch.zeros(count, 16).double()
    for code, chosen in zip(table, combinations(places, weight), strict=False):
        code[list(chosen)] = size
    return table


def recall(row: str) -> Member:
    """Every pair is kept under its key's code; the value of the best fit is largest."""
    hand, keys, values = Hand(row), range(1, 32), range(32, 64)
    size = 8.0 if row in ROTARY else 0.5
    key, query = hand.table("key"), hand.table("query")
    key[list(keys)] = codes(31, row, size)[:, None]
    query[list(keys)] = codes(31, row, size)[:, None]
    if row == "DeltaProduct":
        key[:, ::2] = 0.0  # the second factor writes
    hand.project("key", key, BEFORE)
    hand.project("query", query)
    value = one_of(hand.heads, values)
    hand.project("value", spread(hand, value))
    hand.write(strengths(values, 0.125))
    return hand.member(reading(value, values))


def strengths(tokens: range, size: float) -> Tensor:
    """b_j: ``size`` at these tokens and 0 at all others."""
    table = torch.zeros(WIDTH).double()
    table[list(tokens)] = size
    return table


def spread(hand: Hand, value: Tensor) -> Tensor:
    """The values of every factor: DeltaProduct writes with the second one only."""
    if hand.row != "DeltaProduct":
        return value
    table = hand.table("value")
    table[:, 1::2] = value
    return table


def own_slot(hand: Hand, size: float) -> None:
    """Fifteen keys, each in a channel of its own."""
    key, query = hand.table("key"), hand.table("query")
    for b in range(1, 16):
        key[b, :, b] = query[b, :, b] = size
    if hand.row == "DeltaProduct":
        key[:, ::2] = 0.0
    hand.project("key", key, BEFORE)
    hand.project("query", query)


def nearest(hand: Hand, *, reset: bool) -> None:
    """Softmax attention: content decides first, then the smaller distance, by a turning pair.

    A reset has the score of a fitting key from a pair of its own, the one that turns slowest.
    """
    key, query = hand.table("key"), hand.table("query")
    for at, code in enumerate(combinations((4, 5, 6, 12, 13, 14), 3)):
        if at < 15:
            key[at + 1, :, list(code)] = query[at + 1, :, list(code)] = 16.0 if reset else 32.0
    if reset:
        key[0, :, 7], query[1:16, :, 7] = 24.0, 32.0
    key[0 if reset else 1 : 16, :, 3] = 16.0
    query[1:16, :, 3], query[1:16, :, 11] = 16 * math.cos(0.9), 16 * math.sin(0.9)
    hand.project("key", key, BEFORE)
    hand.project("query", query)


def falling(hand: Hand, *, reset: bool) -> None:
    """Normalized attention: a pair (head, r) per key, whose cosine falls with the distance."""
    key, query = hand.table("key"), hand.table("query")
    for b in range(1, 16):
        head, pair = divmod(b - 1, 4)
        phase = 0.5 if pair == 0 else 0.8
        key[b, head, 3 + pair] = 1.0
        query[b, head, 3 + pair] = math.cos(phase)
        query[b, head, 11 + pair] = math.sin(phase)
        if reset:
            key[0, head, 3 + pair] = 1.0
    hand.project("key", key, BEFORE)
    hand.project("query", query)


def overwrite(row: str) -> Member:
    """The last write counts: it erases (delta rules, GLA), or older ones fade or lie farther."""
    hand, values = Hand(row), range(16, 32)
    value = one_of(hand.heads, values)
    if row == "softmax attention":
        nearest(hand, reset=False)
    elif row == "normalized attention":
        falling(hand, reset=False)
        value = torch.stack([one_of(hand.heads, values, head) for head in range(4)]).sum(0)
    else:
        own_slot(hand, 0.5)
    hand.project("value", spread(hand, value))
    fade_old(hand, values)
    return hand.member(reading(value, values))


def fade_old(hand: Hand, values: range) -> None:
    """GLA fades the channel of the key that is named; Mamba-2 and mLSTM everything, at a value."""
    hand.write(strengths(values, 1.0))
    if hand.row == "GLA":
        log_decay = torch.zeros(WIDTH, 16).double()
        log_decay[range(1, 16), range(1, 16)] = math.log(0.1)
        hand.fade(log_decay)
    elif hand.row == "Mamba-2":
        hand.mixer.decay.log_a.data.fill_(math.log(math.log(3)))
    elif hand.row == "mLSTM":
        flag(hand, values, -0.5)


def flag(hand: Hand, tokens: range, forget: float) -> None:
    """mLSTM: the forget gate's pre-activation at these tokens, read off a value channel."""
    value = hand.part("value").linear.weight
    with torch.no_grad():
        value[-1, list(tokens)] = 1.0
        hand.mixer.forget_weight[:, -1] = forget - hand.mixer.forget_bias


def forget(row: str) -> Member:
    """A reset that empties the state (decays), or counts as a write to every key (attentions)."""
    hand, values = Hand(row), range(16, 32)
    value = one_of(hand.heads, values)
    weight, offset = reading(value, values), torch.full((WIDTH,), -9.0).double()
    offset[list(values)], offset[0] = 0.0, 0.03
    if row == "softmax attention":
        nearest(hand, reset=True)
        value[0, 1, 0] = 1.0
        weight[0, 16], offset[0] = 1.0, 0.0
        hand.project("value", value, (1.0, 1.0))
    elif row == "normalized attention":
        falling(hand, reset=True)
        value = torch.stack([one_of(hand.heads, values, head) for head in range(4)]).mean(0)
        weight, offset[0] = reading(value, values), 0.0
        value[0] = -0.25
        hand.project("value", value, (1.0, 1.0))
    else:
        own_slot(hand, 1.0)
        hand.project("value", value)
        hand.write(strengths(values, 1.0))
        empty(hand)
    return hand.member(weight, offset)


def empty(hand: Hand) -> None:
    """The reset, token 0, takes everything."""
    if hand.row == "GLA":
        log_decay = torch.zeros(WIDTH, 16).double()
        log_decay[0] = -40.0
        hand.fade(log_decay)
    elif hand.row == "mLSTM":
        flag(hand, range(1), -40.0)
    else:
        size = strengths(range(1), 50.0)
        if hand.row == "Mamba-2":
            size[16:32] = 0.5
        hand.mixer.decay.log_a.data.fill_(-1.0 if hand.row == "Mamba-2" else 0.0)
        hand.delta(size)


def long_memory(row: str) -> Member:
    """Only the token behind the mark is written; noise has the key 0, or the value 0."""
    hand, values = Hand(row), range(14)
    key, query = hand.table("key"), hand.table("query")
    value = one_of(hand.heads, values)
    weight = reading(value, values)[:14]
    if row in ("softmax attention", "linear attention"):
        # behind the mark 200 - 100; behind noise at most -100, whose SiLU is 0
        part = hand.part("value")
        channel = torch.full((WIDTH, 64), -200.0).double()
        channel[14] = 200.0
        channel[range(14), range(14)] = -100.0
        with torch.no_grad():
            part.linear.weight.copy_(channel.T)
            part.convolution.weight[:2] = 1.0
        return hand.member(weight)
    place = 7 if row in ROTARY else 0
    key[14, :, place], query[15, :, place] = 1.0, 1.0
    if row == "DeltaProduct":
        key[:, ::2] = 0.0
    hand.project("key", key, BEFORE)
    hand.project("query", query)
    hand.project("value", spread(hand, value))
    hand.write(strengths(values, 1.0))
    return hand.member(weight)
