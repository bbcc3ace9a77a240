"""The rule of verdicts: every status, on both sides of every boundary."""

from __future__ import annotations

import math

import numpy as np
import pytest

from coefdyn.lab.experiments import intervals, rule
from coefdyn.lab.experiments.intervals import Interval
from coefdyn.lab.experiments.rule import HELD, NO_TEST, NOT_HELD, NOT_RUN, UNDECIDED


@pytest.mark.parametrize("confidence", [intervals.CONFIDENCE, intervals.JUDGED_CONFIDENCE])
@pytest.mark.parametrize("freedom", [1, 2, 3, 7, 11, 30])
def test_quantiles_of_student_against_its_density(freedom, confidence):
    """The share within -+ t, by the trapezoid rule over t = tan(angle)."""
    angle = np.linspace(-np.pi / 2, np.pi / 2, 400_001)[1:-1]
    x = np.tan(angle)
    density = (1 + x**2 / freedom) ** (-(freedom + 1) / 2) / np.cos(angle) ** 2
    inside = np.abs(x) <= intervals.t_quantile(freedom, confidence)
    share = np.where(inside, density, 0.0).sum() / density.sum()
    assert share == pytest.approx(confidence, abs=2e-5)


def test_student_interval_of_four_values_worked_by_hand():
    """Mean 3, standard deviation sqrt(20/3), t_{.95,3} = 2.3534: half width 3.0383."""
    found = intervals.t_interval([0.0, 2.0, 4.0, 6.0])
    assert found.mean == 3.0
    assert found.high - found.mean == pytest.approx(2.3534 * math.sqrt(20 / 3) / 2)
    assert found.mean - found.low == pytest.approx(3.0383, abs=1e-4)


def test_nine_intervals_in_ten_contain_the_mean():
    draws = np.random.default_rng(0).normal(size=(4000, 4))
    inside = [intervals.t_interval(row.tolist()) for row in draws]
    share = np.mean([one.low <= 0 <= one.high for one in inside])
    assert abs(share - intervals.CONFIDENCE) < 0.015


def test_one_value_or_a_nan_decides_nothing():
    for values in ([0.9], [0.9, math.nan]):
        assert rule.above(intervals.t_interval(values), 0.0) == UNDECIDED


def test_t_quantiles_fall_with_the_degrees_of_freedom():
    found = [intervals.t_quantile(freedom) for freedom in range(1, 40)]
    assert found == sorted(found, reverse=True)
    with pytest.raises(ValueError, match="at least 1 degree of freedom; got 0"):
        intervals.t_quantile(0)


@pytest.mark.parametrize(
    ("low", "high", "status"),
    [
        (0.1001, 0.3, HELD),
        (0.1, 0.3, UNDECIDED),  # the threshold is part of the interval
        (0.0, 0.1, UNDECIDED),
        (0.0, 0.0999, NOT_HELD),
    ],
)
def test_above_and_below_are_mirrored(low, high, status):
    middle = (low + high) / 2
    assert rule.above(Interval(middle, low, high), 0.1) == status
    assert rule.below(Interval(-middle, -high, -low), -0.1) == status


def test_learned_is_above_the_baseline_by_more_than_the_interval():
    values = [0.4, 0.5, 0.5, 0.6]
    edge = intervals.t_interval(values).low
    assert rule.has_learned(values, edge - 1e-9)
    assert not rule.has_learned(values, edge)
    assert not rule.has_learned([0.9], 0.1), "one seed shows nothing"


def test_solved_is_a_mean_of_at_least_the_bound():
    assert rule.has_solved([rule.SOLVED, rule.SOLVED])
    assert not rule.has_solved([rule.SOLVED, rule.SOLVED - 1e-6])


def test_joining_statuses():
    assert rule.every([HELD, HELD]) == HELD
    assert rule.every([HELD, UNDECIDED]) == UNDECIDED
    assert rule.every([HELD, NO_TEST, UNDECIDED]) == NO_TEST
    assert rule.every([UNDECIDED, NOT_HELD, NO_TEST]) == NOT_HELD
    assert rule.every([NOT_HELD, NOT_RUN]) == NOT_RUN
