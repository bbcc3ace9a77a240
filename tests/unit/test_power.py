"""The rule with a margin of equivalence, and what a number of seeds decides."""

from __future__ import annotations

import random
import re
import statistics
from dataclasses import replace

import pytest
from made_up_results import result_of

from coefdyn.lab.experiments import intervals, rule
from coefdyn.lab.experiments.intervals import Interval
from coefdyn.lab.experiments.plan import STANDARD
from coefdyn.lab.headline import power
from coefdyn.lab.headline.claim import Ahead
from coefdyn.lab.headline.claims import HEADLINES
from coefdyn.lab.headline.group import Group, digest
from coefdyn.lab.headline.judge import as_judged, effects
from coefdyn.lab.headline.runs import BEGUN, GROUPS

SPLIT = [one for one in HEADLINES if one.group in BEGUN]


@pytest.mark.parametrize(
    ("low", "high", "status"),
    [
        (0.01, 0.5, rule.HELD),
        (0.01, 0.1, rule.HELD),
        (-0.5, -0.01, rule.NOT_HELD),
        (-0.2, 0.2, rule.SAME),
        (-0.2, 0.3, rule.UNDECIDED),
        (-0.3, 0.2, rule.UNDECIDED),
    ],
)
def test_four_verdicts_by_interval_threshold_and_margin(low, high, status):
    middle = (low + high) / 2
    assert rule.verdict(Interval(middle, low, high), 0.25) == status
    turned = Interval(0.5 - middle, 0.5 - high, 0.5 - low)
    assert rule.verdict(turned.beyond(0.5, below=True), 0.25) == status
    without = rule.UNDECIDED if status == rule.SAME else status
    assert rule.verdict(Interval(middle, low, high)) == without


def test_an_interval_narrower_than_the_margin_always_decides():
    draw = random.Random(0)
    for _ in range(2000):
        low, width, margin = draw.uniform(-1, 1), draw.uniform(0, 1), draw.uniform(0.01, 1)
        found = rule.verdict(Interval(low + width / 2, low, low + width), margin)
        assert found != rule.UNDECIDED or width >= margin


def test_a_conjunction_or_a_control_with_no_difference_is_not_held():
    assert rule.every([rule.HELD, rule.SAME]) == rule.SAME
    assert rule.every([rule.NOT_HELD, rule.SAME]) == rule.NOT_HELD
    assert rule.controlled(rule.HELD, rule.SAME) == rule.NO_TEST


def test_seeds_that_decide_are_the_least_with_a_narrow_interval():
    spread = 2.0
    n = power.seeds_for(lambda seeds: spread / seeds**0.5, 0.25)
    assert n == 65 and spread / 64**0.5 == 0.25
    assert power.seeds_for(lambda seeds: 1.0, 0.5) == power.MOST_SEEDS


def test_the_chance_of_counts_agrees_with_drawn_seeds():
    draw, times, n = random.Random(1), 3000, 24
    decided = 0
    for _ in range(times):
        k = sum(draw.random() < 0.7 for _ in range(n))
        beyond = intervals.share_interval(k, n).beyond(0.5)
        decided += rule.verdict(beyond, 0.25) != rule.UNDECIDED
    assert power.chance((0.7,), (n,), 0.25) == pytest.approx(decided / times, abs=0.03)
    assert power.chance((1.0, 0.0), (12, 12), 0.25) == pytest.approx(1.0)


def test_the_chance_of_means_agrees_with_drawn_seeds():
    draw, times, n = random.Random(2), 3000, 24
    decided = 0
    for _ in range(times):
        values = [draw.gauss(0.4, 1.0) for _ in range(n)]
        found = intervals.t_interval(values, intervals.JUDGED_CONFIDENCE)
        decided += rule.verdict(found, 0.6) != rule.UNDECIDED
    chance = power.chance_of_means(0.4, 1.0, n, 0.6)
    assert chance == pytest.approx(decided / times, abs=0.04) and 0.4 < chance < 0.9
    assert power.chance_of_means(0.4, 1.0, 200, 0.6) == 1.0


@pytest.mark.parametrize("one", SPLIT, ids=lambda one: one.id)
def test_a_part_is_one_comparison_whose_seeds_decide_four_times_in_five(one):
    chance = float(re.search(r"a chance of (\d\.\d\d), if", one.power)[1])
    assert chance > 0.8
    assert one.claim.test.within == (0.25 if one.claim.test.measure.counted else 0.01)


def test_what_a_part_assumes_is_what_the_first_seeds_gave():
    language = as_judged(Group("language").load(STANDARD))
    graded = [one for one in SPLIT if not one.claim.test.measure.counted]
    for one in graded:
        first, second = (
            language.one(**facets).values("perplexity") for facets in one.claim.test.compared
        )
        found = [a - b for a, b in zip(first, second, strict=True)]
        told = (statistics.fmean(found), statistics.stdev(found), statistics.fmean(second))
        assert one.assumed == pytest.approx(told, abs=5e-3)
    assert len(graded) == 3


def test_an_undecided_part_says_how_many_seeds_would_decide():
    group = Group("scale-fresh")

    def score(facets, run):
        right = facets["design"] != "b = 1" or run.seed % 5
        return (0.95 if right else 0.5), None

    result = result_of(group, STANDARD, score)
    near = next(one for one in group.claims(result) if one.id == "scale/exp-16")
    (effect,) = effects(
        next(one for one in group.registered_claims() if one.id == near.id).test, as_judged(result)
    )
    assert effect.counts == ((60, 60), (48, 60)) and near.status == rule.HELD
    assert effect.seeds_that_decide < 60


def test_a_margin_stands_about_no_difference_and_is_registered():
    one = next(one for one in SPLIT if one.id == "scale/exp-16")
    plan = GROUPS[one.group]()
    with pytest.raises(ValueError, match="not both"):
        Ahead(a=one.claim.test.a, b=one.claim.test.b, by=0.1, within=0.1)
    other = replace(one.claim, test=replace(one.claim.test, within=0.2))
    assert digest(other, plan) != digest(one.claim, plan)
    fewer = replace(plan, again={})
    assert digest(one.claim, fewer) != digest(one.claim, plan)
