"""Status of claims: deciding numbers of seeds, the table of all, the command that shows one."""

from __future__ import annotations

import json
import math
import re
import statistics
from dataclasses import replace

import numpy as np
import pytest
from made_up_results import result_of

from coefdyn.lab.__main__ import main
from coefdyn.lab.experiments import EXPERIMENTS, get_experiment, rule, second_look
from coefdyn.lab.experiments.plan import STANDARD
from coefdyn.lab.pages.standing import (
    MOST_SEEDS,
    reasons,
    repeats_markdown,
    standings,
)

EXPERIMENT = get_experiment("heads")
(NAME,) = second_look.CLAIMS["heads"]
(CLAIM,) = [one for one in EXPERIMENT.registered_claims() if one.id == NAME]
HERE = dict(CLAIM.test.compared[0])
WITHIN = CLAIM.test.within


@pytest.fixture
def only(monkeypatch):
    """Leave one experiment."""

    def leave(name):
        monkeypatch.setattr("coefdyn.lab.experiments.EXPERIMENTS", {name: EXPERIMENTS[name]})

    return leave


def kept(folder, off, base=0.8):
    """The claim's standing by a result file in which all models are at ``base`` and its first is
    ``off`` from it, seed by seed.
    """

    def score(facets, run):
        return base + (off[run.seed] if facets == HERE else 0.0), None

    plan = replace(EXPERIMENT.plan(STANDARD), again={})
    whole = result_of(EXPERIMENT, STANDARD, score, plan=plan)
    labels = {run.key: variant.facets for variant, run in whole.plan.runs()}
    file = EXPERIMENT.file(STANDARD, folder)
    for record in whole.records:
        file.append({**record, "variant": labels[record["key"]]})
    return next(one for one in standings(folder) if one.claim.id == NAME)


@pytest.mark.parametrize("off", [(-0.1, 0.12, -0.06, 0.1), (0.02, 0.09, 0.06, 0.01)])
def test_the_number_is_the_first_whose_interval_leaves_the_threshold(tmp_path, only, off):
    only("heads")
    needed = kept(tmp_path, off).seeds_needed()
    mean, spread = statistics.fmean(off), statistics.stdev(off)

    def half(count):
        return rule.t_quantile(count - 1) * spread / math.sqrt(count)

    assert needed is not None and needed > 4
    assert abs(mean) + half(needed) < WITHIN <= abs(mean) + half(needed - 1)


def test_at_the_threshold_no_number_of_seeds_decides(tmp_path, only):
    only("heads")
    one = kept(tmp_path, (WITHIN - 0.02, WITHIN + 0.02, WITHIN - 0.01, WITHIN + 0.01))
    assert one.seeds_needed() is None
    assert f"stayed: more than {MOST_SEEDS}" in one.lines()[4]


def test_a_decided_claim_is_not_asked(tmp_path, only):
    only("heads")
    one = kept(tmp_path, (0.18, 0.19, 0.18, 0.17))
    assert one.seeds_needed() is None and "would decide" not in "\n".join(one.lines())


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


def test_claims_without_a_test_are_counted_by_reason(tmp_path, only):
    """Three maps that solve the task; then the same three at .7, where all of them are compared."""
    only("dsf-normalizers")
    experiment = get_experiment("dsf-normalizers")

    def keep(level, folder):
        file = experiment.file(STANDARD, folder)
        for one in result_of(experiment, STANDARD, lambda facets, run: (level, None)).records:
            file.append(one)
        return folder

    solved = keep(1.0, tmp_path / "solved")
    assert reasons(solved) == {
        rule.NOT_LEARNED: 0,
        rule.ALL_SOLVED: 3,
        rule.NEVER_OCCURS: 0,
        rule.CONTROL_FAILS: 0,
    }
    assert sum(reasons(keep(0.7, tmp_path / "apart")).values()) == 0


def test_the_command_tells_the_claims_that_are_named(capsys):
    assert main(["claims", "parity/negative-eigenvalue", "spectra/none"]) == 1
    printed = capsys.readouterr()
    assert printed.out == "" and "no claim is called 'spectra/none'" in printed.err
    assert main(["claims", "parity/lader"]) == 1
    assert "did you mean 'parity/ladder'?" in capsys.readouterr().err
    assert main(["claims", "listops/memory-s4d", "board/long-memory"]) == 0
    first, second = re.split(r"\n(?=\S)", capsys.readouterr().out)
    assert first.startswith("listops/memory-s4d (spectra): ListOps, S4D: ")
    assert "\n  no test because: the control fails\n" in first
    assert "\n  first look: undecided: " in second
    assert second.rstrip().endswith("registered in commit d70cd149c29d, changed or added since")


def test_repeats_are_counted_by_outcome_and_machine(tmp_path):
    assert repeats_markdown(tmp_path).startswith("None so far: `python -m coefdyn.lab repeat")
    machines = [("one", "one"), ("one", "one"), ("one", "other"), ("one", "other")]
    statuses = ["equal", "differs", "within the interval", "equal"]
    rows = [
        {"status": status, "kept_by": {"device": was}, "again_by": {"device": now}}
        for status, (was, now) in zip(statuses, machines, strict=True)
    ]
    (tmp_path / "standard.json").write_text(json.dumps(rows), encoding="utf-8")
    told = repeats_markdown(tmp_path)
    assert "Of 4 repeated runs 2 gave the same" in told and "and 1 another one" in told
    assert "1 an accuracy within the interval" in told and "1 of 2 were equal" in told
