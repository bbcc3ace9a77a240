"""The book's generated tables: from result files alone, honest about what has not been run."""

from __future__ import annotations

import json
import re
from collections import Counter

import pytest
from made_up_results import result_of

from coefdyn.lab.experiments import EXPERIMENTS, get_experiment, ledger
from coefdyn.lab.experiments.result import Verdict, core_hours
from coefdyn.lab.experiments.rule import HELD, NO_TEST, NOT_HELD, NOT_RUN, UNDECIDED, WITHDRAWN
from coefdyn.lab.pages.evidence import (
    claims_markdown,
    decision_markdown,
    load_results,
    others_markdown,
    repeats_markdown,
    runtimes_markdown,
)
from coefdyn.lab.pages.shares import shares_markdown


def rows_of(table: str) -> list[list[str]]:
    """The cells of every row below the head."""
    lines = table.splitlines()
    assert set(lines[1]) == {"|", "-"}
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_without_results_no_claim_is_decided(name, tmp_path):
    results = load_results(name, tmp_path)
    assert {result.records for result in results.values()} == {()}
    text = claims_markdown(get_experiment(name), results)
    assert "Not yet run at the standard size: `python -m coefdyn.lab run" in text
    rows = rows_of(text.split("\n\n", 1)[1])
    assert rows and {row[1] for row in rows} == {"not run"}
    assert all(row[2] and row[3] for row in rows), "test and control stand there before"


def test_what_no_experiment_covers_says_why():
    rows = rows_of(others_markdown())
    sources = {get_experiment(name).source for name in EXPERIMENTS}
    assert rows and all(len(row) == 3 and row[2].startswith("no ") for row in rows)
    assert not sources & {row[0] for row in rows}


def test_run_times_add_up():
    assert "Not yet measured" in runtimes_markdown(None)
    table = runtimes_markdown({"seconds": {"quick": {"b": 1.25, "a": 2.0}}})
    assert [row[1] for row in rows_of(table)] == ["2.0", "1.2", "**3.2**"]


def test_without_runs_a_chapter_names_the_command(tmp_path):
    for name in EXPERIMENTS:
        words = decision_markdown(get_experiment(name), load_results(name, tmp_path))
        assert "**Not tested yet**, because" in words and "--profile standard`" in words


@pytest.mark.parametrize(
    ("verdicts", "word"),
    [
        ("hhu", "Supported"),
        ("hu", "Supported"),
        ("huu", "Mostly undecided"),
        ("huu-", "Mostly undecided so far"),
        ("hnuu", "Supported in part"),
        ("nuu", "Undecided"),
        ("nnu", "Contradicted"),
        ("tt", "No test"),
        ("ww", "Withdrawn"),
        ("nw", "Contradicted"),
    ],
)
def test_the_word_for_a_statement(verdicts, word, monkeypatch):
    experiment = get_experiment("dsf-normalizers")
    statuses = {
        "h": HELD,
        "n": NOT_HELD,
        "u": UNDECIDED,
        "t": NO_TEST,
        "-": NOT_RUN,
        "w": WITHDRAWN,
    }
    found = [Verdict("a claim", statuses[letter], "0.5") for letter in verdicts]
    monkeypatch.setattr(type(experiment), "reading", "")
    monkeypatch.setattr(type(experiment), "claims", lambda self, result: found)
    some = result_of(experiment, "standard", lambda facets, run: (0.5, None))
    assert decision_markdown(experiment, {"standard": some}).startswith(f"**{word}**, because ")


def test_a_run_that_two_experiments_share_counts_once() -> None:
    """Principle 2.2 reads Principle 2.1's file, which holds copies of Principle 2's runs."""
    names = ("principle-2", "principle-2.1", "principle-2.2")
    first, second, third = (get_experiment(name).load("standard") for name in names)
    assert core_hours(third) > 0
    assert core_hours(second, third) == pytest.approx(core_hours(second))
    together, apart = core_hours(first, second), core_hours(first) + core_hours(second)
    # a run that was trained twice has two times, and counts twice
    there = {(one["key"], one["timestamp"]) for one in first.records}
    copies = [one for one in second.records if (one["key"], one["timestamp"]) in there]
    copied = sum(one["wall_s"] for one in copies) / 3600
    assert copied > 0.5
    assert together == pytest.approx(apart - copied)


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


def test_the_ledger_names_its_commit_and_keeps_every_id_once():
    assert re.fullmatch("[0-9a-f]{40}", ledger.judged_by())
    found = [one for name in EXPERIMENTS for one in ledger.verdicts(name)]
    assert len(found) == len({one.id for one in found}) == 182
    assert all(one.claim and one.test and one.control for one in found)
    assert {one.status for one in found} <= {HELD, NOT_HELD, UNDECIDED, NO_TEST, WITHDRAWN}
    assert all(bool(one.reason) == (one.status == NO_TEST) for one in found)


def test_kept_verdicts_and_their_counts_stand_below_the_reading():
    experiment = get_experiment("principle-6")
    results = load_results("principle-6")
    told = decision_markdown(experiment, results)
    counts = Counter(one.status for one in ledger.verdicts("principle-6"))
    assert f"({counts[HELD]} held, {counts[NOT_HELD]} not held" in told
    assert claims_markdown(experiment, results).startswith("Registered in commit ")


def test_outside_the_repository_the_ledger_is_empty(tmp_path, monkeypatch):
    monkeypatch.setattr(ledger, "data_folder", lambda: tmp_path)
    monkeypatch.setattr(ledger, "_kept", ledger._kept.__wrapped__)
    assert ledger.judged_by() == "" and ledger.verdicts("principle-6") == []
    plan = get_experiment("heads").plan("standard")
    assert ledger.planned(plan, "heads").again == {}


def test_both_counts_of_shares_stand_side_by_side():
    experiment = get_experiment("principle-2.1")
    told = shares_markdown(experiment, experiment.load("standard"))
    assert "psi_relu | 0.458 | 0.499 | 0.977 |" in told
    assert (
        "every feature map sets fewer coefficients near zero than exp | not held | held |" in told
    )
    assert "less accurate than exp |" not in told  # that one counts no coefficient
