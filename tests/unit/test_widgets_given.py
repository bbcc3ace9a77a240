"""Explorers on given dynamics: every mixer of the library, head by head."""

from __future__ import annotations

import json

import pytest
import torch
from mixer_cases import CASES, build

from coefdyn import CoefficientDynamics, evolution, normalizer, readout
from coefdyn.widgets import Explorer

#: what the page has no numbers for, by case, as its refusal names it
REFUSED = {
    "SigmoidAttention": "readout 'sigmoid'",
}
SHOWN = [case for case in CASES if case not in REFUSED]


@pytest.mark.parametrize("case", SHOWN)
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


@pytest.mark.parametrize(("case", "named"), REFUSED.items())
def test_a_mixer_that_the_page_cannot_compute_is_refused(case: str, named: str) -> None:
    x = torch.randn(3, 7, 12, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    with pytest.raises(ValueError, match=f"the page cannot compute .*{named}"):
        Explorer.from_mixer(build(case), x, (2, 1))


def _plain(length: int = 5, heads: int = 2, **changes: object) -> CoefficientDynamics:
    size = heads * length * 3
    q = torch.linspace(-1, 1, size, dtype=torch.float64).reshape(heads, length, 3)
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
        ({}, (0, 0), r"index must have one number for each leading axis of \(2,\), or fewer"),
        ({"heads": 17}, None, r"at most 16 heads, got 17 .* such as index=\(0,\)"),
        ({}, (2,), r"got \(2,\)"),
        ({"length": 65}, (0,), r"dynamics.narrow\(start, 64\)"),
    ],
)
def test_what_cannot_be_shown_is_told(changes: dict, index: tuple | None, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Explorer.from_dynamics(_plain(**changes), index)


def test_words_stand_at_the_tokens() -> None:
    words = ["Rome", "is", "in", "Italy", "."]
    explorer = Explorer.from_dynamics(_plain(), (0,), words=words)
    assert explorer.shown().labels == words == explorer.data["words"]
    assert "answer" in explorer.parts
    assert "answer" not in Explorer.from_dynamics(_plain(), (0,)).parts
    assert list(explorer.shown().answer) == words[: explorer.shown().row + 1]
    with pytest.raises(ValueError, match="one text per token, got 2 for L = 5"):
        Explorer.from_dynamics(_plain(), (0,), words=["a", "b"])


def test_a_sink_stays_where_a_readout_can_have_one() -> None:
    sink = torch.tensor([0.5, -1.0], dtype=torch.float64)[:, None].expand(2, 5)
    dynamics = _plain(readout=readout.exp, normalizer=normalizer.RowSum(sink=sink))
    explorer = Explorer.from_dynamics(dynamics, (1,))
    assert (explorer.coefficients(normalized=True).sum(-1) < 1).all()
    explorer.settings = {"readout": "identity"}
    want = _plain(normalizer=normalizer.RowSum()).coefficients(normalized=True)[1]
    torch.testing.assert_close(explorer.coefficients(normalized=True), want)


def test_readout_and_normalizer_stay_choices() -> None:
    explorer = Explorer.from_dynamics(_plain(), (1,))
    explorer.settings = {"readout": "relu", "normalizer": "floored", "floor": 2.0}
    want = _plain(readout=readout.relu, normalizer=normalizer.FlooredRowSum(floor=2.0))
    torch.testing.assert_close(
        explorer.dynamics().coefficients(normalized=True), want.coefficients(normalized=True)[1]
    )


def test_several_heads_are_chosen_by_a_setting() -> None:
    dynamics = _plain(heads=3)
    explorer = Explorer.from_dynamics(dynamics, head=2)
    assert explorer.data["labels"] == ["[0]", "[1]", "[2]"]
    for head in (2, 3, 1):
        explorer.settings = {"head": head}
        torch.testing.assert_close(explorer.coefficients(), dynamics.coefficients()[head - 1])
    with pytest.raises(ValueError, match="head must lie between 1 and 3, got 4"):
        explorer.settings = {"head": 4}
    with pytest.raises(ValueError, match="head must lie between 1 and 1, got 2"):
        Explorer("gla", head=2)


def test_part_of_an_index_leaves_the_rest_to_the_reader() -> None:
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(3, 7, 12, generator=generator, dtype=torch.float64)
    mixer = build(next(iter(CASES)))
    explorer = Explorer.from_mixer(mixer, x, (2,))
    dynamics, _ = mixer.dynamics(x)
    heads = dynamics.batch_shape[-1]
    assert explorer.data["labels"] == [f"[2, {head}]" for head in range(heads)]
    explorer.settings = {"head": heads}
    torch.testing.assert_close(explorer.coefficients(), dynamics.coefficients()[2, -1].detach())


@pytest.mark.parametrize("case", SHOWN)
def test_a_saved_page_gives_the_explorer_back(case: str) -> None:
    generator = torch.Generator().manual_seed(2)
    x = torch.randn(2, 6, 12, generator=generator, dtype=torch.float64)
    explorer = Explorer.from_mixer(build(case), x, (1, 0))
    state = {name: getattr(explorer, name) for name in ("settings", "data", "parts", "name")}
    again = Explorer.from_state(json.loads(json.dumps(state)))
    for normalized in (False, True):
        got, want = again.coefficients(normalized), explorer.coefficients(normalized)
        torch.testing.assert_close(got, want, rtol=1e-9, atol=1e-12)


def test_dense_eigenvalues_are_points_of_the_plane() -> None:
    turn = torch.tensor([[0.0, -0.5], [0.5, 0.0]], dtype=torch.float64).expand(4, 2, 2)
    q = torch.ones(4, 2, dtype=torch.float64)
    parts = {"q": q, "k": q, "scaling": 1.0, "readout": readout.identity}
    dynamics = CoefficientDynamics(
        evolution=evolution.Dense(matrix=turn), normalizer=normalizer.One(), **parts
    )
    explorer = Explorer.from_dynamics(dynamics)
    for points in explorer.data["eigenvalues"]:
        assert sorted(im for _, im in points) == pytest.approx([-0.5, 0.5])
        assert [re for re, _ in points] == pytest.approx([0.0, 0.0])
    got = sorted(value.imag for value in explorer.shown().eigenvalues)
    assert got == pytest.approx([-0.5, 0.5])


def test_a_batch_of_nothing_is_answered_in_words() -> None:
    q = torch.ones(0, 3, 2)
    parts = {"q": q, "k": q, "scaling": 1.0, "readout": readout.identity}
    dynamics = CoefficientDynamics(
        evolution=evolution.Identity(), normalizer=normalizer.One(), **parts
    )
    with pytest.raises(ValueError, match=r"\(0,\) hold none; give at least one"):
        Explorer.from_dynamics(dynamics)
