"""Draws from a seed that Python and the page share: sums of 32-bit integers, three decimals.

``js/draws.js`` holds the same arithmetic, operation for operation.
"""

from __future__ import annotations

import math

__all__ = ["STREAM", "draw_key", "draw_normal", "draw_uniform", "round_milli"]

STREAM = {
    "query": 1,
    "key": 2,
    "word": 3,
    "decay": 4,
    "beta": 5,
    "input": 6,
    "output": 7,
    "fact": 9,
}
"""One stream of numbers for each purpose (8 is the page's own, for values in the plane)."""

_MASK = 0xFFFFFFFF


def _mix32(x: int) -> int:
    x = ((x ^ (x >> 16)) * 0x7FEB352D) & _MASK
    x = ((x ^ (x >> 15)) * 0x846CA68B) & _MASK
    return x ^ (x >> 16)


def draw_key(seed: int, stream: int, token: int, channel: int) -> int:
    """Key of 32 bits from seed, stream, token and channel."""
    x = _mix32((seed + 0x9E3779B9) & _MASK)
    for part in (stream, token, channel):
        x = _mix32((x + part) & _MASK)
    return x


def round_milli(x: float) -> float:
    """Round to three decimals, halves up."""
    return math.floor(x * 1000 + 0.5) / 1000


def draw_normal(seed: int, stream: int, token: int, channel: int) -> float:
    """Draw twelve uniforms minus six: mean 0, variance 1, three decimals."""
    x = draw_key(seed, stream, token, channel)
    total = sum(_mix32((x + m * 0x9E3779B9) & _MASK) for m in range(1, 13))
    return round_milli(total / 2**32 - 6)


def draw_uniform(seed: int, stream: int, token: int, channel: int) -> float:
    """Draw uniformly in (-1, 1), three decimals."""
    return round_milli(draw_key(seed, stream, token, channel) / 2**32 * 2 - 1)
