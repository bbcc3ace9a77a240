"""What `make bench` times runs: backward passes by hand, and autograd through the same forward."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))
import measure
from backward import READOUTS, STRUCTURES, gradient_errors


@pytest.mark.parametrize("structure", STRUCTURES)
@pytest.mark.parametrize("phi", READOUTS)
def test_both_ways_to_a_gradient_are_right(structure: str, phi: str) -> None:
    """Against float64, with decays that forget."""
    errors = gradient_errors(structure, READOUTS[phi])
    assert max(errors.values()) < 5e-6, errors


def test_a_peer_that_takes_three_times_as_long_has_a_ratio_of_three(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(measure, "cpu_ms", lambda run: run())
    found = measure.paired_ms(lambda: 2.0, lambda: 6.0, repeats=4)
    assert found == {"ours_ms": 2.0, "peer_ms": 6.0, "ratio": 3.0, "repeats": 4}
