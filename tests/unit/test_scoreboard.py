"""The scoreboard and the forecasts: cells, words, scores against baselines worked by hand."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from made_up_results import result_of

from coefdyn.lab.experiments import get_experiment
from coefdyn.lab.experiments.board import ROWS, scores, tasks_of
from coefdyn.lab.experiments.forecasts import (
    FORECASTS,
    LEARNS,
    PROBABILITY,
    TABLE,
    base_rate_score,
    brier,
    probability,
    state_size_forecast,
)
from coefdyn.lab.experiments.scoreboard import NEARER, NEARER_ROWS
from coefdyn.lab.pages.scoreboard import (
    CHAPTERS,
    foreseen_markdown,
    reasons_markdown,
    scoreboard_html,
    scores_markdown,
)
from coefdyn.lab.training import RunConfig
from coefdyn.mixers import MIXERS

EXPERIMENT = get_experiment("scoreboard")


def forecast(facets) -> str:
    """The word for a cell; no opinion on what stands beside the board."""
    cell = facets["task"], facets["row"]
    return FORECASTS[cell].word if cell in FORECASTS else "?"


def test_every_cell_has_a_forecast_and_every_forecast_a_cell():
    assert set(FORECASTS) == {(task, row) for task in tasks_of() for row in ROWS}
    assert {len(words) for words, _ in TABLE.values()} == {len(ROWS)}
    assert {one.word for one in FORECASTS.values()} <= set(PROBABILITY)
    assert {mixer for mixer, _, _ in ROWS.values()} >= {*MIXERS, "S6", "LRU"}
    assert probability(("no such task", "GLA")) == 0.5


def test_brier_scores_worked_by_hand():
    found = {("a", "x"): True, ("a", "y"): False, ("b", "x"): True, ("b", "y"): True}
    said = {("a", "x"): 0.9, ("a", "y"): 0.5, ("b", "x"): 0.1, ("b", "y"): 1.0}
    assert brier(found, said) == pytest.approx((0.01 + 0.25 + 0.81 + 0.0) / 4)
    assert base_rate_score(found) == pytest.approx(0.75 * 0.25)
    assert brier(found, {cell: float(seen) for cell, seen in found.items()}) == 0.0
    with pytest.raises(ValueError, match="at least one cell"):
        brier({}, {})
    with pytest.raises(ValueError, match="probabilities lie in"):
        brier(found, {**said, ("a", "x"): 1.1})


def test_state_size_alone_ranks_the_rows():
    said = state_size_forecast({"small": 1.0, "tie": 4.0, "same": 4.0, "all": float("inf")})
    assert said["small"] == pytest.approx(0.1) and said["all"] == pytest.approx(0.9)
    assert said["tie"] == said["same"] == pytest.approx(0.5)


def test_scores_of_a_result_are_those_of_its_cells():
    def as_forecast(facets, run):
        word = forecast(facets)
        return (0.95 if word == "+" else 0.3), None

    found = scores(result_of(EXPERIMENT, "standard", as_forecast))
    assert found["principles, with an opinion"] == pytest.approx(0.01)
    assert found["principles"] < found["base rate"] < 0.25
    contrary = result_of(
        EXPERIMENT, "standard", lambda facets, run: (1.3 - as_forecast(facets, run)[0], None)
    )
    assert scores(contrary)["principles, with an opinion"] > 0.5


def test_what_stands_beside_the_board_is_no_cell_of_it():
    """The memory through fewer tokens decides a claim and has no forecast, score or column."""

    def score(facets, run):
        return (0.95 if facets["task"] in tasks_of() else 0.05), None

    seen = result_of(EXPERIMENT, "standard", score)
    beside = [v for v in seen.variants if v.facets["task"] not in tasks_of()]
    assert {v.facets["task"] for v in beside} == {NEARER} and len(beside) == len(NEARER_ROWS)
    assert {v.task.seq_len for v in beside} == {67} and {v.train.steps for v in beside} == {2000}
    assert scores(seen)["base rate"] == 0.0, "all cells of the board learned"
    assert NEARER not in scoreboard_html(seen) and "so far" not in scores_markdown(seen)
    axes = EXPERIMENT.figure(seen).axes[0]
    assert [tick.get_text() for tick in axes.get_xticklabels()] == list(tasks_of())


def test_without_finished_cells_there_is_no_score(tmp_path):
    assert scores(EXPERIMENT.load("standard", out=tmp_path)) == {}


def test_a_method_is_part_of_a_run_and_not_of_its_name():
    variant = next(v for v in EXPERIMENT.plan("standard").variants if v.facets["row"] == "S6")
    run = EXPERIMENT.plan("standard").runs_of(variant)[0]
    assert run.method == "chunked"
    again = RunConfig.from_dict(run.to_dict())
    assert again == run and again.key == run.key
    plain = RunConfig.from_dict({**run.to_dict(), "method": None})
    assert plain.key == run.key and plain != run
    assert plain.matches({"key": run.key, "config": run.to_dict()})
    assert 0.5 < LEARNS < 1


def cells_of(text: str) -> list[str]:
    return re.findall(r"<td [^>]*><details>.*?</td>", text, flags=re.DOTALL)


def test_a_board_without_runs_still_shows_every_forecast(tmp_path):
    cells = cells_of(scoreboard_html(EXPERIMENT.load("standard", out=tmp_path)))
    assert len(cells) == len(FORECASTS)
    assert all("not run" in cell and "The principles foretold: " in cell for cell in cells)
    assert "No cell has four finished seeds" in scores_markdown(
        EXPERIMENT.load("standard", out=tmp_path)
    )


def test_scores_of_a_part_of_the_board_say_how_small_it_is():
    seen = result_of(EXPERIMENT, "standard", lambda facets, run: (0.95, None))
    column = tuple(one for one in seen.records if one["config"]["task"]["task"] == "forget")
    assert "From 10 of 90 cells so far (tasks: forget)" in scores_markdown(
        replace(seen, records=column)
    )
    assert "so far" not in scores_markdown(seen)


def test_a_cell_shows_mean_interval_curve_and_whether_it_was_foreseen():
    def score(facets, run):
        word = forecast(facets)
        return (0.95 if word == "+" else 0.3) + 0.01 * run.seed, None

    seen = result_of(EXPERIMENT, "standard", score)
    cells = cells_of(scoreboard_html(seen))
    foreseen = [re.search(r'data-came="(\w*)"', cell)[1] for cell in cells]
    words = [one.word for one in FORECASTS.values()]
    assert foreseen.count("right") == len(words) - words.count("?") and "wrong" not in foreseen
    learned = next(cell for cell in cells if "<b>0.97</b>" in cell or "<b>0.96</b>" in cell)
    assert "[0.9" in learned and "<polyline" in learned and "4 of 4 seeds reach 0.9" in learned
    assert "| principles |" in scores_markdown(seen).replace("| principles, with", "|")


def test_an_interval_of_accuracies_ends_at_0_and_1():
    seen = result_of(EXPERIMENT, "standard", lambda facets, run: (float(run.seed % 2), None))
    cell = cells_of(scoreboard_html(seen))[0]
    assert "mean accuracy 0.50, 90 % interval [0.00, 1.00]" in cell


def test_forecasts_are_counted_task_by_task():
    """Everything learns: every "does not" was wrong, and "no opinion" counts for nothing."""
    seen = result_of(EXPERIMENT, "standard", lambda facets, run: (0.95, None))
    lines = foreseen_markdown(seen).splitlines()[2:]
    assert len(lines) == len(tasks_of())
    parity = next(line for line in lines if line.startswith("| parity"))
    assert "| 10 of 10 | 0 of 10 |" in parity and "DeltaProduct" not in parity
    count = next(line for line in lines if line.startswith("| count"))
    assert count.endswith("| 10 of 10 | 2 of 2 | none |")
    recall = next(line for line in lines if line.startswith("| recall"))
    assert recall.endswith("| 10 of 10 | 5 of 7 | LRU, S6 |")


def test_a_row_opens_the_explorer_of_its_chapter():
    book = Path(__file__).parents[2] / "book"
    for address in CHAPTERS.values():
        assert (book / address.partition(".html")[0]).with_suffix(".md").is_file()
    assert reasons_markdown().count("\n") == len(TABLE) + 1
