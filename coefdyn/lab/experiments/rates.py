"""The search for a learning rate: a best rate at an edge of the grid extends it."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping
from dataclasses import dataclass

__all__ = ["MOST_RATES", "RATE_FACTOR", "Search", "search_rate"]

#: neighbouring learning rates lie about this factor apart
RATE_FACTOR = 3.0
MOST_RATES = 7


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
