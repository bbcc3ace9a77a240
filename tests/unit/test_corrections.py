"""Withdrawn claims: which they are, and that no page counts them among the others."""

from __future__ import annotations

from coefdyn.lab.experiments import EXPERIMENTS, get_experiment, rule
from coefdyn.lab.experiments.corrections import withdrawn
from coefdyn.lab.experiments.headline_claims import HEADLINES
from coefdyn.lab.experiments.plan import STANDARD, Plan
from coefdyn.lab.tasks import ByteTextConfig


def test_every_claim_on_the_leaking_text_is_withdrawn_and_no_other_of_its_kind():
    leaking, gone = set(), set()
    for experiment in map(get_experiment, EXPERIMENTS):
        plan = experiment.plan(STANDARD)
        if not isinstance(plan, Plan):
            continue
        for claim in experiment.registered_claims():
            tasks = [one.task for one in plan.those_with(claim.compared)]
            if any(isinstance(one, ByteTextConfig) for one in tasks):
                leaking.add(claim.id)
            if "word for word" in withdrawn(claim.id):
                gone.add(claim.id)
    assert leaking == gone and len(gone) == 27


def test_no_headline_claim_is_withdrawn():
    assert not [one.id for one in HEADLINES if withdrawn(one.id)]


def test_a_withdrawn_claim_says_why_instead_of_its_numbers():
    experiment = get_experiment("spectra")
    verdicts = {one.id: one for one in experiment.claims(experiment.load(STANDARD))}
    gone = [one for one in verdicts.values() if one.status == rule.WITHDRAWN]
    assert len(gone) == 12 and all("withdrawn on 2026-11-25" in one.numbers for one in gone)
    assert verdicts["listops/memory-lru"].status == rule.UNDECIDED
