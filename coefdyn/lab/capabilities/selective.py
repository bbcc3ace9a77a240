"""Constructions for S6, whose keys and queries of four numbers are shared by all channels.

The channels of u are, after the convolution and SiLU, values that are written (a step of 1) and
flags from which keys and queries are read (a step of 0, so nothing is written for them).
"""

from __future__ import annotations

from itertools import product

import torch

from coefdyn.lab.capabilities.hand import SHUT, WIDTH, Hand, Member, before_silu
from coefdyn.shapes import Tensor

__all__ = ["count", "long_memory", "recall"]


def selective(u: Tensor, before: range, key: Tensor, query: Tensor, written: int) -> Hand:
    """S6 whose channels have the values ``u`` of the token, those in ``before`` of the last token.

    Args:
        u: ``(64, 64)``, tokens by channels, not negative.
        before: channels that show the token before.
        key, query: ``(4, 64)``, read from u.
        written: the first so many channels are written.
    """
    hand = Hand("S6")
    part, mixer = hand.part("value"), hand.mixer
    assert part.convolution is not None
    with torch.no_grad():
        part.linear.weight.copy_(before_silu(u).T)
        part.convolution.weight[0] = 1.0
        part.convolution.weight[0, list(before)] = 0.0
        part.convolution.weight[1, list(before)] = 1.0
        mixer.project["key"].linear.weight.copy_(key)
        mixer.project["query"].linear.weight.copy_(query)
        mixer.timestep_up.bias.fill_(-SHUT)
        mixer.timestep_up.bias[:written] = 0.5413248546129181  # softplus of it is 1
        mixer.log_a.fill_(-SHUT)
    return hand


def zeros(*shape: int) -> Tensor:
    """Zeros in float64."""
    return torch.zeros(*shape, dtype=torch.float64)


def recall(row: str) -> Member:
    """31 unit vectors of four numbers as keys: the one of the best fit wins."""
    every = [torch.tensor(one, dtype=torch.float64) for one in product((-1, 0, 1), repeat=4)]
    pairs = [one for one in every if one.abs().sum() == 2]
    codes = torch.stack(pairs + [one for one in every if one.abs().sum() == 1])[:31]
    codes /= codes.norm(dim=1, keepdim=True)
    u, key, query = zeros(WIDTH, WIDTH), zeros(4, WIDTH), zeros(4, WIDTH)
    u[range(32, 64), range(32)] = 1.0
    for first, read in ((32, key), (40, query)):
        u[1:32, first : first + 4], u[1:32, first + 4 : first + 8] = codes.relu(), (-codes).relu()
        read[range(4), range(first, first + 4)] = 1.0
        read[range(4), range(first + 4, first + 8)] = -1.0
    weight = zeros(WIDTH, WIDTH)
    weight[range(32, 64), range(32)] = 1.0
    return selective(u, range(32, 40), key, query, 32).member(weight)


def count(row: str) -> Member:
    """Two sums, of the zeros and of the ones."""
    u, read = zeros(WIDTH, WIDTH), zeros(4, WIDTH)
    u[0, 0], u[1, 1], u[:, 2], read[0, 2] = 1.0, 1.0, 1.0, 1.0
    weight = zeros(3, WIDTH)
    weight[0, 0], weight[0, 1], weight[1, 0], weight[1, 1] = 1.0, -1.0, -1.0, 1.0
    return selective(u, range(0), read, read, 2).member(weight, torch.tensor([-0.5, -0.5, 0.0]))


def long_memory(row: str) -> Member:
    """The key is a flag that the token before was the mark."""
    u, key, query = zeros(WIDTH, WIDTH), zeros(4, WIDTH), zeros(4, WIDTH)
    u[range(14), range(14)], u[14, 14], u[:, 15] = 1.0, 1.0, 1.0
    key[0, 14], query[0, 15] = 1.0, 1.0
    weight = zeros(14, WIDTH)
    weight[range(14), range(14)] = 1.0
    return selective(u, range(14, 15), key, query, 14).member(weight)
