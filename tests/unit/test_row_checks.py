"""The checks that chapters fold away hold a row to its definition, and fail where it differs."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch.nn.functional import elu

from coefdyn import CoefficientDynamics, evolution, normalizer, readout
from coefdyn.lab.checks import check_row, defined

L, N, D_V = 9, 4, 3


def design(**changes: object) -> CoefficientDynamics:
    rng = torch.Generator().manual_seed(3)
    q, k, log = torch.randn(3, L, N, generator=rng, dtype=torch.float64)
    plain = CoefficientDynamics(
        q=q,
        k=k,
        evolution=evolution.Diagonal(log_decay=-log.abs()),
        scaling=0.5,
        readout=readout.identity,
        normalizer=normalizer.One(),
    )
    return replace(plain, **changes)


def values() -> torch.Tensor:
    return torch.randn(L, D_V, generator=torch.Generator().manual_seed(4), dtype=torch.float64)


def by_hand(dynamics: CoefficientDynamics) -> torch.Tensor:
    rows, state = [], torch.zeros(N, D_V, dtype=torch.float64)
    for t in range(L):
        decay = dynamics.evolution.dense(t, N)
        state = decay @ state + torch.outer(dynamics.scaled_keys()[t], values()[t])
        rows.append(dynamics.q[t] @ state)
    return torch.stack(rows)


def test_a_row_that_agrees_is_described() -> None:
    found = check_row(design(), values(), by_hand(design()))
    assert found.methods == ("reference", "recurrent", "parallel", "chunked")
    assert set(found.state_numbers) == {N * D_V} and not found.grows
    assert found.separated and found.growth_nats <= 0
    assert "12 at every step" in str(found)


def test_a_readout_without_a_state_is_said_to_grow() -> None:
    softmax = design(
        evolution=evolution.Identity(), readout=readout.exp, normalizer=normalizer.RowSum()
    )
    weights = (softmax.q @ softmax.scaled_keys().T).masked_fill(
        torch.ones(L, L).triu(1).bool(), -torch.inf
    )
    found = check_row(softmax, values(), weights.softmax(-1) @ values())
    assert "recurrent" not in found.methods and found.grows and not found.separated


def test_a_wrong_row_fails() -> None:
    with pytest.raises(AssertionError):
        check_row(design(), values(), by_hand(design(scaling=0.51)))


def test_the_definition_knows_features_and_loud_gates() -> None:
    for dynamics in (
        design(readout=readout.FeatureMap(lambda x: elu(x) + 1, name="elu1")),
        design(log_scaling=torch.linspace(-2, 2, L, dtype=torch.float64)),
    ):
        torch.testing.assert_close(defined(dynamics), dynamics.coefficients(), rtol=0, atol=1e-12)
