"""The choice by structure, readout and length is always one that can be computed."""

from __future__ import annotations

import pytest
from designs import READOUTS, STRUCTURES, Inputs

from coefdyn.execution.apply import resolve
from coefdyn.execution.chunked.policy import cpu_method


@pytest.mark.parametrize("phi", READOUTS)
@pytest.mark.parametrize("structure", STRUCTURES)
def test_chosen_method_can_compute_the_design(structure: str, phi: str) -> None:
    for length in (1, 64, 65, 300):
        d = Inputs.draw(length=length).dynamics(structure, phi, "row_sum")
        assert callable(resolve(d, cpu_method(d)))


def test_long_sequences_never_form_the_whole_matrix() -> None:
    inputs = Inputs.draw(length=300)
    for structure in STRUCTURES[:-1]:
        for phi in ("identity", "exp", "softplus", "tanh"):
            assert cpu_method(inputs.dynamics(structure, phi, "one")) == "chunked"
    assert cpu_method(inputs.dynamics("identity", "elu1", "row_sum")) == "chunked"
