"""The rule of verdicts, version 2: known values, coverage, and every state of the rate search."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from coefdyn.lab.experiments import kept_results, rule2
from coefdyn.lab.experiments.plan import STANDARD, Plan


@pytest.mark.parametrize(("k", "n"), [(0, 12), (1, 12), (6, 12), (11, 12), (12, 12), (2, 3)])
def test_the_exact_interval_of_a_share_is_that_of_scipy(k, n):
    found = rule2.share_interval(k, n)
    exact = stats.binomtest(k, n).proportion_ci(0.95, method="exact")
    assert (found.low, found.high) == pytest.approx((exact.low, exact.high), abs=1e-12)


def test_the_exact_interval_covers_at_least_its_confidence():
    for n in (3, 12):
        ends = [rule2.share_interval(k, n) for k in range(n + 1)]
        for p in np.linspace(0, 1, 201):
            inside = [one.low <= p <= one.high for one in ends]
            assert stats.binom.pmf(np.arange(n + 1), n, p)[inside].sum() >= 0.95 - 1e-12


def test_the_score_interval_of_a_published_example():
    """56 of 70 against 48 of 80: [0.0528, 0.3382], Newcombe (1998), table II."""
    found = rule2.share_difference(56, 70, 48, 80)
    assert (found.low, found.high) == pytest.approx((0.0528, 0.3382), abs=1e-4)


def test_the_score_interval_of_none_and_all():
    """9 of 10 against 3 of 10 is [0.1700, 0.8406] there; none against none leaves both signs."""
    found = rule2.share_difference(9, 10, 3, 10)
    assert (found.low, found.high) == pytest.approx((0.1700, 0.8406), abs=1e-4)
    none = rule2.share_difference(0, 12, 0, 12)
    assert none.low == pytest.approx(-none.high)
    assert 0.2 < none.high < 0.3
    assert rule2.share_difference(12, 12, 0, 12).high == 1.0


def test_the_score_interval_covers_93_percent_whatever_the_shares_are():
    n = 12
    ends = [[rule2.share_difference(a, n, b, n) for b in range(n + 1)] for a in range(n + 1)]
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
            rule2.share_interval(k, n)
    with pytest.raises(ValueError, match="at least 0; got -1"):
        rule2.mean_interval([0.1, 0.2], floor=-1)


def kept_populations():
    """(task, accuracies) of every kept variant with at least ten seeds."""
    for _, result in kept_results(STANDARD):
        if isinstance(result.plan, Plan):
            for one in result.outcomes():
                if len(one.records) >= 10:
                    yield one.variant.task.task_name, np.array(one.values())


def coverage(population, floor, rng, n=12, draws=4000):
    """Share of draws of n seeds whose interval contains the population's mean."""
    drawn = rng.choice(population, (draws, n))
    spread = np.maximum(drawn.std(axis=1, ddof=1), floor)
    half = stats.t.ppf(0.975, n - 1) * spread / math.sqrt(n)
    return (np.abs(drawn.mean(axis=1) - population.mean()) <= half).mean()


def test_the_interval_of_a_mean_covers_93_percent_of_every_kept_distribution_of_its_tasks():
    rng = np.random.default_rng(0)
    kept = list(kept_populations())
    graded = [(task, values) for task, values in kept if task not in rule2.SOLVED_OR_NOT]
    assert len(graded) >= 15
    spread = {task: 0.0 for task, _ in graded}
    for task, values in graded:
        spread[task] = max(spread[task], values.std(ddof=1))
    shares = [coverage(values, spread[task], rng) for task, values in graded]
    assert min(shares) >= 0.93
    assert min(coverage(values, 0.0, rng) for _, values in graded) < 0.93, "the floor is needed"


def test_a_mean_covers_too_little_where_a_seed_solves_or_not():
    """Coverage of the mean's interval at twelve seeds is as low as 70 %, so seeds are counted."""
    rng = np.random.default_rng(0)
    bimodal = [values for task, values in kept_populations() if task in rule2.SOLVED_OR_NOT]
    assert min(coverage(values, 0.0, rng) for values in bimodal) < 0.75


def test_the_interval_of_a_mean_by_hand():
    """Mean 3, s = sqrt(20/3), t_{.975,3} = 3.1824; the floor widens it, a smaller one does not."""
    plain = rule2.mean_interval([0.0, 2.0, 4.0, 6.0])
    assert plain.high - 3 == pytest.approx(3.1824 * math.sqrt(20 / 3) / 2, abs=1e-4)
    assert rule2.mean_interval([0.0, 2.0, 4.0, 6.0], floor=1.0) == plain
    wide = rule2.mean_interval([1.0, 1.0, 1.0, 1.0], floor=2.0)
    assert wide.high - 1 == pytest.approx(3.1824)
    assert rule2.mean_interval([0.5]).high == math.inf
    assert rule2.mean_interval([0.5, math.nan]).low == -math.inf


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
    found = rule2.search_rate(scores)
    assert found.best == best
    assert found.missing == pytest.approx(missing)
    assert found.bracketed == bracketed


def test_the_search_ends_at_seven_rates():
    """A score that rises for ever is not bracketed, and one with a top is, within seven."""
    rising = {1e-3: 0.1, 3e-3: 0.2, 1e-2: 0.3}
    while missing := rule2.search_rate(rising).missing:
        rising |= {rate: 1 + rate for rate in missing}
    assert len(rising) == rule2.MOST_RATES
    assert not rule2.search_rate(rising).bracketed
    topped = {3e-3: 0.5}
    while missing := rule2.search_rate(topped).missing:
        topped |= {rate: -abs(math.log(rate / 0.03)) for rate in missing}
    assert rule2.search_rate(topped).bracketed
    with pytest.raises(ValueError, match="positive rates"):
        rule2.search_rate({})


def test_room_chance_and_the_smallest_lead():
    assert rule2.exceeds_room(0.1, 0.999)
    assert rule2.exceeds_room(0.1, 0.9), "more than .1 is asked"
    assert not rule2.exceeds_room(0.1, 0.89)
    assert rule2.wrong_by_chance(40) == pytest.approx(1.0)
    assert rule2.smallest_lead(12) == pytest.approx(4 / 12)
    assert rule2.smallest_lead(2, by=0.9) == math.inf
    assert rule2.solved([0.89, 0.9, 1.0, math.nan]) == 2
