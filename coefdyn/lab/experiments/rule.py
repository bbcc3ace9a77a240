"""The rule of every verdict: an interval over the seeds against a threshold, in one place.

A claim is judged on values paired by seed. The 90 % interval of their mean is Student's t; that of
a spread, and of a difference of spreads, is a percentile bootstrap over the seeds. Then:

    held        the whole interval lies on the claimed side of the threshold
    not held    the whole interval lies on the other side
    undecided   the interval contains the threshold
    no test     the compared models did not learn, all of them solved the task, the quantity never
                occurs, or the control fails
    not run     runs are missing
    withdrawn   what it was judged on turned out to be wrong, of the ledger alone

A model has learned when its accuracy is above the named baseline by more than its interval.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

__all__ = [
    "ALL_SOLVED",
    "CONFIDENCE",
    "CONTROL_FAILS",
    "HELD",
    "MIN_SEEDS",
    "NEVER_OCCURS",
    "NOT_HELD",
    "NOT_LEARNED",
    "NOT_RUN",
    "NO_TEST",
    "REASONS",
    "SECOND_CONFIDENCE",
    "SOLVED",
    "STATUSES",
    "UNDECIDED",
    "WITHDRAWN",
    "Interval",
    "above",
    "below",
    "every",
    "has_learned",
    "has_solved",
    "inside",
    "some",
    "t_interval",
    "t_quantile",
]

HELD, NOT_HELD, UNDECIDED = "held", "not held", "undecided"
NO_TEST, NOT_RUN, WITHDRAWN = "no test", "not run", "withdrawn"
STATUSES = (HELD, NOT_HELD, UNDECIDED, NO_TEST, NOT_RUN, WITHDRAWN)

#: why there is no test; the first is the one that more steps could mend
NOT_LEARNED, ALL_SOLVED = "the models did not learn", "all of them solved the task"
NEVER_OCCURS, CONTROL_FAILS = "the quantity never occurs", "the control fails"
REASONS = (NOT_LEARNED, ALL_SOLVED, NEVER_OCCURS, CONTROL_FAILS)

#: share of repetitions whose interval contains the true mean
CONFIDENCE = 0.9
#: the same at a second look: that much stricter, since two looks have two chances to be wrong
SECOND_CONFIDENCE = 0.95
#: fewer seeds than this decide nothing
MIN_SEEDS = 4
#: mean accuracy from which on a task counts as solved in the sense of "all solved it"
SOLVED = 0.99

#: confidence -> the percentile of Student's t that bounds it, by degrees of freedom, 1 to 30
_T = {
    CONFIDENCE: (
        6.3138, 2.9200, 2.3534, 2.1318, 2.0150, 1.9432, 1.8946, 1.8595, 1.8331, 1.8125,
        1.7959, 1.7823, 1.7709, 1.7613, 1.7531, 1.7459, 1.7396, 1.7341, 1.7291, 1.7247,
        1.7207, 1.7171, 1.7139, 1.7109, 1.7081, 1.7056, 1.7033, 1.7011, 1.6991, 1.6973,
    ),
    SECOND_CONFIDENCE: (
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


def t_quantile(freedom: int, confidence: float = CONFIDENCE) -> float:
    """Student's t at the upper end of a two-sided interval; beyond 30 degrees, the last value.

    Args:
        freedom: degrees of freedom, from 1.
        confidence: ``CONFIDENCE`` or ``SECOND_CONFIDENCE``.

    Raises:
        ValueError: for less than one degree of freedom, and for another confidence.
    """
    if freedom < 1:
        raise ValueError(f"Student's t needs at least 1 degree of freedom; got {freedom}.")
    if confidence not in _T:
        raise ValueError(
            f"confidence must be {CONFIDENCE} or {SECOND_CONFIDENCE}; got {confidence}."
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


def above(interval: Interval, threshold: float) -> str:
    """Held where the whole interval exceeds the threshold, not held where it falls short."""
    if interval.low > threshold:
        return HELD
    return NOT_HELD if interval.high < threshold else UNDECIDED


def below(interval: Interval, threshold: float) -> str:
    """Held where the whole interval falls short of the threshold, not held where it exceeds it."""
    return above(Interval(-interval.mean, -interval.high, -interval.low), -threshold)


def inside(interval: Interval, bound: float) -> str:
    """Held where the interval lies within (-bound, bound), not held where it lies outside."""
    if -bound < interval.low and interval.high < bound:
        return HELD
    return NOT_HELD if interval.low > bound or interval.high < -bound else UNDECIDED


def has_learned(values: Sequence[float], baseline: float) -> bool:
    """Above the baseline by more than its interval."""
    return t_interval(values).low > baseline


def has_solved(values: Sequence[float]) -> bool:
    """Mean accuracy of at least ``SOLVED``."""
    return statistics.fmean(values) >= SOLVED


def every(statuses: Sequence[str]) -> str:
    """All must hold: one refuted part refutes the whole, one open part leaves it open."""
    for status in (NOT_RUN, NOT_HELD, NO_TEST, UNDECIDED):
        if status in statuses:
            return status
    return HELD


def some(statuses: Sequence[str]) -> str:
    """One must hold: held by any part that holds; refuted only where every part is."""
    for status in (NOT_RUN, HELD, UNDECIDED, NO_TEST):
        if status in statuses:
            return status
    return NOT_HELD
