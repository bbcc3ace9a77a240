"""Constructions to a length: rotary angles that tell old from new, a count of resets, a filter.

None of them holds at every length. The angle of a rotary pair grows with the index until it has
gone through a quarter of a turn, the marks of resets add up, and a filter knows one distance.
"""

from __future__ import annotations

import math

import torch

from coefdyn.lab.capabilities.hand import SHUT, WIDTH, Hand, Member
from coefdyn.lab.capabilities.keyed import BEFORE, one_of, own_slot, reading, spread, strengths
from coefdyn.shapes import Tensor

__all__ = [
    "behind_the_reset",
    "later_weighs_more",
    "mark_the_old",
    "remember_by_filter",
    "sharpest",
]

#: the rotary pairs of a head that turn by less than a quarter in 64 tokens
PAIRS = range(4, 8)


def later_weighs_more(row: str) -> Member:
    """Linear attention: the last write of a key has the largest weight of its head."""
    return rising(row, reset=False)


def behind_the_reset(row: str) -> Member:
    """Linear attention: values behind the reset have larger weights than any before it."""
    return rising(row, reset=True)


def rising(row: str, *, reset: bool) -> Member:
    """Linear attention: a rotary pair per key, which gives token j the weight j.

    The key lies along the pair's first channel, so its part along the second is the sine of j
    times the angle; the query lies along the second channel and its first one is silent, because
    elu(x) + 1 vanishes for x far below 0. A later write weighs more. In heads that do not have the
    key, tokens without a value take nearly all of the divisor. With a reset its own score makes
    the divisor one large number for all, so the weight itself says what came after it: at the
    scoreboard's length old values have a weight of at most 7, new ones of at least 10.
    """
    hand, values = Hand(row), range(16, 32)
    key, query = hand.table("key"), hand.table("query")
    for b in range(1, 16):
        head, at = divmod(b - 1, len(PAIRS))
        pair = PAIRS[at]
        key[b, head, pair], query[b, head, pair + 8] = 400 * 1e4 ** (pair / 8), 1e10
    if reset:  # seen by the token behind it, token 9
        key[0, :, 11], query[1:16, :, 11] = 4e7, 1e10
    else:
        key[16:32, :, 11], query[1:16, :, 3] = 4e6, 1e3
    hand.project("key", key, BEFORE)
    hand.project("query", query)
    value = torch.stack([one_of(hand.heads, values, head) for head in range(4)]).sum(0)
    hand.project("value", value)
    weight, offset = reading(value, values), torch.full((WIDTH,), -9.0).double()
    offset[list(values)] = 0.0
    if reset:  # token j has the score 1e12 j, and the one behind the reset 1e17 times two cosines
        offset[0] = 8.5e12 / (1e17 * math.cos(9 * 1e4**-0.375) * math.cos(14.5 * 1e4**-0.375))
    return hand.member(weight, offset)


def mark_the_old(row: str) -> Member:
    """Delta rules: behind a reset one step along the mean of all keys marks every key as old.

    A write to a key takes its mark away again. Keys of the token before make the step after the
    reset the one that marks.
    """
    hand, values = Hand(row), range(16, 32)
    own_slot(hand, 30.0)
    part = hand.part("key")
    with torch.no_grad():
        part.linear.weight[:, 0] = part.linear.weight[:, 1:16].sum(1)
    value = hand.table("value") if row != "DeltaProduct" else hand.table("value")[:, 1::2]
    value[:, :1] = one_of(1, values)
    value[0, 1, 0] = 4e4
    hand.project("value", spread(hand, value))
    convolution = hand.part("value").convolution
    assert convolution is not None
    at = 16 * (3 if row == "DeltaProduct" else 1)  # the mark's channel shows the token before
    with torch.no_grad():
        convolution.weight[:2, at] = torch.tensor(BEFORE, dtype=torch.float64)
    hand.write(strengths(range(1, 32), 1.0))
    weight, offset = reading(one_of(4, values), values), torch.full((WIDTH,), -9.0).double()
    offset[list(values)], offset[0] = 0.0, -0.1
    weight[0, 16] = 1.0
    return hand.member(weight, offset)


def sharpest(powers: Tensor, peak: int, ridge: float) -> Tensor:
    """Weights c with (powers @ c)[peak] = 1 and small absolute sums elsewhere.

    Least squares, repeated with weights that make them sums of absolute values.

    Args:
        powers: (lags, rates), the rates' powers.
        peak: the lag that is asked for.
        ridge: how much large weights, which round badly, cost.
    """
    others = torch.cat([powers[:peak], powers[peak + 1 :]])
    eye = torch.eye(powers.shape[1], dtype=powers.dtype)
    weights, cost = torch.ones(len(others)).double(), 1.0
    for _ in range(16):
        rows = torch.cat([others * weights[:, None], cost * ridge * len(others) ** 0.5 * eye])
        upper = torch.linalg.qr(rows).R
        wanted = powers[peak].conj()[:, None]
        half = torch.linalg.solve_triangular(upper.mH, wanted, upper=False)
        found = torch.linalg.solve_triangular(upper, half, upper=True)[:, 0]
        found = found / (powers[peak] @ found)
        weights, cost = ((others @ found).abs() + 1e-4) ** -0.5, 30.0
    return found


def remember_by_filter(row: str) -> Member:
    """LRU: a filter of 64 frequencies, 1 at the distance of the value and 0.22 in sum elsewhere.

    Values are 14 points of the plane at least 0.57 apart, so the nearest one is right whatever
    the noise says. The angles are numbers of float32.
    """
    hand = Hand(row)
    mixer, lag = hand.mixer, 257
    log_angle = torch.linspace(1e-30, 0.36 * math.pi, 64).double().log().float().double()
    outer = torch.polar(torch.ones(10).double(), math.pi / 5 * torch.arange(10).double())
    inner = torch.polar(
        torch.full((4,), 0.41).double(), math.pi / 2 * (torch.arange(4).double() + 0.5)
    )
    points = torch.cat([outer, inner])
    with torch.no_grad():
        mixer.log_nu.fill_(-SHUT)
        mixer.log_theta.copy_(log_angle)
        mixer.input.linear.weight.view(64, 2, WIDTH)[..., :14] = torch.view_as_real(points).T
    turns = log_angle.exp() * torch.arange(lag + 1).double()[:, None]
    weights = sharpest(torch.polar(torch.ones_like(turns), turns), lag, 3e-8)
    read = points.conj()[:, None] * weights
    weight = torch.stack([read.real, -read.imag], -1).flatten(1)
    return hand.member(weight, -points.abs().square() / 2)
