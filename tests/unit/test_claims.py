"""Claims as data: what they pick, when they make no test, what their control does."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest
from made_up_results import made_up, result_of

from coefdyn.lab.experiments import EXPERIMENTS, get_experiment, headline
from coefdyn.lab.experiments.claim import (
    Ahead,
    Claim,
    Diverges,
    Every,
    Guess,
    Par,
    Reaches,
    Some,
)
from coefdyn.lab.experiments.plan import STANDARD
from coefdyn.lab.experiments.registration import (
    changed_since,
    digest,
    registered_in,
    registration,
)
from coefdyn.lab.experiments.rule import (
    ALL_SOLVED,
    CONTROL_FAILS,
    HELD,
    MIN_SEEDS,
    NO_TEST,
    NOT_HELD,
    NOT_LEARNED,
    NOT_RUN,
    UNDECIDED,
)
from coefdyn.lab.training import ResultFile

EXPERIMENT = get_experiment("principle-3")
WITH = {"readout": "exp", "layers": "2", "positions": "decay"}
WITHOUT = {"readout": "exp", "layers": "2", "positions": "nothing"}
#: seed -> what it adds to an accuracy: mean 0, standard deviation .008
JITTER = {0: -0.01, 1: 0.0, 2: 0.01, 3: 0.0}


def result(high: float, low: float, jitter=JITTER, diverged_at=None):
    """Every model with a decay reaches ``high``, every other one ``low``."""

    def score(facets, run):
        level = high if facets["positions"] == "decay" else low
        return level + jitter[run.seed], diverged_at

    return result_of(EXPERIMENT, STANDARD, score)


def test_a_paired_difference_ignores_what_the_seeds_share():
    wild = {0: -0.2, 1: 0.0, 2: 0.2, 3: 0.1}
    found = Ahead(a=WITH, b=WITHOUT, by=0.1).judge(result(0.75, 0.64, wild))
    assert found.status == HELD, found.numbers
    assert "difference 0.110 [0.110, 0.110]" in found.numbers


@pytest.mark.parametrize(("gap", "status"), [(0.12, HELD), (0.08, NOT_HELD)])
def test_ahead_on_both_sides_of_its_margin(gap, status):
    assert Ahead(a=WITH, b=WITHOUT, by=0.1).judge(result(0.6 + gap, 0.6)).status == status


def test_ahead_is_undecided_where_the_seeds_disagree():
    def score(facets, run):
        return 0.7 + (0.1 * (-1) ** run.seed if facets["positions"] == "decay" else 0.0), None

    found = Ahead(a=WITH, b=WITHOUT).judge(result_of(EXPERIMENT, STANDARD, score))
    assert found.status == UNDECIDED


def test_no_test_where_neither_learned_and_where_all_solved():
    neither = Ahead(a=WITH, b=WITHOUT).judge(result(0.3, 0.1))
    assert neither.status == NO_TEST and "most frequent value" in neither.numbers
    assert Ahead(a=WITH, b=WITHOUT).judge(result(1.0, 1.0)).status == NO_TEST
    assert Ahead(a=WITH, b=WITHOUT).judge(result(0.8, 0.1)).status == HELD


def test_par_asks_learning_of_both():
    assert Par(a=WITH, b=WITHOUT, within=0.05).judge(result(0.8, 0.1)).status == NO_TEST
    assert Par(a=WITH, b=WITHOUT, within=0.05).judge(result(0.8, 0.79)).status == HELD
    assert Par(a=WITH, b=WITHOUT, within=0.05).judge(result(0.8, 0.7)).status == NOT_HELD


def test_bounds_baselines_and_divergence():
    solved = result(0.97, 0.45)
    assert Reaches(a=WITH, bound=0.95).judge(solved).status == HELD
    assert Reaches(a=WITH, bound=0.99).judge(solved).status == NOT_HELD
    assert Reaches(a=WITH, bound=0.97).judge(solved).status == UNDECIDED
    assert Guess(a=WITHOUT, margin=0.05).judge(solved).status == HELD
    assert Guess(a=WITH, margin=0.05).judge(solved).status == NOT_HELD
    assert Guess(a=WITH, margin=0.05, beats=True).judge(solved).status == HELD
    assert Diverges(a=WITH).judge(solved).status == NOT_HELD
    assert Diverges(a=WITH).judge(result(0.9, 0.9, diverged_at=7)).status == HELD
    assert Diverges(a=WITH, never=True).judge(solved).status == HELD


def test_too_few_seeds_are_not_run():
    whole = result(0.9, 0.5)
    few = replace(whole, records=tuple(r for r in whole.records if r["seed"] < MIN_SEEDS - 1))
    found = Reaches(a=WITH, bound=0.5).judge(few)
    assert found.status == NOT_RUN and "3 seeds" in found.numbers


def test_a_failing_control_takes_the_test_away():
    main, why = Reaches(a=WITH, bound=0.8), "because"
    good = Claim(id="t/c", sentence="s", test=main, control=Reaches(a=WITHOUT, bound=0.4), why=why)
    bad = replace(good, control=Reaches(a=WITHOUT, bound=0.6))
    open_ = replace(good, control=Reaches(a=WITHOUT, bound=0.5))
    seen = result(0.9, 0.5)
    assert [one.judge(seen).status for one in (good, bad, open_)] == [HELD, NO_TEST, UNDECIDED]
    assert "because" in good.judge(seen).control


@pytest.mark.parametrize(
    ("levels", "control", "reason"),
    [
        ((0.3, 0.1), 0.0, NOT_LEARNED),
        ((1.0, 1.0), 0.0, ALL_SOLVED),
        ((1.0, 1.0), 1.1, ALL_SOLVED),  # what the claim itself lacks is said first
        ((0.9, 0.5), 0.6, CONTROL_FAILS),
        ((0.9, 0.5), 0.4, ""),
    ],
)
def test_a_verdict_without_a_test_names_its_reason(levels, control, reason):
    """The test compares, the control asks for an accuracy of the model without positions."""
    check = Reaches(a=WITHOUT, bound=control)
    one = Claim(id="t/c", sentence="s", test=Ahead(a=WITH, b=WITHOUT), control=check, why="w")
    found = one.judge(result(*levels))
    assert found.reason == reason
    assert (found.status == NO_TEST) == bool(reason)


def test_of_several_tests_the_reason_that_steps_could_mend_comes_first():
    """One part compares models that solved the task, the other one that did not learn."""
    solved = Ahead(a=WITH, b=WITH)
    unlearned = Par(a=WITH, b=WITHOUT, within=0.05)
    seen = result(1.0, 0.1)
    for tests in ((solved, unlearned), (unlearned, solved)):
        assert Every(tests).judge(seen).reason == NOT_LEARNED
        assert Some((*tests, Reaches(a=WITH, bound=0.5))).judge(seen).reason == ""


REGISTERED = [name for name in EXPERIMENTS if STANDARD in get_experiment(name).profiles]
TRAINED = [name for name in REGISTERED if name != "principle-1"]


#: grids in which one seed tries the rates, as the evidence page says
LARGE = ("principle-4", "principle-5", "dsf-mqar", "heads", "spectra-mods", "scoreboard")


@pytest.mark.parametrize("name", TRAINED)
def test_the_protocol_holds_in_every_standard_plan(name):
    plan = get_experiment(name).plan(STANDARD)
    rates = sorted(plan.learning_rates)
    assert len(rates) >= 3
    assert all(2.9 < b / a < 3.4 for a, b in pairwise(rates))
    assert len(plan.seeds) >= MIN_SEEDS and len(plan.pilot) >= (1 if name in LARGE else 2)
    for _, run in plan.runs():
        assert run.train.validation >= 256
        assert run.train.stop_accuracy is not None or plan.by_loss


@pytest.mark.parametrize("name", ["parity", "Parity/ladder", "parity/a ladder", "parity/a--b", ""])
def test_an_id_of_another_form_is_refused(name):
    with pytest.raises(ValueError, match="a claim's id is topic/name"):
        Claim(id=name, sentence="s", test=Reaches(a=WITH, bound=0.5), why="w")


def test_a_digest_is_of_what_decides_and_not_of_the_words():
    """Test, threshold, control and the task's settings; not sentence, reason or other variants."""
    group = headline.Group("recall")
    (claim,), plan = group.registered_claims(), group.plan(STANDARD)
    same = replace(claim, sentence="a typo corrected", why="and said otherwise")
    assert digest(same, plan) == digest(claim, plan)
    first = claim.test
    while isinstance(first, Every):
        first = first.tests[0]
    others = [
        replace(claim, test=replace(first, by=first.by + 0.01)),
        replace(claim, test=replace(first, less=True)),
        replace(claim, test=replace(first, a=first.b)),
        replace(claim, test=Guess(a=first.a)),
        replace(claim, control=Reaches(a=first.a, bound=0.1234)),
    ]
    assert len({digest(one, plan) for one in (claim, *others)}) == 1 + len(others)

    def longer(these):
        variants = [
            replace(v, task=v.task.with_changes({"pairs": v.task.pairs - 1})) if v in these else v
            for v in plan.variants
        ]
        return replace(plan, variants=tuple(variants))

    compared = plan.those_with(claim.compared)
    rest = [one for one in plan.variants if one not in compared]
    assert compared and rest
    assert digest(claim, longer(compared)) != digest(claim, plan)
    assert digest(claim, longer(rest)) == digest(claim, plan)


def test_the_commit_of_the_first_run_is_kept(tmp_path, monkeypatch):
    group = headline.Group("recall")
    claims, file = group.registrations(), ResultFile(tmp_path / "standard.jsonl")
    first = registration({group.id: claims}, file)
    _, run = group.plan(STANDARD).runs()[0]
    file.append({**made_up(run, 0.5), **first})
    monkeypatch.setattr("coefdyn.lab.experiments.registration.code_revision", lambda: "later")
    assert registration({group.id: claims}, file) == first
    then = registered_in(file.records(), group.id)
    assert changed_since(claims, then) == []
    (name, *_) = claims
    assert changed_since({**claims, name: "another", "t/new": "x"}, then) == [name, "t/new"]
    assert registered_in(file.records(), "a third") is None
    assert changed_since(claims, None) == []


@pytest.mark.parametrize("name", headline.GROUPS)
def test_no_headline_claim_changed_after_its_first_run(name):
    group = headline.Group(name)
    first = group.registered(group.load(STANDARD))
    assert first is not None
    assert changed_since(group.registrations(), first) == []
