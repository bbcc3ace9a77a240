"""The book's statements on the cost of a run, from the kept measurement and both goals."""

from __future__ import annotations

import json

import pytest

from coefdyn.lab.__main__ import SCRIPTS
from coefdyn.lab.pages.throughput import (
    COMMAND,
    COMPILED,
    NOT_MEASURED,
    load_throughput,
    throughput_markdown,
)
from coefdyn.lab.scripts.throughput import PLAIN, REFERENCE_STEPS


def measured(**steps: float) -> dict:
    names = {"plain": PLAIN, "as_well": COMPILED}
    rows = [{"name": names.get(k, k), "steps": v, "start": 1.0} for k, v in steps.items()]
    kept = {
        "device": "cpu (a)", "cores": 2, "threads": 1, "load": 0.1, "torch": "2.13", "python": "3",
        "revision": "abc", "timestamp": "2026-11-24T10:00:00+00:00",
    }  # fmt: skip
    return {"provenance": kept, "steps": 100, "rounds": 3, "core_seconds": rows}


def test_without_a_measurement_the_command_stands_there(tmp_path):
    assert load_throughput(tmp_path) is None
    assert throughput_markdown(None) == NOT_MEASURED
    assert COMMAND.startswith("python -m coefdyn.lab throughput ") and "throughput" in SCRIPTS


@pytest.mark.parametrize(
    ("found", "seconds", "times", "met"),
    [
        ({"eager": 60.0, "compiled": 36.0, "plain": 40.0}, "36.0", "0.90", ["met", "met"]),
        ({"eager": 60.0, "compiled": 39.0, "plain": 30.0}, "39.0", "1.30", ["met", "not met"]),
        ({"eager": 44.0, "plain": 44.0}, "44.0", "1.00", ["not met", "met"]),
    ],
)
def test_both_goals_are_judged_by_the_way_of_the_standard_runs(
    tmp_path, found, seconds, times, met
):
    (tmp_path / "throughput.json").write_text(json.dumps(measured(**found)))
    told, table, caption = throughput_markdown(load_throughput(tmp_path)).split("\n\n")
    assert f"takes {seconds} seconds of a core per {REFERENCE_STEPS} steps" in told
    assert f"That is {times} times what a plain torch model" in told
    assert f"at most 40, is {met[0]}. " in told and told.endswith(f"at most 1.0, is {met[1]}.")
    assert len(table.splitlines()) == 2 + len(found)
    assert "median of 3 rounds" in caption and "commit abc" in caption


def test_the_plain_model_compiled_stands_beside_the_ratio():
    """A compiled run against a model that is not: the reader sees both ratios."""
    assert f"{PLAIN}, compiled" == COMPILED
    told = throughput_markdown(measured(eager=60.0, compiled=36.0, as_well=30.0, plain=40.0))
    assert "That is 0.90 times what a plain torch model" in told
    assert "compiled as well, it takes 30.0 seconds, and the ratio is 1.20." in told
