"""The book's generated tables: from result files alone, honest about what has not been run."""

from __future__ import annotations

from dataclasses import replace

import pytest
from made_up_results import made_up, result_of

from coefdyn.lab.experiments import EXPERIMENTS, get_experiment
from coefdyn.lab.experiments.registration import before_ids
from coefdyn.lab.experiments.result import Verdict, core_hours
from coefdyn.lab.experiments.rule import HELD, NO_TEST, NOT_HELD, NOT_RUN, UNDECIDED, WITHDRAWN
from coefdyn.lab.pages.evidence import (
    claims_markdown,
    decision_markdown,
    load_results,
    others_markdown,
    registered_words,
    runtimes_markdown,
)


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


def test_registered_claims_name_their_commit_and_what_changed_since(tmp_path):
    experiment = get_experiment("principle-6")
    _, run = experiment.plan("standard").runs()[0]
    _, *others = then = before_ids()["principle-6"].digests.values()
    assert len(then) == 8
    record = {**made_up(run, 0.5), "registered": "abc", "claims": [old for old, _ in others]}
    experiment.file("standard", tmp_path).append(record)
    text = claims_markdown(experiment, load_results("principle-6", tmp_path))
    assert "Registered in commit abc, before the first run." in text
    assert "Changed or added since: growth/one-fails." in text
    assert "1 runs finished, 105 to go" in text


def test_records_without_these_claims_lead_to_no_claim_of_change(tmp_path):
    """A file that two experiments share, whose records tell the digests of one of them."""
    experiment = get_experiment("principle-2.1")
    _, run = experiment.plan("standard").runs()[0]
    record = {**made_up(run, 0.5), "registered": "abc", "claims": ["0" * 12]}
    experiment.file("standard", tmp_path).append(record)
    text = claims_markdown(experiment, load_results("principle-2.1", tmp_path))
    assert "The records do not say in which commit these claims were registered." in text
    assert "Changed or added since" not in text
    kept = claims_markdown(experiment, load_results("principle-2.1"))
    assert kept.startswith("Registered in commit 0e5cb8efc1c1, before the first run")
    assert "Changed or added since" not in kept


def test_runs_that_were_taken_over_are_told_beside_the_commit():
    """The runs of heads that dsf-mqar had made before heads was registered."""
    experiment = get_experiment("heads")
    words = registered_words(experiment, experiment.load("standard"))
    there = {one["key"] for one in get_experiment("dsf-mqar").load("standard").records}
    taken = sum(one["key"] in there for one in experiment.load("standard").records)
    assert f"; {taken} runs were taken over from dsf-mqar, {taken} of them older" in words


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


def test_a_decision_says_what_held_and_what_did_not():
    experiment = get_experiment("dsf-normalizers")

    def decided(**accuracy: float) -> str:
        seen = result_of(
            experiment,
            "standard",
            lambda facets, run: (accuracy[facets["eta"]] + 1e-3 * run.seed, None),
        )
        return decision_markdown(experiment, {"standard": seen})

    clear = decided(exp=0.80, softplus=0.77, sigmoid=0.77)
    assert clear == "**Supported**, because 3 of 3 claims held."
    mixed = decided(exp=0.80, softplus=0.90, sigmoid=0.70)
    assert mixed.startswith("**Supported in part**, because 1 of 3 claims held, and these did not")
    assert "than softplus(W x)" in mixed and "than sigmoid(W x)" not in mixed
    solved = decided(exp=1.0, softplus=1.0, sigmoid=1.0)  # as in the kept results
    assert solved == f"**No test.** {experiment.reading.words} (3 no test.)"


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
    monkeypatch.setattr(type(experiment), "reading", None)
    monkeypatch.setattr(type(experiment), "claims", lambda self, result: found)
    some = result_of(experiment, "standard", lambda facets, run: (0.5, None))
    assert decision_markdown(experiment, {"standard": some}).startswith(f"**{word}**, because ")


def test_without_a_sentence_for_these_verdicts_the_claims_are_told(monkeypatch):
    experiment = get_experiment("dsf-normalizers")
    monkeypatch.setattr(type(experiment), "reading", None)
    solved = result_of(experiment, "standard", lambda facets, run: (1.0, None))
    told = decision_markdown(experiment, {"standard": solved})
    assert told.startswith("**No test**, because 3 claims are without a test")


def test_a_claim_against_its_statement_counts_against_it(monkeypatch):
    experiment = get_experiment("heads")
    monkeypatch.setattr(type(experiment), "reading", None)

    def by_channels(facets, run):  # what a model recalls follows its key channels
        right = 0.995 if facets["model"] == "softmax attention" else int(facets["n"]) / 33
        return right, None

    found = result_of(experiment, "standard", by_channels)
    told = decision_markdown(experiment, {"standard": found})
    assert told.startswith("**Contradicted**")
    assert "the opposite held: one size of state: eight heads" in told


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_the_kept_sentence_was_written_for_the_kept_verdicts(name):
    experiment = get_experiment(name)
    verdicts = experiment.claims(experiment.load("standard"))
    if experiment.reading is None:
        assert {one.status for one in verdicts} == {WITHDRAWN}
    else:
        assert experiment.reading.fits(verdicts)


def test_a_sentence_is_not_shown_for_two_claims_that_have_changed_places():
    experiment = get_experiment("heads")
    kept = experiment.claims(experiment.load("standard"))
    held, other = (next(x for x in kept if x.status == status) for status in (HELD, NOT_HELD))
    turned = {held.id: NOT_HELD, other.id: HELD}
    changed = [replace(one, status=turned.get(one.id, one.status)) for one in kept]
    assert experiment.reading.fits(kept[::-1]) and not experiment.reading.fits(changed)
    assert not experiment.reading.fits(kept[1:])


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
