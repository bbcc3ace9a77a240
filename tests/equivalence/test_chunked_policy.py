"""The choice by structure, readout and length is always one that can be computed."""

from __future__ import annotations

import pytest
import torch
from designs import READOUTS, STRUCTURES, Inputs

from coefdyn import CoefficientDynamics, evolution, normalizer, readout
from coefdyn.execution.apply import resolve
from coefdyn.execution.chunked.dispatch import default_chunk
from coefdyn.execution.policy import choose


@pytest.mark.parametrize("phi", READOUTS)
@pytest.mark.parametrize("structure", STRUCTURES)
def test_chosen_method_can_compute_the_design(structure: str, phi: str) -> None:
    for length in (1, 64, 65, 300):
        d = Inputs.draw(length=length).dynamics(structure, phi, "row_sum")
        assert callable(resolve(d, choose(d)))


def test_long_sequences_never_form_the_whole_matrix() -> None:
    inputs = Inputs.draw(length=300)
    for structure in STRUCTURES[:-1]:
        for phi in ("identity", "exp", "softplus", "tanh"):
            assert choose(inputs.dynamics(structure, phi, "one")) == "chunked"
    assert choose(inputs.dynamics("identity", "elu1", "row_sum")) == "chunked"


def decayed(structure: str, heads: int, length: int) -> CoefficientDynamics:
    """A linear design of many heads; nothing of it is ever stored."""
    gate, q = torch.zeros(()).expand(heads, length), torch.zeros(()).expand(heads, length, 4)
    evolutions = {
        "identity": evolution.Identity(),
        "scalar": evolution.Scalar(log_decay=gate),
        "householder": evolution.Householder(direction=q, beta=gate),
        "scaled_householder": evolution.Householder(direction=q, beta=gate, log_decay=gate),
    }
    return CoefficientDynamics(
        q=q,
        k=q,
        evolution=evolutions[structure],
        scaling=1.0,
        readout=readout.identity,
        normalizer=normalizer.One(),
    )


@pytest.mark.parametrize(
    ("structure", "length"),
    [("identity", 64), ("scalar", 64), ("householder", 32), ("scaled_householder", 32)],
)
def test_many_heads_never_form_all_their_matrices(structure: str, length: int) -> None:
    """1024 matrices leave the cache: chunks are two to three times as fast there."""
    assert choose(decayed(structure, 8, length)) == "parallel"
    assert choose(decayed(structure, 1024, length)) == "chunked"


def test_chunks_are_no_longer_than_the_sequence() -> None:
    """The batch is cut into groups by the size of a chunk: 64 tokens where there are 4 is waste."""
    for phi in ("identity", "exp", "softplus"):
        assert default_chunk(Inputs.draw(length=4).dynamics("diagonal", phi, "one")) == 4
