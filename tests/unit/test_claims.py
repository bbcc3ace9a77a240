"""Claims as data: what they pick, when they make no test, what their control does."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest
from made_up_results import made_up, result_of

from coefdyn.analysis.spectra import EDGES
from coefdyn.lab.experiments import EXPERIMENTS, get_experiment, second_look
from coefdyn.lab.experiments.claim import (
    Ahead,
    Claim,
    Diverges,
    Every,
    Guess,
    Par,
    Reaches,
    Some,
    Steadier,
)
from coefdyn.lab.experiments.plan import STANDARD
from coefdyn.lab.experiments.principle_1 import DESIGNS
from coefdyn.lab.experiments.registration import (
    before_ids,
    changed_since,
    digest,
    registered_in,
    registration,
)
from coefdyn.lab.experiments.result import Result
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


def test_spread_is_tested_only_between_models_that_learned():
    def score(facets, run):
        jitter = JITTER[run.seed]
        return 0.8 + (jitter if facets["positions"] == "decay" else 20 * jitter), None

    wild = result_of(EXPERIMENT, STANDARD, score)
    assert Steadier(a=WITH, b=WITHOUT).judge(wild).status in (HELD, UNDECIDED)
    assert Steadier(a=WITH, b=WITHOUT).judge(result(0.8, 0.1)).status == NO_TEST


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


def timed(seconds: dict[str, float], draws: int = 4) -> Result:
    """Principle 1 with times of L^p, p by design; every further draw is a little steeper."""
    experiment = get_experiment("principle-1")
    plan = experiment.plan(STANDARD).with_seeds(range(draws))
    records = []
    for _, timing in plan.runs():
        power = seconds[timing.design] + 0.01 * timing.seed
        final = {"seconds": 1e-9 * timing.length**power}
        records.append({"config": vars(timing), "seed": timing.seed, "final": final})
    return Result(experiment.id, STANDARD, plan, tuple(records))


@pytest.mark.parametrize(
    ("powers", "draws", "expected"),
    [
        ((2.0, 1.9, 1.0), 4, [HELD, HELD, HELD]),
        ((1.0, 1.59, 2.0), 4, [NOT_HELD, UNDECIDED, NOT_HELD]),
        ((2.0, 2.0, 1.0), 3, [NOT_RUN] * 3),
    ],
)
def test_exponents_of_time_are_judged_draw_by_draw(powers, draws, expected):
    seen = timed(dict(zip(DESIGNS, powers, strict=True)), draws)
    claims = get_experiment("principle-1").registered_claims()
    assert [claim.judge(seen).status for claim in claims] == expected


def test_a_peak_that_was_there_before_training_is_no_test():
    experiment = get_experiment("spectra")
    (claim,) = [c for c in experiment.registered_claims() if c.id == "listops/memory-s4d"]
    near_one = EDGES.index(0.95)

    def histogram(at_one: float) -> list:
        shares = [0.0] * (len(EDGES) - 1)
        shares[near_one], shares[5] = at_one, 1 - at_one
        return [{"share": shares, "deviation": shares}] * 2

    def judged(before: float, after: float) -> str:
        moduli = {"initial": histogram(before), "trained": histogram(after)}
        seen = result_of(experiment, STANDARD, lambda *_: (0.5, None), lambda _: {"moduli": moduli})
        return claim.judge(seen).status

    assert judged(0.1, 0.9) == HELD
    assert judged(0.1, 0.2) == NOT_HELD
    assert judged(0.9, 0.9) == NO_TEST


@pytest.mark.parametrize("name", TRAINED)
def test_registered_claims_name_planned_variants_and_differ(name):
    experiment = get_experiment(name)
    claims = experiment.registered_claims()
    assert claims and len(set(experiment.registrations().values())) == len(claims)
    seen = result_of(experiment, STANDARD, lambda facets, run: (0.5 + 0.01 * run.seed, None))
    for verdict in experiment.claims(seen):
        assert verdict.status != NOT_RUN, verdict
        assert verdict.test and verdict.control


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


def test_every_claim_has_an_id_of_its_own():
    ids = [one.id for name in EXPERIMENTS for one in get_experiment(name).registered_claims()]
    assert len(ids) == len(set(ids)) > 0
    assert max(map(len, ids)) < 45
    listed = [one for those in second_look.CLAIMS.values() for one in those]
    assert set(listed) <= set(ids) and len(set(listed)) == len(listed)


@pytest.mark.parametrize("name", ["parity", "Parity/ladder", "parity/a ladder", "parity/a--b", ""])
def test_an_id_of_another_form_is_refused(name):
    with pytest.raises(ValueError, match="a claim's id is topic/name"):
        Claim(id=name, sentence="s", test=Reaches(a=WITH, bound=0.5), why="w")


def test_a_digest_is_of_what_decides_and_not_of_the_words():
    """Test, threshold, control and the task's settings; not sentence, reason or other variants."""
    claim = EXPERIMENT.registered_claims()[-1]
    plan = EXPERIMENT.plan(STANDARD)
    same = replace(claim, sentence="a typo corrected", why="and said otherwise")
    assert digest(same, plan) == digest(claim, plan)
    others = [
        replace(claim, test=replace(claim.test, bound=claim.test.bound + 0.01)),
        replace(claim, test=replace(claim.test, less=True)),
        replace(claim, test=replace(claim.test, a=WITH)),
        replace(claim, test=Guess(a=claim.test.a)),
        replace(claim, control=None),
        replace(claim, control=replace(claim.control, bound=0.5)),
    ]
    assert len({digest(one, plan) for one in (claim, *others)}) == 1 + len(others)

    def longer(these):
        variants = [
            replace(v, task=v.task.with_changes({"seq_len": v.task.seq_len + 2}))
            if v in these
            else v
            for v in plan.variants
        ]
        return replace(plan, variants=tuple(variants))

    compared = plan.those_with(claim.compared)
    rest = [one for one in plan.variants if one not in compared]
    assert compared and rest
    assert digest(claim, longer(compared)) != digest(claim, plan)
    assert digest(claim, longer(rest)) == digest(claim, plan)


def test_the_commit_of_the_first_run_is_kept(tmp_path, monkeypatch):
    claims = EXPERIMENT.registrations()
    file = ResultFile(tmp_path / "standard.jsonl")
    first = registration({EXPERIMENT.id: claims}, file)
    _, run = EXPERIMENT.plan(STANDARD).runs()[0]
    file.append({**made_up(run, 0.5), **first})
    monkeypatch.setattr("coefdyn.lab.experiments.registration.code_revision", lambda: "later")
    assert registration({EXPERIMENT.id: claims}, file) == first
    then = registered_in(file.records(), EXPERIMENT.id, shared=False)
    assert changed_since(claims, then) == []
    (name, *_) = claims
    assert changed_since({**claims, name: "another", "t/new": "x"}, then) == [name, "t/new"]


def test_a_file_that_two_experiments_share_keeps_the_claims_of_both(tmp_path, monkeypatch):
    """Whichever of the two is run first, and although the claims of one change later."""
    one, two = get_experiment("principle-2.1"), get_experiment("principle-2.2")
    revision = "coefdyn.lab.experiments.registration.code_revision"
    monkeypatch.setattr(revision, lambda: "first")
    file = two.file(STANDARD, tmp_path)
    both = two._registration(STANDARD, file)
    assert both["registered"] == {one.id: "first", two.id: "first"}
    variant, run = two.plan(STANDARD).runs()[0]
    file.append({**made_up(run, 0.5), "variant": variant.facets, **both})
    monkeypatch.setattr(revision, lambda: "later")
    assert one._registration(STANDARD, file) == both
    for experiment in (one, two):
        then = registered_in(file.records(), experiment.id, shared=True)
        assert then is not None and then.commit == "first"
        assert changed_since(experiment.registrations(), then) == []
    name = one.registered_claims()[0].id
    then = registered_in(file.records(), one.id, shared=True)
    assert changed_since({name: "another"}, then) == [name]
    assert registered_in(file.records(), "a third", shared=True) is None


def test_digests_that_may_be_another_experiments_lead_to_no_claim_of_change():
    """A record of a shared file from before its digests were kept by experiment."""
    claims = get_experiment("principle-2.1").registrations()
    record = {"registered": "abc", "claims": ["0" * 12]}
    assert registered_in([record], "principle-2.1", shared=True) is None
    assert changed_since(claims, None) == []
    told = registered_in([record], "principle-6", shared=False)
    assert changed_since(claims, told) == list(claims)


def test_digests_from_before_the_ids_are_those_of_the_kept_files():
    """All but those of principle-2.1, whose file has the digests of principle-2.2 alone."""
    for name, known in before_ids().items():
        experiment = get_experiment(name)
        records = experiment.load(STANDARD).records
        assert {one["registered"] for one in records} == {known.commit}
        kept = {one for record in records for one in record["claims"]}
        then = {old for old, _ in known.digests.values()}
        assert len(then) == len(known.digests)
        assert then <= kept if name != "principle-2.1" else not then & kept
        assert known.digests.keys() <= experiment.registrations().keys()


def test_the_claims_that_changed_since_their_registration_are_known():
    """The list as it stood before claims had ids."""
    changed = {}
    for name in EXPERIMENTS:
        experiment = get_experiment(name)
        first = experiment.registered(experiment.load(STANDARD))
        assert first is not None
        changed[name] = changed_since(experiment.registrations(), first)
    assert {name: len(ids) for name, ids in changed.items() if ids} == {
        "principle-2": 3,
        "principle-4": 1,
        "principle-5-lm": 4,
        "dsf-mqar": 1,
        "spectra-mods": 13,
        "scoreboard": 3,
    }
    assert changed["principle-4"] == ["parity/longer-texts"]
    assert changed["scoreboard"] == [
        "board/long-memory",
        "board/s3-deltaproduct",
        "board/s3-deltaproduct-ahead",
    ]
