"""Tables of a pilot's rates: made-up curves, and the kept runs of the chapter."""

from __future__ import annotations

import pytest
from made_up_results import result_of

from coefdyn.lab.experiments import get_experiment
from coefdyn.lab.pages.optimisation import Tried, optimisation_markdown, tried

EXPERIMENT = get_experiment("principle-4")
DESIGN = {"task": "fuzzy recall", "design": "scalar"}


def by_rate(facets, run):
    """The middle rate is best, the largest turns one task NaN."""
    rate = run.train.learning_rate
    nan = 7 if facets["task"] == "S3" and rate == 1e-2 else None
    return {1e-3: 0.5, 3e-3: 0.95, 1e-2: 0.7}[rate], nan


def test_every_rate_of_a_pilot_is_told_with_its_own_seeds():
    result = result_of(EXPERIMENT, "standard", by_rate)
    cells = tried(result, **DESIGN)
    assert list(cells) == [1e-3, 3e-3, 1e-2]
    assert [cell.mean for cell in cells.values()] == [0.5, 0.95, 0.7]
    assert [len(cell.accuracy) for cell in cells.values()] == [1, 1, 1]
    assert cells[3e-3].reached == [100] and cells[1e-3].reached == []
    assert tried(result, task="S3", design="scalar")[1e-2].diverged == 1


def test_a_table_of_designs_and_rates():
    text = optimisation_markdown(
        result_of(EXPERIMENT, "standard", by_rate),
        {"scalar": DESIGN, "S3": {**DESIGN, "task": "S3"}},
    )
    assert "| scalar | 0.500; never | 0.950; 100 steps | 0.700; never | 0.450 |" in text
    assert "| NaN |  |" in text


def test_a_rate_after_the_one_that_solved_was_not_needed():
    solved = result_of(EXPERIMENT, "standard", lambda facets, run: (1.0, None))
    text = optimisation_markdown(solved, {"scalar": DESIGN})
    assert "| scalar | not needed | 1.000; 100 steps | not needed |  |" in text


def test_without_runs_a_table_says_so(tmp_path):
    nothing = EXPERIMENT.load("standard", out=tmp_path)
    assert tried(nothing, **DESIGN) == {}
    assert optimisation_markdown(nothing, {"scalar": DESIGN}).count("not run") == 3


def test_the_median_is_of_the_seeds_that_arrive():
    cell = Tried(accuracy=(0.95, 0.93, 0.5), steps=(200, 400, None), diverged=0)
    assert str(cell) == "0.793; 300 steps, 2 of 3"
    assert str(Tried(accuracy=(0.0, 0.0), steps=(None, None), diverged=2)) == "NaN"


def test_facets_must_name_one_design():
    with pytest.raises(ValueError, match="8 variants of principle-4"):
        tried(EXPERIMENT.load("standard"), task="S3")


def test_the_chapters_tables_have_every_rate():
    kept = EXPERIMENT.load("standard")
    for design in ("identity", "scalar", "scaled Householder"):
        for task in ("fuzzy recall", "S3"):
            assert len(tried(kept, task=task, design=design)) == 3
