"""Claims as data: ids, digests, registration, and the protocol of the kept experiments."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest
from made_up_results import made_up

from coefdyn.lab.experiments import EXPERIMENTS, get_experiment
from coefdyn.lab.experiments.plan import STANDARD
from coefdyn.lab.experiments.rule import MIN_SEEDS
from coefdyn.lab.headline.claim import Claim, Diverges, Every, Reaches
from coefdyn.lab.headline.claims import HEADLINES
from coefdyn.lab.headline.group import (
    Group,
    changed_since,
    digest,
    registered_in,
    registration,
)
from coefdyn.lab.headline.runs import GROUPS
from coefdyn.lab.training import ResultFile

REGISTERED = [name for name in EXPERIMENTS if STANDARD in get_experiment(name).profiles]
TRAINED = [name for name in REGISTERED if name != "principle-1"]


#: grids in which one seed tries the rates, as the evidence page says
GRIDS = ("principle-4", "principle-5", "dsf-mqar", "heads", "spectra-mods")
LARGE = (*GRIDS, "scoreboard", "one-layer")


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
        Claim(id=name, sentence="s", test=Reaches(a={}, bound=0.5), why="w")


def test_a_digest_is_of_what_decides_and_not_of_the_words():
    """Test, threshold, control and the task's settings; not sentence, reason or other variants."""
    group = Group("recall")
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
        replace(claim, test=Diverges(a=first.a)),
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
    group = Group("recall")
    claims, file = group.registrations(), ResultFile(tmp_path / "standard.jsonl")
    first = registration(group.id, claims, file)
    _, run = group.plan(STANDARD).runs()[0]
    file.append({**made_up(run, 0.5), **first})
    monkeypatch.setattr("coefdyn.lab.headline.group.code_revision", lambda: "later")
    assert registration(group.id, claims, file) == first
    then = registered_in(file.records(), group.id)
    assert changed_since(claims, then) == []
    (name, *_) = claims
    assert changed_since({**claims, name: "another", "t/new": "x"}, then) == [name, "t/new"]
    assert registered_in(file.records(), "a third") is None
    assert changed_since(claims, None) == []


@pytest.mark.parametrize("name", GROUPS)
def test_a_headline_claim_that_changed_after_its_first_run_says_so(name):
    group = Group(name)
    first = group.registered(group.load(STANDARD))
    if first is None:
        assert not group.load(STANDARD).records, "kept runs say what was registered"
        return
    told = [one.id for one in HEADLINES if one.group == name and one.changed]
    assert changed_since(group.registrations(), first) == told
