"""Explorers on given dynamics: every mixer of the library, head by head."""

from __future__ import annotations

import json

import pytest
import torch
from mixer_cases import CASES, build

from coefdyn import CoefficientDynamics, evolution, normalizer, readout
from coefdyn.widgets import Explorer


@pytest.mark.parametrize("case", CASES)
def test_every_mixer_can_be_explored(case: str) -> None:
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(3, 7, 12, generator=generator, dtype=torch.float64)
    mixer = build(case)
    explorer = Explorer.from_mixer(mixer, x, (2, 1))
    dynamics, _ = mixer.dynamics(x)
    for normalized in (False, True):
        want = dynamics.coefficients(normalized=normalized)[2, 1].detach()
        got = explorer.dynamics().coefficients(normalized=normalized)
        torch.testing.assert_close(got, want, rtol=1e-9, atol=1e-12)
    assert explorer.settings["normalizer"] in ("one", "row_sum", "floored", "gate")
    json.dumps(explorer.data, allow_nan=False)


def _plain(length: int = 5, **changes: object) -> CoefficientDynamics:
    q = torch.linspace(-1, 1, 2 * length * 3, dtype=torch.float64).reshape(2, length, 3)
    parts = {
        "q": q,
        "k": q.flip(-1),
        "evolution": evolution.Identity(),
        "scaling": 1.0,
        "readout": readout.identity,
        "normalizer": normalizer.One(),
    }
    return CoefficientDynamics(**{**parts, **changes})


@pytest.mark.parametrize(
    ("changes", "index", "message"),
    [
        ({"readout": readout.Pointwise(torch.sin, name="sine")}, (0,), "readout 'sine'"),
        ({}, (0, 0), r"index must have one number for each leading axis of \(2,\)"),
        ({}, (2,), r"got \(2,\)"),
        ({"length": 65}, (0,), r"dynamics.narrow\(start, 64\)"),
    ],
)
def test_what_cannot_be_shown_is_told(changes: dict, index: tuple, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Explorer.from_dynamics(_plain(**changes), index)


def test_readout_and_normalizer_stay_choices() -> None:
    explorer = Explorer.from_dynamics(_plain(), (1,))
    explorer.settings = {"readout": "relu", "normalizer": "floored", "floor": 2.0}
    want = _plain(readout=readout.relu, normalizer=normalizer.FlooredRowSum(floor=2.0))
    torch.testing.assert_close(
        explorer.dynamics().coefficients(normalized=True), want.coefficients(normalized=True)[1]
    )
