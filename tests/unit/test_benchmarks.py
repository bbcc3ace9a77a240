"""What `make bench` times runs: backward passes by hand, and autograd through the same forward."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))
from backward import READOUTS, STRUCTURES, gradient_errors


@pytest.mark.parametrize("structure", STRUCTURES)
@pytest.mark.parametrize("phi", READOUTS)
def test_both_ways_to_a_gradient_are_right(structure: str, phi: str) -> None:
    """Against float64, with decays that forget."""
    errors = gradient_errors(structure, READOUTS[phi])
    assert max(errors.values()) < 5e-6, errors
