"""The rule of every verdict: an interval over the seeds against a threshold, in one place.

    held        the whole interval lies on the claimed side of the threshold
    not held    the whole interval lies on the other side
    no difference that matters
                the interval contains the threshold and lies within the margin about it
    undecided   the interval contains the threshold; with a margin: too few runs, nothing else
    no test     the compared models did not learn, all of them solved the task, the quantity never
                occurs, or the control fails
    not run     runs are missing
    withdrawn   what it was judged on turned out to be wrong, of the ledger alone

A model has learned when its accuracy is above the named baseline by more than its interval.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from coefdyn.lab.experiments.intervals import Interval, t_interval

__all__ = [
    "ALL_SOLVED",
    "HELD",
    "MIN_SEEDS",
    "NOT_HELD",
    "NOT_LEARNED",
    "NOT_RUN",
    "NO_TEST",
    "SAME",
    "SOLVED",
    "STATUSES",
    "UNDECIDED",
    "WITHDRAWN",
    "above",
    "below",
    "controlled",
    "every",
    "has_learned",
    "has_solved",
    "verdict",
]

HELD, NOT_HELD, UNDECIDED = "held", "not held", "undecided"
SAME = "no difference that matters"
NO_TEST, NOT_RUN, WITHDRAWN = "no test", "not run", "withdrawn"
STATUSES = (HELD, NOT_HELD, SAME, UNDECIDED, NO_TEST, NOT_RUN, WITHDRAWN)

#: why there is no test
NOT_LEARNED, ALL_SOLVED = "the models did not learn", "all of them solved the task"

#: fewer seeds than this decide nothing
MIN_SEEDS = 4
#: mean accuracy from which on a task counts as solved in the sense of "all solved it"
SOLVED = 0.99


def above(interval: Interval, threshold: float) -> str:
    """Held where the whole interval exceeds the threshold, not held where it falls short."""
    if interval.low > threshold:
        return HELD
    return NOT_HELD if interval.high < threshold else UNDECIDED


def below(interval: Interval, threshold: float) -> str:
    """Held where the whole interval falls short of the threshold, not held where it exceeds it."""
    return above(Interval(-interval.mean, -interval.high, -interval.low), -threshold)


def verdict(beyond: Interval, margin: float = 0.0) -> str:
    """The verdict of a distance from the threshold, of which what is above 0 is claimed.

    Args:
        beyond: the distance, with its interval.
        margin: of equivalence, about the threshold; 0 for none.
    """
    found = above(beyond, 0.0)
    within = -margin < beyond.low and beyond.high < margin
    return SAME if found == UNDECIDED and within else found


def has_learned(values: Sequence[float], baseline: float) -> bool:
    """Above the baseline by more than its interval."""
    return t_interval(values).low > baseline


def has_solved(values: Sequence[float]) -> bool:
    """Mean accuracy of at least ``SOLVED``."""
    return statistics.fmean(values) >= SOLVED


def every(statuses: Sequence[str]) -> str:
    """All must hold: one refuted part refutes the whole, one open part leaves it open."""
    for status in (NOT_RUN, NOT_HELD, SAME, NO_TEST, UNDECIDED):
        if status in statuses:
            return status
    return HELD


def controlled(status: str, control: str) -> str:
    """The status of a claim from that of its test and that of its control."""
    if NOT_RUN in (status, control):
        return NOT_RUN
    if control in (NOT_HELD, NO_TEST, SAME):
        return NO_TEST
    return UNDECIDED if control == UNDECIDED else status
