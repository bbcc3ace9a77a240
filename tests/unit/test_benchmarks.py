"""What `make bench` prints is a ratio of times."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))
import engine
import measure

ROOT = Path(__file__).parents[2]


def test_a_peer_that_takes_three_times_as_long_has_a_ratio_of_three(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(measure, "cpu_ms", lambda run: run())
    found = measure.paired_ms(lambda: 2.0, lambda: 6.0, repeats=4)
    assert found == {"ours_ms": 2.0, "peer_ms": 6.0, "ratio": 3.0, "repeats": 4}


def test_the_page_has_what_was_measured_with_the_engine() -> None:
    """Every class is in the kept rows at both lengths; the tables of the page are these rows."""
    rows = json.loads((ROOT / "data" / "benchmarks" / "engine.json").read_text())["rows"]
    told = (ROOT / "book" / "lens" / "running.md").read_text()
    for tokens in (512, 2048):
        assert {r["class"] for r in rows if r["tokens"] == tokens} == set(engine.CLASSES)
        assert "\n".join(engine.page(rows, tokens)) in told
    summary = engine.summary([row for row in rows if row["tokens"] == 512], 512)
    assert "3.05 times" in summary and "without Mamba-1 1.43" in summary
    means = "classes is 3.05 at 512 tokens. Without the three of Mamba-1 it is 1.43"
    assert f"geometric mean of the sixteen\n{means}" in told


def test_what_lies_outside_of_the_mixing_bounds_the_memory() -> None:
    """Sentences of the page on memory, and on the distance of gradients from float64."""
    rows = json.loads((ROOT / "data" / "benchmarks" / "engine.json").read_text())["rows"]
    both = [row for row in rows if "peak_mib" in row.get("theirs", {})]
    for row in both:
        theirs, here, outside = (row[side]["peak_mib"] for side in ("theirs", "ours", "rest"))
        large = row["class"] in ("qwen3_next", "qwen3_5", "xlstm", "olmo_hybrid")
        assert (here > 0.55 * theirs) == (outside > 0.56 * theirs) == large, row["class"]
        assert here - outside <= 0.44 * (theirs - outside), row["class"]
    away = {
        (row["class"], row["tokens"], side): row[f"{side}_from_double"]["gradients"]
        for row in rows
        if "ours_from_double" in row
        for side in ("ours", "theirs")
    }
    qwen = {key: gap for key, gap in away.items() if key[0].startswith("qwen")}
    assert len(qwen) == 8 and max(gap for key, gap in qwen.items() if key[2] == "ours") < 1.3e-5
    assert min(gap for key, gap in qwen.items() if key[2] == "theirs") > 2e-4
    assert away["xlstm", 2048, "ours"] < 2.1e-4 and away["xlstm", 2048, "theirs"] < 8e-5
