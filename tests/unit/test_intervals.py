"""Intervals over seeds: known values and coverage; and every state of the search for a rate."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy import stats

from coefdyn.lab.experiments import intervals, kept_results, rates
from coefdyn.lab.experiments.plan import STANDARD, Plan
from coefdyn.lab.headline.claim import SOLVED_OR_NOT


@pytest.mark.parametrize(("k", "n"), [(0, 12), (1, 12), (6, 12), (11, 12), (12, 12), (2, 3)])
def test_the_exact_interval_of_a_share_is_that_of_scipy(k, n):
    found = intervals.share_interval(k, n)
    exact = stats.binomtest(k, n).proportion_ci(0.95, method="exact")
    assert (found.low, found.high) == pytest.approx((exact.low, exact.high), abs=1e-12)


def test_the_exact_interval_covers_at_least_its_confidence():
    for n in (3, 12):
        ends = [intervals.share_interval(k, n) for k in range(n + 1)]
        for p in np.linspace(0, 1, 201):
            inside = [one.low <= p <= one.high for one in ends]
            assert stats.binom.pmf(np.arange(n + 1), n, p)[inside].sum() >= 0.95 - 1e-12


def test_the_score_interval_of_a_published_example():
    """56 of 70 against 48 of 80: [0.0528, 0.3382], Newcombe (1998), table II."""
    found = intervals.share_difference(56, 70, 48, 80)
    assert (found.low, found.high) == pytest.approx((0.0528, 0.3382), abs=1e-4)


def test_the_score_interval_of_none_and_all():
    """9 of 10 against 3 of 10 is [0.1700, 0.8406] there; none against none leaves both signs."""
    found = intervals.share_difference(9, 10, 3, 10)
    assert (found.low, found.high) == pytest.approx((0.1700, 0.8406), abs=1e-4)
    none = intervals.share_difference(0, 12, 0, 12)
    assert none.low == pytest.approx(-none.high)
    assert 0.2 < none.high < 0.3
    assert intervals.share_difference(12, 12, 0, 12).high == 1.0


@pytest.mark.parametrize(("n", "other_n"), [(12, 12), (36, 12), (3, 60)])
def test_no_shares_with_that_difference_are_likelier(n, other_n):
    for k, other_k, d in itertools.product(
        (0, 1, n // 2, n), (0, 2, other_n), (-0.99, -0.4, -0.05, 0.0, 0.3, 0.8)
    ):
        shares = np.linspace(max(0.0, -d), min(1.0, 1.0 - d), 2001)
        mine, other = intervals._likely_shares(k, n, other_k, other_n, d)
        found = stats.binom.logpmf(k, n, mine) + stats.binom.logpmf(other_k, other_n, other)
        all_ = stats.binom.logpmf(k, n, shares + d) + stats.binom.logpmf(other_k, other_n, shares)
        assert mine - other == pytest.approx(d, abs=1e-12)
        assert found >= np.nanmax(all_) - 1e-9, (k, other_k, d)


def test_the_score_interval_covers_93_percent_whatever_the_shares_are():
    n = 12
    ends = [[intervals.share_difference(a, n, b, n) for b in range(n + 1)] for a in range(n + 1)]
    low = np.array([[one.low for one in row] for row in ends])
    high = np.array([[one.high for one in row] for row in ends])
    shares = np.linspace(0, 1, 41)
    weights = stats.binom.pmf(np.arange(n + 1)[None], n, shares[:, None])
    for p, mine in zip(shares, weights, strict=True):
        for q, other in zip(shares, weights, strict=True):
            inside = (low <= p - q + 1e-9) & (p - q <= high + 1e-9)
            assert (mine[:, None] * other * inside).sum() >= 0.93


def test_counts_that_cannot_be_are_refused():
    for k, n in ((-1, 4), (5, 4), (0, 0)):
        with pytest.raises(ValueError, match=f"got k={k}, n={n}"):
            intervals.share_interval(k, n)


def kept_populations():
    """(task, accuracies) of every kept variant with at least ten seeds."""
    for _, result in kept_results(STANDARD):
        if isinstance(result.plan, Plan):
            for one in result.outcomes():
                if len(one.records) >= 10:
                    yield one.variant.task.task_name, np.array(one.values())


def coverage(population, rng, n=12, draws=4000):
    """Share of draws of n seeds whose interval contains the population's mean."""
    drawn = rng.choice(population, (draws, n))
    half = stats.t.ppf(0.975, n - 1) * drawn.std(axis=1, ddof=1) / math.sqrt(n)
    return (np.abs(drawn.mean(axis=1) - population.mean()) <= half).mean()


def test_a_mean_covers_too_little_where_a_seed_solves_or_not():
    """Coverage of the mean's interval at twelve seeds is as low as 70 %, so seeds are counted."""
    rng = np.random.default_rng(0)
    bimodal = [values for task, values in kept_populations() if task in SOLVED_OR_NOT]
    assert min(coverage(values, rng) for values in bimodal) < 0.75


@pytest.mark.parametrize(
    ("scores", "best", "missing", "bracketed"),
    [
        ({1e-3: 0.2, 3e-3: 0.8, 1e-2: 0.5}, 3e-3, (), True),
        ({1e-3: 0.2, 3e-3: 0.5, 1e-2: 0.8}, 1e-2, (3e-2,), False),
        ({1e-3: 0.8, 3e-3: 0.5, 1e-2: 0.2}, 1e-3, (1e-3 / 3,), False),
        ({1e-3: 1.0, 3e-3: 1.0, 1e-2: 1.0}, 3e-3, (), True),  # ties to the middle
        ({1e-3: 0.2, 3e-3: 1.0, 1e-2: 1.0}, 3e-3, (), True),  # a neighbour as good is no better
        ({3e-3: 1.0}, 3e-3, (1e-3, 9e-3), False),
        ({1e-3: 0.2, 3e-3: 0.5, 1e-2: math.nan}, 3e-3, (), True),
        ({1e-3: math.nan, 3e-3: math.nan, 1e-2: math.nan}, 3e-3, (), False),
    ],
)
def test_the_search_for_a_rate(scores, best, missing, bracketed):
    found = rates.search_rate(scores)
    assert found.best == best
    assert found.missing == pytest.approx(missing)
    assert found.bracketed == bracketed


def test_the_search_ends_at_seven_rates():
    """A score that rises for ever is not bracketed, and one with a top is, within seven."""
    rising = {1e-3: 0.1, 3e-3: 0.2, 1e-2: 0.3}
    while missing := rates.search_rate(rising).missing:
        rising |= {rate: 1 + rate for rate in missing}
    assert len(rising) == rates.MOST_RATES
    assert not rates.search_rate(rising).bracketed
    topped = {3e-3: 0.5}
    while missing := rates.search_rate(topped).missing:
        topped |= {rate: -abs(math.log(rate / 0.03)) for rate in missing}
    assert rates.search_rate(topped).bracketed
    with pytest.raises(ValueError, match="positive rates"):
        rates.search_rate({})


def test_room_chance_and_the_smallest_lead():
    assert intervals.exceeds_room(0.1, 0.999)
    assert intervals.exceeds_room(0.1, 0.9), "more than .1 is asked"
    assert not intervals.exceeds_room(0.1, 0.89)
    assert intervals.wrong_by_chance([1] * 40) == pytest.approx(1.0)
    assert intervals.wrong_by_chance([1, 1, 3]) == pytest.approx(0.125), "three parts that may fail"
    assert intervals.smallest_lead(12) == pytest.approx(4 / 12)
    assert intervals.smallest_lead(2, by=0.9) == math.inf
    assert intervals.solved([0.89, 0.9, 1.0, math.nan]) == 2
