"""Status of claims: reasons without a test, repeats, and the command that shows one."""

from __future__ import annotations

import json
import re

import pytest
from made_up_results import result_of

from coefdyn.lab.__main__ import main
from coefdyn.lab.experiments import EXPERIMENTS, get_experiment, rule
from coefdyn.lab.experiments.plan import STANDARD
from coefdyn.lab.pages.standing import (
    reasons,
    repeats_markdown,
)


@pytest.fixture
def only(monkeypatch):
    """Leave one experiment."""

    def leave(name):
        monkeypatch.setattr("coefdyn.lab.experiments.EXPERIMENTS", {name: EXPERIMENTS[name]})

    return leave


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
