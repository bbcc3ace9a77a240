"""The evidence page's table of repeated runs: from the kept file alone."""

from __future__ import annotations

import json

from coefdyn.lab.experiments import EXPERIMENTS
from coefdyn.lab.pages.repeats import NONE_YET, load_repeats, repeats_markdown
from coefdyn.lab.repeat import EQUAL, WITHIN


def outcome(status: str, device: str, interval: list[float] | None) -> dict:
    then = {"device": "cpu (a)", "torch": "2", "revision": "old", "timestamp": "2026-11-20T10:00"}
    return {
        "experiment": "principle-3",
        "variant": {"readout": "exp", "A": "1"},
        "seed": 2,
        "learning_rate": 3e-3,
        "status": status,
        "kept": {"accuracy": 0.75, "loss": 1.0},
        "again": {"accuracy": 0.75 if status == EQUAL else 0.7512, "loss": 1.0},
        "interval": interval,
        "kept_by": then,
        "again_by": {**then, "device": device, "revision": "new", "timestamp": "2026-11-24T10:00"},
    }


def test_without_repeated_runs_the_command_is_named(tmp_path):
    assert load_repeats(tmp_path) == []
    assert repeats_markdown([]) == NONE_YET
    assert "python -m coefdyn.lab repeat --profile standard" in NONE_YET


def test_every_repeated_run_has_a_row_with_both_machines(tmp_path):
    found = [outcome(EQUAL, "cpu (a)", None), outcome(WITHIN, "cpu (b)", [0.74, 0.76])]
    (tmp_path / "standard.json").write_text(json.dumps(found))
    told, table = repeats_markdown(load_repeats(tmp_path)).split("\n\n")
    assert told.startswith("Of 2 repeated runs 1 gave the same numbers to the last digit, 1 an")
    assert told.endswith("On the type of machine that had kept them, 1 of 1 were equal.")
    first, second = table.splitlines()[2:]
    assert "principle-3: exp, 1, seed 2, rate 0.003" in first
    assert "| 0.7500 | 0.7500 | one seed | equal |" in first and "the same type" in first
    assert "| 0.7500 | 0.7512 | 0.7400 to 0.7600 | within the interval |" in second
    assert "cpu (a), commit old" in second and "cpu (b), commit new, 2026-11-24" in second


def test_the_kept_outcomes_are_of_known_experiments():
    found = load_repeats()
    assert {one["experiment"] for one in found} <= set(EXPERIMENTS)
    assert len(repeats_markdown(found).split("\n\n")) == (2 if found else 1)
