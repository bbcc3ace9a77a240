"""A second look: more seeds for undecided claims of the list, and nothing else moves."""

from __future__ import annotations

from dataclasses import replace

import pytest
from made_up_results import made_up, result_of

from coefdyn.lab.__main__ import main
from coefdyn.lab.experiments import get_experiment, second_look
from coefdyn.lab.experiments.plan import STANDARD
from coefdyn.lab.experiments.rule import HELD, NOT_HELD, UNDECIDED, WITHDRAWN
from coefdyn.lab.pages.evidence import registered_words
from coefdyn.lab.pages.standing import standings

EXPERIMENT = get_experiment("heads")
CLAIMS = EXPERIMENT.registered_claims()
(NAME,) = second_look.CLAIMS["heads"]
(TWICE,) = [one for one in CLAIMS if one.id == NAME]
#: what that claim compares
HERE, THERE = (dict(facets) for facets in TWICE.test.compared)
PLAN = second_look.planned(EXPERIMENT.plan(STANDARD), "heads", CLAIMS)


def result(early: dict[int, float], later: float, missing: int | None = None):
    """All models are at .8; the claim's first one is off by ``early`` and, at seeds of the second
    look, by ``later``. ``missing``: a seed without records.
    """

    def score(facets, run):
        off = early.get(run.seed, later)
        return 0.8 + (off if facets == HERE else 0.0), None

    found = result_of(EXPERIMENT, STANDARD, score, plan=PLAN)
    kept = tuple(one for one in found.records if one["seed"] != missing)
    return replace(found, records=kept)


def verdict(found, name=NAME):
    (one,) = [one for one in EXPERIMENT.claims(found) if one.id == name]
    return one


def standing(folder):
    """The claim of the list, from the result files of a folder."""
    return next(one for one in standings(folder) if one.claim.id == NAME)


WILD = {0: -0.15, 1: 0.15, 2: -0.1, 3: 0.1}
CLEAR = {0: 0.2, 1: 0.2, 2: 0.2, 3: 0.2}


def test_only_the_models_of_listed_claims_have_further_seeds():
    assert set(PLAN.again) == {", ".join(HERE.values()), ", ".join(THERE.values())}
    for variant, run in PLAN.runs():
        assert run.seed < 4 or variant.name in PLAN.again
    assert PLAN.with_seeds((5,)).again == {}
    assert second_look.planned(PLAN, "principle-1", CLAIMS).again == {}


def test_an_undecided_claim_is_judged_anew_with_all_its_seeds():
    ((first, second),) = second_look.looks("heads", [TWICE], result(WILD, 0.0))
    assert (first.status, first.looks) == (UNDECIDED, 1)
    assert second is not None and (second.status, second.looks) == (HELD, 2)
    assert "(12 seeds)" in second.numbers
    assert second.numbers.endswith("second look, 95 % intervals")


def test_far_off_later_seeds_refute():
    calm = {seed: off / 3 for seed, off in WILD.items()}
    found = verdict(result(calm, 0.2))
    assert (found.status, found.looks) == (NOT_HELD, 2), found.numbers


def test_while_a_seed_is_missing_the_first_look_stands():
    found = verdict(result(WILD, 0.0, missing=second_look.SEEDS[-1]))
    assert (found.status, found.looks) == (UNDECIDED, 1)
    assert "(4 seeds)" in found.numbers


def test_what_four_seeds_decided_is_not_opened_again():
    found = verdict(result(CLEAR, 0.0))
    assert (found.status, found.looks) == (NOT_HELD, 1)


def test_a_claim_off_the_list_keeps_to_four_seeds_of_a_model_that_has_more():
    others = [one for one in CLAIMS if one is not TWICE and THERE in one.test.compared]
    assert others, "the list's models serve other claims"
    for one in others:
        assert "12 seeds" not in verdict(result(WILD, 0.0), one.id).numbers


def test_further_seeds_on_disk_are_loaded_and_not_called_cut(tmp_path):
    whole = result(WILD, 0.0)
    labels = {run.key: variant.facets for variant, run in whole.plan.runs()}
    file = EXPERIMENT.file(STANDARD, tmp_path)
    for record in whole.records:
        file.append({**record, "variant": labels[record["key"]]})
    seen = EXPERIMENT.load(STANDARD, out=tmp_path)
    assert seen.cut == {} and seen.missing == 0
    assert "seeds 0, 1, 2, 3 and, for 2 variants of a second look, 8 more, " in seen.caption()
    assert verdict(seen).looks == 2
    one = standing(tmp_path)
    assert one.second is not None and one.verdict.status == HELD
    assert "  first look: undecided: " in "\n".join(one.lines())


def test_a_users_further_seed_beside_those_of_the_second_look(tmp_path):
    whole = result(WILD, 0.0)
    plan = whole.plan.with_seeds((7,))
    labels = {run.key: variant.facets for variant, run in whole.plan.runs()}
    file = EXPERIMENT.file(STANDARD, tmp_path)
    for record in whole.records:
        file.append({**record, "variant": labels[record["key"]]})
    for variant, run in plan.runs():
        file.append({**made_up(run, 0.8), "variant": variant.facets})
    seen = EXPERIMENT.load(STANDARD, out=tmp_path)
    assert 7 in seen.plan.seeds and seen.plan.again == PLAN.again


@pytest.mark.parametrize("name", second_look.CLAIMS)
def test_the_list_names_claims_that_four_kept_seeds_leave_undecided(name):
    experiment = get_experiment(name)
    claims = experiment.registered_claims()
    seen = experiment.load(STANDARD)
    found = {first.id: first.status for first, _ in second_look.looks(name, claims, seen)}
    for one in second_look.CLAIMS[name]:
        assert found[one] in (UNDECIDED, WITHDRAWN)
    if any(one["seed"] in second_look.SEEDS for one in seen.records):
        assert "second look stood in commit" in registered_words(experiment, seen)


def test_a_run_of_some_variants_tells_the_whole_file(tmp_path, capsys):
    whole = result(WILD, 0.0)
    labels = {run.key: variant.facets for variant, run in whole.plan.runs()}
    file = EXPERIMENT.file(STANDARD, tmp_path)
    for record in whole.records:
        file.append({**record, "variant": labels[record["key"]]})
    command = ["run", "heads", "--profile", STANDARD, "--only", "n=8", "--out", str(tmp_path)]
    main([*command, "--device", "cpu", "--workers", "1", "--quiet", "--budget", "0"])
    told = capsys.readouterr().out
    assert f"profile standard: {len(whole.records)} runs" in told
    assert "not run" not in told and "not yet run" not in told
