"""Intervals over seeds: Student's of a mean, the exact one of a share, the score one of a lead."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache

__all__ = [
    "CONFIDENCE",
    "JUDGED_CONFIDENCE",
    "SOLVED_FROM",
    "Interval",
    "exceeds_room",
    "share_difference",
    "share_interval",
    "smallest_lead",
    "solved",
    "t_interval",
    "t_quantile",
    "wrong_by_chance",
]

#: share of repetitions whose interval contains the true mean: in figures and tables
CONFIDENCE = 0.9
#: the same of the intervals that judge
JUDGED_CONFIDENCE = 0.95
#: accuracy from which on a seed has solved a task, in a count of seeds
SOLVED_FROM = 0.9
#: standard normal quantile of a two-sided 95 % interval
_Z = 1.959963984540054
_BISECTIONS = 60

#: confidence -> the percentile of Student's t that bounds it, by degrees of freedom, 1 to 30
_T = {
    CONFIDENCE: (
        6.3138, 2.9200, 2.3534, 2.1318, 2.0150, 1.9432, 1.8946, 1.8595, 1.8331, 1.8125,
        1.7959, 1.7823, 1.7709, 1.7613, 1.7531, 1.7459, 1.7396, 1.7341, 1.7291, 1.7247,
        1.7207, 1.7171, 1.7139, 1.7109, 1.7081, 1.7056, 1.7033, 1.7011, 1.6991, 1.6973,
    ),
    JUDGED_CONFIDENCE: (
        12.7062, 4.3027, 3.1824, 2.7764, 2.5706, 2.4469, 2.3646, 2.3060, 2.2622, 2.2281,
        2.2010, 2.1788, 2.1604, 2.1448, 2.1314, 2.1199, 2.1098, 2.1009, 2.0930, 2.0860,
        2.0796, 2.0739, 2.0687, 2.0639, 2.0595, 2.0555, 2.0518, 2.0484, 2.0452, 2.0423,
    ),
}  # fmt: skip


@dataclass(frozen=True)
class Interval:
    """A mean (or another statistic) and its interval; infinite for fewer than two values."""

    mean: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.mean:.3f} [{self.low:.3f}, {self.high:.3f}]"

    @property
    def width(self) -> float:
        """From one end to the other."""
        return self.high - self.low

    def within(self, least: float, most: float) -> Interval:
        """The part of it in which the quantity can lie, such as 0 to 1 for an accuracy."""
        low, high = (min(max(end, least), most) for end in (self.low, self.high))
        return Interval(self.mean, low, high)

    def beyond(self, threshold: float, below: bool = False) -> Interval:
        """Distance from a threshold, of which what is above 0 is claimed.

        Args:
            threshold: what the interval is compared with.
            below: whether the claimed side is that below it.
        """
        mean, low, high = (x - threshold for x in (self.mean, self.low, self.high))
        return Interval(-mean, -high, -low) if below else Interval(mean, low, high)


def t_quantile(freedom: int, confidence: float = CONFIDENCE) -> float:
    """Student's t at the upper end of a two-sided interval; beyond 30 degrees, the last value.

    Args:
        freedom: degrees of freedom, from 1.
        confidence: ``CONFIDENCE`` or ``JUDGED_CONFIDENCE``.

    Raises:
        ValueError: for less than one degree of freedom, and for another confidence.
    """
    if freedom < 1:
        raise ValueError(f"Student's t needs at least 1 degree of freedom; got {freedom}.")
    if confidence not in _T:
        raise ValueError(
            f"confidence must be {CONFIDENCE} or {JUDGED_CONFIDENCE}; got {confidence}."
        )
    table = _T[confidence]
    return table[min(freedom, len(table)) - 1]


def t_interval(values: Sequence[float], confidence: float = CONFIDENCE) -> Interval:
    """mean -+ t s / sqrt(n): the two-sided interval of the mean of independent values.

    Args:
        values: at least two for a finite interval.
        confidence: share of repetitions whose interval contains the true mean.
    """
    mean = statistics.fmean(values)
    if len(values) < 2 or not math.isfinite(mean):
        return Interval(mean, -math.inf, math.inf)
    n = len(values)
    half = t_quantile(n - 1, confidence) * statistics.stdev(values) / math.sqrt(n)
    return Interval(mean, mean - half, mean + half)


def solved(accuracies: Sequence[float], level: float = SOLVED_FROM) -> int:
    """Number of seeds whose accuracy is at least ``level``; a NaN is not."""
    return sum(value >= level for value in accuracies)


def share_interval(k: int, n: int) -> Interval:
    """Exact 95 % interval of the share p of seeds that solve a task, from k of n.

    The ends solve P(X >= k; p) = 0.025 and P(X <= k; p) = 0.025 for X ~ Binomial(n, p), by
    bisection; they cover p with at least 95 %, whatever p is.

    Raises:
        ValueError: unless 0 <= k <= n and n >= 1.

    Source: Clopper and Pearson (1934).
    """
    _check_count(k, n)
    tail = (1 - JUDGED_CONFIDENCE) / 2
    low = 0.0 if k == 0 else _root(lambda p: 1 - _at_most(k - 1, n, p) < tail)
    high = 1.0 if k == n else _root(lambda p: _at_most(k, n, p) > tail)
    return Interval(k / n, low, high)


@cache
def share_difference(k: int, n: int, other_k: int, other_n: int) -> Interval:
    """95 % score interval of p - p', the difference of two shares, from k of n and k' of n'.

    All d with (k/n - k'/n' - d)^2 <= z^2 V(d), where V(d) = (p~ (1 - p~) / n + p~' (1 - p~') / n')
    (n + n') / (n + n' - 1) has the most likely shares with p~ - p~' = d; its ends are found by
    bisection. With twelve against twelve it covers at least 93 % whatever the shares are.

    Raises:
        ValueError: unless 0 <= k <= n and n >= 1, and the same for the other.

    Source: Miettinen and Nurminen (1985), equations 8 to 10.
    """
    _check_count(k, n)
    _check_count(other_k, other_n)
    gap = k / n - other_k / other_n

    def inside(d: float) -> bool:
        mine, other = _likely_shares(k, n, other_k, other_n, d)
        spread = mine * (1 - mine) / n + other * (1 - other) / other_n
        spread *= (n + other_n) / (n + other_n - 1)
        return (gap - d) ** 2 <= _Z**2 * spread + 1e-15

    ends = []
    for end in (-1.0, 1.0):
        within, beyond = gap, end
        for _ in range(_BISECTIONS):
            middle = (within + beyond) / 2
            within, beyond = (middle, beyond) if inside(middle) else (within, middle)
        ends.append(end if inside(end) else within)
    return Interval(gap, ends[0], ends[1])


def _likely_shares(k: int, n: int, other_k: int, other_n: int, d: float) -> tuple[float, float]:
    """The most likely (p, p') with p - p' = d: the middle root of a cubic in p', in closed form."""
    cubic = n + other_n
    square = (n + 2 * other_n) * d - cubic - (k + other_k)
    linear = (other_n * d - cubic - 2 * other_k) * d + k + other_k
    shift = square / (3 * cubic)
    half = shift**3 - linear * square / (6 * cubic**2) + other_k * d * (1 - d) / (2 * cubic)
    radius = math.copysign(math.sqrt(max(shift**2 - linear / (3 * cubic), 0.0)), half)
    turn = math.acos(max(-1.0, min(1.0, half / radius**3 if radius else 1.0)))
    other = 2 * radius * math.cos((math.pi + turn) / 3) - shift
    other = min(max(other, 0.0, -d), 1.0, 1.0 - d)
    return min(max(other + d, 0.0), 1.0), other


def exceeds_room(lead: float, other: float, ceiling: float = 1.0) -> bool:
    """Return whether no model can lead one at ``other`` by more than ``lead`` below the ceiling."""
    return lead >= ceiling - other - 1e-12


def smallest_lead(n: int, by: float = 0.0) -> float:
    """The smallest lead over a design that no seed solves which n seeds each can show, as a share.

    The least k / n whose difference from 0 of n has its interval above ``by``; infinite for none.
    """
    leads = (k / n for k in range(1, n + 1) if share_difference(k, n, 0, n).low > by)
    return next(leads, math.inf)


def wrong_by_chance(chances: Sequence[int], coverage: float = JUDGED_CONFIDENCE) -> float:
    """Decided claims that are wrong by chance at most, on average: (1 - coverage) / 2 a chance.

    An interval errs on either side alike. A claim that is held wrongly needs one part that is
    wrong, whatever the others are: one chance. A claim of m parts is not held as soon as one of
    them is not: m chances. The bound is reached where every true value lies at its threshold.

    Args:
        chances: of every decided claim, 1 where it is held and m where it is not held.
    """
    return sum(chances) * (1 - coverage) / 2


def _check_count(k: int, n: int) -> None:
    if not 0 <= k <= n or n < 1:
        raise ValueError(f"k of n seeds needs 0 <= k <= n and n >= 1; got k={k}, n={n}.")


def _at_most(k: int, n: int, p: float) -> float:
    """P(X <= k) for X ~ Binomial(n, p)."""
    return math.fsum(math.comb(n, i) * p**i * (1 - p) ** (n - i) for i in range(k + 1))


def _root(too_low: Callable[[float], bool]) -> float:
    """End of the interval from 0 on, within [0, 1], in which a condition holds."""
    low, high = 0.0, 1.0
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        low, high = (middle, high) if too_low(middle) else (low, middle)
    return (low + high) / 2
