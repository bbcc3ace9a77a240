"""What would decide a claim is found from its seeds, and only undecided claims are asked."""

from __future__ import annotations

import math
import statistics
from dataclasses import replace

import numpy as np
import pytest
from made_up_results import result_of

from coefdyn.lab.experiments import get_experiment, rule, second_look
from coefdyn.lab.experiments.claim import Diverges, Every, Guess, Reaches
from coefdyn.lab.experiments.measure import Measure
from coefdyn.lab.experiments.plan import STANDARD
from coefdyn.lab.pages.undecided import MOST_SEEDS, undecided, undecided_markdown

EXPERIMENT = get_experiment("heads")
CLAIMS = EXPERIMENT.registered_claims()
(SENTENCE,) = second_look.CLAIMS["heads"]
(CLAIM,) = [one for one in CLAIMS if one.sentence == SENTENCE]
HERE = dict(CLAIM.test.compared[0])
WITHIN = CLAIM.test.within


def kept(folder, off, base=0.8):
    """A result file in which all models are at ``base`` and the claim's first is ``off`` from it,
    seed by seed.
    """

    def score(facets, run):
        return base + (off[run.seed] if facets == HERE else 0.0), None

    plan = replace(EXPERIMENT.plan(STANDARD), again={})
    whole = result_of(EXPERIMENT, STANDARD, score, plan=plan)
    labels = {run.key: variant.facets for variant, run in whole.plan.runs()}
    file = EXPERIMENT.file(STANDARD, folder)
    for record in whole.records:
        file.append({**record, "variant": labels[record["key"]]})
    return folder


def of(folder):
    return {one.claim: one for one in undecided(folder)}


@pytest.mark.parametrize("off", [(-0.1, 0.12, -0.06, 0.1), (0.02, 0.09, 0.06, 0.01)])
def test_the_number_is_the_first_whose_interval_leaves_the_threshold(tmp_path, off):
    needed = of(kept(tmp_path, off))[SENTENCE].needed
    mean, spread = statistics.fmean(off), statistics.stdev(off)

    def half(count):
        return rule.t_quantile(count - 1) * spread / math.sqrt(count)

    assert needed is not None and needed > 4
    assert abs(mean) + half(needed) < WITHIN <= abs(mean) + half(needed - 1)


def test_at_the_threshold_no_number_of_seeds_decides(tmp_path):
    off = (WITHIN - 0.02, WITHIN + 0.02, WITHIN - 0.01, WITHIN + 0.01)
    folder = kept(tmp_path, off)
    assert of(folder)[SENTENCE].needed is None
    told = undecided_markdown(folder)
    assert f"more than {MOST_SEEDS}" in told and " with more." in told


def test_a_decided_claim_is_not_asked(tmp_path):
    assert SENTENCE not in of(kept(tmp_path, (0.18, 0.19, 0.18, 0.17)))


def test_seeds_that_jump_are_told_apart(tmp_path):
    folder = kept(tmp_path, (0.19, -0.4, 0.18, 0.19))
    one = of(folder)[SENTENCE]
    assert one.jumps and one.reached == ((3, 4), (0, 4))
    assert "its test; seeds that reach 0.9: 3 of 4, 0 of 4" in undecided_markdown(folder)
    calm = of(kept(tmp_path / "calm", (0.09, -0.09, 0.08, -0.08)))[SENTENCE]
    assert not calm.jumps


def test_without_runs_nothing_is_undecided(tmp_path):
    assert undecided_markdown(tmp_path) == "No claim that was run is undecided."


def test_an_interval_for_more_seeds_has_their_mean_and_deviation():
    values = [0.1, 0.4, 0.2, 0.5]
    doubled = values * 5
    found = rule.t_interval(values, count=20)
    exact = rule.t_interval(doubled)
    # the deviation of 20 values that are five times these four divides by 19 and not by 3
    wider = statistics.stdev(values) / statistics.stdev(doubled)
    assert found.mean == pytest.approx(exact.mean)
    assert found.high - found.low == pytest.approx(wider * (exact.high - exact.low))


def test_a_bootstrap_for_more_seeds_is_narrower():
    rows = np.random.default_rng(0).normal(size=(8, 2))

    def spread(table):
        return float(table[:, 0].std() - table[:, 1].std())

    few, many = (rule.bootstrap_interval(rows, spread, count=count) for count in (None, 80))
    assert few.mean == many.mean
    assert (many.high - many.low) < 0.5 * (few.high - few.low)


def test_the_page_counts_what_is_kept():
    found = list(undecided())
    told = undecided_markdown()
    assert told.startswith(f"{len(found)} claims are undecided: ")
    for one in found:
        assert one.needed is None or one.seeds < one.needed <= MOST_SEEDS


def test_seeds_that_reach_a_score_are_told_of_accuracies_only():
    here, share = {"n": "8"}, Measure("share", lambda outcome: [0.0])
    assert Reaches(a=here, bound=0.9).of_accuracy
    assert not Reaches(a=here, bound=0.9, measure=share).of_accuracy
    assert not Diverges(a=here).of_accuracy
    assert Every((Reaches(a=here, bound=0.9, measure=share), Guess(a=here))).of_accuracy
    for one in undecided():
        assert one.by_control or not one.jumps or "accuracy" in words_of(one)


def words_of(one):
    claims = get_experiment(one.experiment).registered_claims()
    return next(claim.test.words for claim in claims if claim.sentence == one.claim)
