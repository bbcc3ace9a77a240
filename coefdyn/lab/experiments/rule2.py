"""The rule of verdicts, version 2: statistics of judged seeds, in one place.

1. Pilot seeds choose the learning rate and are never judged; all judged seeds count, always.
2. A best rate at an edge extends the grid until both neighbours are no better: at most seven rates,
   ties to the middle. Else the rate is not bracketed, and nothing is decided. A rate with which all
   pilots solve the task ends the search, and a claim about overflow needs no bracket.
3. Where a task is solved or not (``SOLVED_OR_NOT``), the statistic is k of n seeds solved, with an
   exact 95 % interval and a score interval of differences; elsewhere the mean, with Student's 95 %
   interval whose spread is at least the largest that twelve seeds of the task have shown.
4. There is no test where the asked lead exceeds the room left.
5. Held, not held or undecided is the interval against the threshold, as in ``rule``.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from coefdyn.lab.experiments.rule import SECOND_CONFIDENCE, Interval, t_quantile

__all__ = [
    "CONFIDENCE",
    "MOST_RATES",
    "NOT_BRACKETED",
    "NO_ROOM",
    "RATE_FACTOR",
    "SOLVED_FROM",
    "SOLVED_OR_NOT",
    "Search",
    "exceeds_room",
    "mean_interval",
    "search_rate",
    "share_difference",
    "share_interval",
    "smallest_lead",
    "solved",
    "wrong_by_chance",
]

CONFIDENCE = SECOND_CONFIDENCE
#: further reasons why there is no test
NOT_BRACKETED, NO_ROOM = "rate not bracketed", "the asked lead exceeds the room left"
#: neighbouring learning rates lie about this factor apart
RATE_FACTOR = 3.0
MOST_RATES = 7
#: accuracy from which on a seed has solved a task, in a count of seeds
SOLVED_FROM = 0.9
#: tasks whose accuracy over the seeds is near a guess or near one, so that a mean says little
SOLVED_OR_NOT = frozenset(
    {
        "forget",
        "fuzzy-recall",
        "long-memory",
        "majority",
        "mqar",
        "noisy-recall",
        "overwrite",
        "parity",
        "permutations",
        "position",
        "selective-copying",
    }
)
#: standard normal quantile of a two-sided 95 % interval
_Z = 1.959963984540054
_BISECTIONS = 60


@dataclass(frozen=True)
class Search:
    """State of the search for a learning rate.

    Args:
        best: the best rate tried, ties to the middle.
        missing: rates to be tried next; empty once nothing is left to try.
        bracketed: whether both neighbours of the best rate were tried and are no better.
    """

    best: float
    missing: tuple[float, ...]
    bracketed: bool


def search_rate(scores: Mapping[float, float], most: int = MOST_RATES) -> Search:
    """The next learning rates of a pilot, from the scores of those it has tried.

    A NaN, of a run that diverged, is worse than every number. At an edge of the grid the rate a
    factor of ``RATE_FACTOR`` further out is missing, while fewer than ``most`` were tried.

    Args:
        scores: rate -> score of the pilot on validation sequences; higher is better.
        most: rates that are tried at most.

    Raises:
        ValueError: for no scores, or a rate that is not positive.
    """
    if not scores or not all(rate > 0 for rate in scores):
        raise ValueError(f"a search needs the scores of positive rates; got {dict(scores)}.")
    rates = sorted(scores)
    known = [-math.inf if math.isnan(scores[rate]) else scores[rate] for rate in rates]
    tied = [place for place, score in enumerate(known) if score == max(known)]
    centre = (len(rates) - 1) / 2
    place = min(tied, key=lambda one: (abs(one - statistics.fmean(tied)), abs(one - centre), one))
    below = [] if place > 0 else [rates[0] / RATE_FACTOR]
    above = [] if place < len(rates) - 1 else [rates[-1] * RATE_FACTOR]
    missing = (below + above)[: max(most - len(rates), 0)]
    return Search(
        rates[place], tuple(missing), not below and not above and known[place] > -math.inf
    )


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
    tail = (1 - CONFIDENCE) / 2
    low = 0.0 if k == 0 else _root(lambda p: 1 - _at_most(k - 1, n, p) < tail)
    high = 1.0 if k == n else _root(lambda p: _at_most(k, n, p) > tail)
    return Interval(k / n, low, high)


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
    """The most likely (p, p') with p - p' = d: the log-likelihood is concave in p'."""
    low, high = max(0.0, -d), min(1.0, 1.0 - d)

    def rises(q: float) -> bool:
        p = q + d
        slope = 0.0
        for hits, all_, share in ((k, n, p), (other_k, other_n, q)):
            slope += (hits / share if share > 0 else math.inf) if hits else 0.0
            slope -= ((all_ - hits) / (1 - share) if share < 1 else math.inf) if all_ > hits else 0
        return slope > 0

    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        low, high = (middle, high) if rises(middle) else (low, middle)
    other = (low + high) / 2
    return min(max(other + d, 0.0), 1.0), other


def mean_interval(values: Sequence[float], floor: float = 0.0) -> Interval:
    """mean -+ t max(s, floor) / sqrt(n): 95 % interval of a mean; infinite for fewer than two.

    Twelve values that miss a rare low one have far too small an s. The floor, the largest s that
    twelve seeds of the task have shown, was fixed before the runs that are judged.

    Args:
        values: independent, one per judged seed.
        floor: standard deviation in the unit of the values, at least 0.

    Raises:
        ValueError: for a floor below 0.
    """
    if not floor >= 0:
        raise ValueError(f"floor is a standard deviation, at least 0; got {floor}.")
    mean = statistics.fmean(values)
    if len(values) < 2 or not math.isfinite(mean):
        return Interval(mean, -math.inf, math.inf)
    spread = max(statistics.stdev(values), floor)
    half = t_quantile(len(values) - 1, CONFIDENCE) * spread / math.sqrt(len(values))
    return Interval(mean, mean - half, mean + half)


def exceeds_room(lead: float, other: float, ceiling: float = 1.0) -> bool:
    """Return whether no model can lead one at ``other`` by more than ``lead`` below the ceiling."""
    return lead >= ceiling - other - 1e-12


def smallest_lead(n: int, by: float = 0.0) -> float:
    """The smallest lead over a design that no seed solves which n seeds each can show, as a share.

    The least k / n whose difference from 0 of n has its interval above ``by``; infinite for none.
    """
    leads = (k / n for k in range(1, n + 1) if share_difference(k, n, 0, n).low > by)
    return next(leads, math.inf)


def wrong_by_chance(decided: int, coverage: float = CONFIDENCE) -> float:
    """Decided claims that are wrong by chance at most, on average: decided (1 - coverage) / 2.

    Reached where every true value lies at its threshold; an interval errs on either side alike.
    """
    return decided * (1 - coverage) / 2


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
