"""Withdrawn claims: which they are, and that no page counts them among the others."""

from __future__ import annotations

import pytest

from coefdyn.lab.experiments import EXPERIMENTS, get_experiment, rule
from coefdyn.lab.experiments.corrections import leaks, withdrawn
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


@pytest.mark.parametrize("name", ["spectra", "spectra-mods", "dsf-table-1"])
def test_no_figure_shows_runs_on_the_withdrawn_text(name):
    experiment = get_experiment(name)
    result = experiment.load(STANDARD)
    assert any(leaks(one.facets["task"], STANDARD) for one in result.variants)
    drawn = experiment.figure(result)
    titles = [axes.get_title(place) for axes in drawn.axes for place in ("left", "center")]
    assert any(titles) and not any("language" in title for title in titles)
    assert not leaks("language", "paper")


def test_no_headline_claim_is_withdrawn():
    assert not [one.id for one in HEADLINES if withdrawn(one.id)]


def test_a_withdrawn_claim_says_why_instead_of_its_numbers():
    experiment = get_experiment("spectra")
    verdicts = {one.id: one for one in experiment.claims(experiment.load(STANDARD))}
    gone = [one for one in verdicts.values() if one.status == rule.WITHDRAWN]
    assert len(gone) == 12 and all("withdrawn on 2026-11-25" in one.numbers for one in gone)
    assert verdicts["listops/memory-lru"].status == rule.UNDECIDED
