"""Power of a claim with a margin of equivalence: what seeds decide, and how many would.

An interval that is narrower than the margin always decides: where it contains the threshold, it
lies within the margin about it. ``seeds_for`` searches for the least number of seeds with such an
interval, at the spread that was seen; ``chance`` is the probability that n seeds decide, whatever
the verdict, if the true values are known. Many seeds decide without being that many.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable
from functools import lru_cache

from coefdyn.lab.experiments import intervals, rule

__all__ = ["MOST_SEEDS", "chance", "chance_of_means", "seeds_for"]

#: more seeds than this nobody is asked for
MOST_SEEDS = 2000
#: counts of seeds that are less likely than this are left out of a chance
_RARE = 1e-5


def seeds_for(width: Callable[[int], float], margin: float) -> int:
    """The least number of seeds whose interval is narrower than the margin.

    Args:
        width: number of seeds -> width of the interval, which falls as the seeds grow.
        margin: of equivalence, above 0.

    Returns:
        the number; ``MOST_SEEDS`` where more would be needed.
    """
    few, many = 1, MOST_SEEDS
    while many - few > 1:
        middle = (few + many) // 2
        few, many = (few, middle) if width(middle) < margin else (middle, many)
    return many


@lru_cache(maxsize=256)
def chance(
    shares: tuple[float, ...], seeds: tuple[int, ...], margin: float, below: bool = False
) -> float:
    """Probability that counts of seeds decide, if the true shares are known.

    Args:
        shares: (p,) against one half, or (p, p') against each other.
        seeds: their numbers of seeds.
        margin: of equivalence.
        below: whether the claimed side is that below the threshold.
    """
    counts = [_likely(n, p) for p, n in zip(shares, seeds, strict=True)]
    total = 0.0
    for k, weight in counts[0]:
        if len(shares) == 1:
            found = [(intervals.share_interval(k, seeds[0]), 0.5, weight)]
        else:
            found = [
                (intervals.share_difference(k, seeds[0], other, seeds[1]), 0.0, weight * more)
                for other, more in counts[1]
            ]
        for interval, threshold, probability in found:
            beyond = interval.beyond(threshold, below)
            total += probability * (rule.verdict(beyond, margin) != rule.UNDECIDED)
    return min(total, 1.0)


def chance_of_means(difference: float, deviation: float, seeds: int, margin: float) -> float:
    """Probability that the mean of differences decides, each normal with a known deviation.

    The interval has its expected width, which is right to a few hundredths for a dozen seeds.

    Args:
        difference: the true one, in the measure's unit, as are deviation and margin.
        deviation: of the difference of one seed.
        seeds: their number.
        margin: of equivalence.
    """
    spread = deviation / math.sqrt(seeds)
    half = intervals.t_quantile(seeds - 1, intervals.JUDGED_CONFIDENCE) * spread
    law = statistics.NormalDist(difference, spread)
    inner = max(margin - half, 0.0)
    if inner >= half:
        return 1.0
    apart = law.cdf(-half) + 1 - law.cdf(half)
    return apart + law.cdf(inner) - law.cdf(-inner)


def _likely(n: int, p: float) -> list[tuple[int, float]]:
    """Counts of n seeds with their probability, without the rare ones."""
    law = [(k, math.comb(n, k) * p**k * (1 - p) ** (n - k)) for k in range(n + 1)]
    return [(k, weight) for k, weight in law if weight > _RARE]
