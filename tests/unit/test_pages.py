"""The book's generated tables: from result files alone, honest about what has not been run."""

from __future__ import annotations

import json
import re

import pytest

from coefdyn.lab.experiments import EXPERIMENTS, get_experiment, ledger
from coefdyn.lab.experiments.result import core_hours
from coefdyn.lab.experiments.rule import HELD, NO_TEST, NOT_HELD, UNDECIDED, WITHDRAWN
from coefdyn.lab.pages.evidence import (
    ledger_markdown,
    load_results,
    others_markdown,
    repeats_markdown,
    runtimes_markdown,
    show_kept,
)


def rows_of(table: str) -> list[list[str]]:
    """The cells of every row below the head."""
    lines = table.splitlines()
    assert set(lines[1]) == {"|", "-"}
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


def test_what_no_experiment_covers_says_why():
    rows = rows_of(others_markdown())
    sources = {get_experiment(name).source for name in EXPERIMENTS}
    assert rows and all(len(row) == 3 and row[2].startswith("no ") for row in rows)
    assert not sources & {row[0] for row in rows}


def test_run_times_add_up():
    assert "Not yet measured" in runtimes_markdown(None)
    table = runtimes_markdown({"seconds": {"quick": {"b": 1.25, "a": 2.0}}})
    assert [row[1] for row in rows_of(table)] == ["2.0", "1.2", "**3.2**"]


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_without_runs_a_chapter_names_the_command(name, tmp_path, monkeypatch):
    results = load_results(name, tmp_path)
    assert {result.records for result in results.values()} == {()}
    (said,) = markdown_of(monkeypatch, lambda: show_kept(get_experiment(name), results))
    assert said.startswith("Not yet run at the standard size: `python -m coefdyn.lab run")


@pytest.mark.parametrize("name", ["principle-2", "principle-4", "dsf-mqar", "spectra"])
def test_a_chapter_shows_numbers_and_no_word_of_a_verdict(name, monkeypatch):
    results = load_results(name)
    said = markdown_of(monkeypatch, lambda: show_kept(get_experiment(name), results))
    *_, numbers = said
    assert re.search(r"\| 0\.\d{3} \[-?\d\.\d{3}, \d\.\d{3}\] \| \d of \d \|", numbers)
    words = "held|undecided|no test|supported|contradicted|withdrawn"
    assert not re.search(words, "".join(said), re.IGNORECASE)


def markdown_of(monkeypatch, display_all) -> list[str]:
    """The Markdown that a page displays."""
    import IPython.display

    said: list[str] = []

    def display(*things):
        said.extend(one.data for one in things if isinstance(one, IPython.display.Markdown))

    monkeypatch.setattr(IPython.display, "display", display)
    display_all()
    return said


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


def test_the_ledger_is_one_table_with_every_claim_once():
    rows = rows_of(ledger_markdown())
    kept = {one.id: one for name in EXPERIMENTS for one in ledger.verdicts(name)}
    assert [row[0].strip("`") for row in rows] == list(kept)
    for id_, _, status in rows:
        assert status == kept[id_.strip("`")].status


def test_outside_the_repository_the_ledger_is_empty(tmp_path, monkeypatch):
    monkeypatch.setattr(ledger, "data_folder", lambda: tmp_path)
    monkeypatch.setattr(ledger, "_kept", ledger._kept.__wrapped__)
    assert ledger.judged_by() == "" and ledger.verdicts("principle-6") == []
    plan = get_experiment("heads").plan("standard")
    assert ledger.planned(plan, "heads").again == {}


def test_both_counts_of_shares_stand_side_by_side(monkeypatch):
    experiment, results = get_experiment("principle-2.1"), load_results("principle-2.1")
    *_, numbers = markdown_of(monkeypatch, lambda: show_kept(experiment, results))
    assert "| near zero, raw | near zero, divided |" in numbers
    assert re.search(r"psi_relu \| 0\.01 \| 0\.977 \[.*\] \| .* \| 0\.458 \| 0\.499 \|", numbers)
