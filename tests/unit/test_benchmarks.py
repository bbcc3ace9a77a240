"""What `make bench` prints is a ratio of times."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))
import measure


def test_a_peer_that_takes_three_times_as_long_has_a_ratio_of_three(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(measure, "cpu_ms", lambda run: run())
    found = measure.paired_ms(lambda: 2.0, lambda: 6.0, repeats=4)
    assert found == {"ours_ms": 2.0, "peer_ms": 6.0, "ratio": 3.0, "repeats": 4}
