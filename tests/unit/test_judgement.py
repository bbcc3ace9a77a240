"""The judge: shares and means on both sides of a threshold, no test, and controls."""

from __future__ import annotations

from dataclasses import replace

import pytest
from made_up_results import result_of

from coefdyn.lab.experiments import rule
from coefdyn.lab.experiments.measure import accuracy, metric
from coefdyn.lab.experiments.plan import STANDARD
from coefdyn.lab.experiments.rule import HELD, NO_TEST, NOT_HELD, NOT_RUN, UNDECIDED
from coefdyn.lab.headline import judge
from coefdyn.lab.headline.claim import Ahead, Claim, Diverges, Every, Reaches
from coefdyn.lab.headline.group import Group
from coefdyn.lab.headline.judge import as_judged

WITH, WITHOUT = ({"task": "2 layers", "design": one} for one in ("decay", "nothing"))
SOFTMAX, LINEAR = ({"task": "bytes", "design": one} for one in ("softmax", "linear"))
FIRST = 200  # of the twelve judged seeds


def solved_by(high: int, low: int):
    """So many of the twelve seeds solve the task with a decay and without; pilots half of it."""

    def score(facets, run):
        right = run.seed - FIRST < (high if facets["design"] == "decay" else low)
        return (0.95 if right and run.seed >= FIRST else 0.5), None

    return as_judged(result_of(Group("positions"), STANDARD, score))


def read(gap: float, wave: float = 0.0):
    """Text with accuracies that the seeds share; softmax is ahead, by turns more and less."""

    def score(facets, run):
        ahead = gap + wave * (-1) ** run.seed if facets["design"] == "softmax" else 0.0
        return 0.5 + 0.02 * (run.seed % 4) + ahead, None

    return as_judged(result_of(Group("text"), STANDARD, score))


@pytest.fixture(autouse=True)
def bracketed(monkeypatch):
    """The made-up pilots rank no rates."""
    monkeypatch.setattr(judge.Judged, "unbracketed", lambda self, variant: False)


def judged(test, result, control=None) -> tuple[str, str]:
    claim = Claim(id="t/c", sentence="s", test=test, control=control, why="w")
    return judge.judge(claim, result)


@pytest.mark.parametrize(
    ("high", "low", "status"),
    [(12, 0, HELD), (12, 10, UNDECIDED), (6, 5, UNDECIDED), (2, 9, NOT_HELD)],
)
def test_a_lead_is_a_difference_of_shares_where_a_task_is_solved_or_not(high, low, status):
    found, numbers = judged(Ahead(a=WITH, b=WITHOUT), solved_by(high, low))
    assert found == status
    assert numbers.startswith(f"{high} of 12 against {low} of 12 seeds solved; difference ")


def test_there_is_no_test_where_no_seed_or_every_seed_solved_the_task():
    lead = Ahead(a=WITH, b=WITHOUT)
    assert judged(lead, solved_by(0, 0)) == (NO_TEST, judge.NONE_SOLVED)
    turned = Ahead(a=WITH, b=WITHOUT, less=True)
    assert judged(turned, solved_by(12, 12)) == (NO_TEST, rule.ALL_SOLVED)
    assert judged(replace(lead, by=0.5), solved_by(12, 6)) == (NO_TEST, judge.NO_ROOM)


def test_a_paired_difference_of_means_ignores_what_the_seeds_share():
    lead = Ahead(a=SOFTMAX, b=LINEAR, by=0.1)
    found, numbers = judged(lead, read(0.12))
    assert found == HELD
    assert numbers.endswith("difference 0.120 [0.120, 0.120]")
    assert judged(lead, read(0.08))[0] == NOT_HELD
    assert judged(lead, read(0.1, wave=0.1))[0] == UNDECIDED


def test_a_lower_perplexity_is_ahead():
    lower = Ahead(a=SOFTMAX, b=LINEAR, measure=metric("perplexity"), less=True)
    assert judged(lower, read(0.1))[0] == HELD
    assert judged(lower, read(-0.1))[0] == NOT_HELD


@pytest.mark.parametrize(("right", "status"), [(10, HELD), (9, UNDECIDED), (2, NOT_HELD)])
def test_a_bound_is_a_share_against_one_half(right, status):
    result = solved_by(right, 0)
    assert judged(Reaches(a=WITH, bound=0.9), result)[0] == status
    opposite = {HELD: NOT_HELD, NOT_HELD: HELD, UNDECIDED: UNDECIDED}[status]
    assert judged(Reaches(a=WITH, bound=0.9, less=True), result)[0] == opposite


def test_a_bound_of_a_mean_and_training_that_ends_in_nan():
    level = Reaches(a=LINEAR, bound=0.5, measure=accuracy)
    assert judged(level, read(0.0))[0] == HELD
    assert judged(replace(level, bound=0.6), read(0.0))[0] == NOT_HELD
    assert judged(replace(level, bound=0.53), read(0.0))[0] == UNDECIDED
    group = Group("growth")
    result = as_judged(
        result_of(
            group, STANDARD, lambda facets, run: (0.5, 7 if facets["design"] == "one" else None)
        )
    )
    one, row_sum = ({"task": "A = 1.05 I", "design": d} for d in ("one", "row_sum"))
    assert judged(Diverges(a=one), result) == (HELD, "12 of 12 seeds; share 1.000 [0.735, 1.000]")
    assert judged(Diverges(a=one, never=True), result)[0] == NOT_HELD
    assert judged(Diverges(a=row_sum, never=True), result)[0] == HELD


def test_a_control_that_fails_or_is_open_takes_the_test_away():
    lead, result = Ahead(a=WITH, b=WITHOUT), solved_by(11, 6)
    for control, status in (
        (Reaches(a=WITH, bound=0.9), HELD),
        (Reaches(a=WITHOUT, bound=0.9), UNDECIDED),
        (Reaches(a=WITH, bound=0.9, less=True), NO_TEST),
    ):
        expected = judged(lead, result)[0] if status == HELD else status
        found, told = judged(lead, result, control)
        assert found == expected
        assert told.startswith("control: ") == (found != judged(lead, result)[0])


def test_one_part_that_is_not_held_refutes_the_whole():
    result = solved_by(12, 0)
    both = Every((Reaches(a=WITH, bound=0.9), Reaches(a=WITHOUT, bound=0.9)))
    found, numbers = judged(both, result)
    assert found == NOT_HELD
    assert numbers.startswith("12 of 12 seeds; share ") and "; 0 of 12 seeds; share " in numbers


def test_a_missing_seed_is_named():
    result = solved_by(12, 0)
    less = tuple(one for one in result.records if one["seed"] != FIRST)
    found = judged(Reaches(a=WITH, bound=0.5), replace(result, records=less))
    assert found == (NOT_RUN, "2 layers, decay: 11 seeds")


def test_a_rate_that_is_not_bracketed_decides_nothing_but_overflow(monkeypatch):
    monkeypatch.setattr(judge.Judged, "unbracketed", lambda self, variant: True)
    result = solved_by(12, 0)
    assert judged(Ahead(a=WITH, b=WITHOUT), result) == (NO_TEST, judge.NOT_BRACKETED)
    assert judged(Diverges(a=WITH, never=True), result)[0] == HELD
