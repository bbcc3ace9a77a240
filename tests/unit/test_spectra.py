"""Eigenvalues from the structure of A_t against a dense eigensolver, and their histograms."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from designs import Inputs
from torch.nn import functional

from coefdyn import CoefficientDynamics, analysis, evolution, normalizer, readout
from coefdyn.analysis.spectra import EDGES, eta, modulus_histogram, transition_moduli
from coefdyn.lab.experiments import get_experiment
from coefdyn.lab.experiments.plan import STANDARD
from coefdyn.lab.experiments.spectra import MODELS
from coefdyn.lab.training.diagnostics import run_diagnostics
from coefdyn.models import ModelConfig, SequenceModel

F64 = torch.float64


def normal(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=F64)


def flips(*shape: int) -> torch.Tensor:
    return normal(*shape, seed=5).sign()


STRUCTURES = {
    "identity": evolution.Identity(),
    "scalar": evolution.Scalar(log_decay=normal(2, 7), sign=flips(2, 7)),
    "diagonal": evolution.Diagonal(log_decay=normal(2, 7, 4), sign=flips(2, 7, 4)),
    "householder": evolution.Householder(direction=normal(2, 7, 4), beta=normal(2, 7, seed=1)),
    "scaled_householder": evolution.Householder(
        direction=normal(2, 7, 4),
        beta=normal(2, 7, seed=1),
        log_decay=normal(2, 7, seed=2),
        sign=flips(2, 7),
    ),
    "diagonal_plus_rank_one": evolution.DiagonalPlusRankOne(
        log_decay=normal(2, 7, 4),
        left=normal(2, 7, 4, seed=1),
        right=normal(2, 7, 4, seed=2),
        sign=flips(2, 7, 4),
    ),
    "dense": evolution.Dense(matrix=normal(2, 7, 4, 4)),
}
NORMALIZERS = {
    "one": normalizer.One(),
    "given": normalizer.Given(normal(2, 7, seed=3).exp()),
    "row_sum": normalizer.RowSum(),
    "floored": normalizer.FlooredRowSum(),
}


def design(structure: str, eta: str, phi: readout.Readout = readout.softplus):
    return CoefficientDynamics(
        q=normal(2, 7, 4, seed=6),
        k=normal(2, 7, 4, seed=7),
        evolution=STRUCTURES[structure],
        scaling=0.5,
        readout=phi,
        normalizer=NORMALIZERS[eta],
    )


def by_value(values: torch.Tensor) -> torch.Tensor:
    """Eigenvalues of each matrix in one fixed order."""
    keys = values.real.round(decimals=9) * 1e3 + values.imag
    return values.gather(-1, keys.argsort(dim=-1))


@pytest.mark.parametrize("structure", STRUCTURES)
def test_eigenvalues_are_those_of_the_dense_matrix(structure: str) -> None:
    d = design(structure, "row_sum")
    dense = torch.stack([d.evolution.dense(t, 4).expand(2, 4, 4).to(F64) for t in range(7)], -3)
    found = analysis.spectrum(d)
    expected = torch.linalg.eigvals(dense)
    torch.testing.assert_close(
        by_value(found.eigenvalues), by_value(expected), rtol=1e-6, atol=1e-6
    )
    assert found.largest_modulus == pytest.approx(expected[:, 1:].abs().max().item())


@pytest.mark.parametrize("name", NORMALIZERS)
def test_the_transition_carries_the_ratio_of_eta(name: str) -> None:
    d = design("diagonal", name)
    rows = d.coefficients().sum(-1)
    expected = {
        "one": torch.ones_like(rows),
        "given": getattr(d.normalizer, "eta", None),
        "row_sum": rows,
        "floored": rows.abs().clamp(min=1.0),
    }[name]
    torch.testing.assert_close(eta(d), expected)
    found = analysis.spectrum(d)
    ratio = expected[:, :-1] / expected[:, 1:]
    torch.testing.assert_close(found.transition[:, 1:], found.eigenvalues[:, 1:] * ratio[..., None])
    assert found.transition[:, 0].isnan().all()


def test_angles_turn_the_eigenvalues() -> None:
    d = design("diagonal", "one")
    angles = torch.tensor([[0.3, -0.3, 2.0, -2.0]], dtype=F64)
    turned, plain = (analysis.spectrum(d, angles=one).eigenvalues for one in (angles[None], None))
    torch.testing.assert_close(turned, plain * torch.exp(1j * angles))


@pytest.mark.parametrize("structure", STRUCTURES)
def test_moduli_are_of_the_transition(structure: str) -> None:
    d = design(structure, "given")
    expected = analysis.spectrum(d).transition[:, 1:].abs()
    multiples = structure in ("identity", "scalar")
    expected = expected[..., :1] if multiples else expected
    torch.testing.assert_close(transition_moduli(d), expected.flatten(-2))


def test_softmax_of_large_scores_stays_finite() -> None:
    d = Inputs.draw(batch=(2,)).dynamics("identity", "exp", "row_sum")
    hot = CoefficientDynamics(
        q=40 * functional.normalize(d.q.detach(), dim=-1),
        k=10 * functional.normalize(d.k.detach(), dim=-1),
        evolution=d.evolution,
        scaling=1.0,
        readout=readout.exp,
        normalizer=normalizer.RowSum(),
    )
    assert torch.isfinite(transition_moduli(hot.to(torch.float32))).all()


def test_histograms_count_every_modulus_once() -> None:
    moduli = torch.tensor([[0.0, 0.04, 0.05, 1.0], [1.999, 2.0, 50.0, math.nan]], dtype=F64)
    found = modulus_histogram(moduli)
    assert len(found.share) == len(EDGES) - 1 == 41
    share = torch.tensor(found.share)
    assert share.sum().item() == pytest.approx(7 / 8)
    places = {0: 2 / 8, 1: 1 / 8, 20: 1 / 8, 39: 1 / 8, 40: 2 / 8}
    for place, value in places.items():
        assert share[place].item() == pytest.approx(value)
    assert found.deviation[0] == pytest.approx(0.5 / math.sqrt(2))
    assert modulus_histogram(moduli[:1]).deviation == (0.0,) * 41


def test_diagnostic_of_a_model_before_and_after() -> None:
    config = ModelConfig(width=8, layers=2, mixer="S4D", options={"state_dim": 4}, mlp=None)
    model = SequenceModel(config, vocab=5)
    inputs = torch.randint(0, 5, (3, 6), generator=torch.Generator().manual_seed(0))
    found = run_diagnostics(("moduli",), model, inputs, untrained=lambda: model)
    spectra = found["normalized"]["moduli"]
    assert spectra["initial"] == spectra["trained"]
    for layer, block in zip(spectra["trained"], model.blocks, strict=True):
        moduli = block.mixer.eigenvalues().abs().double().flatten()
        expected = modulus_histogram(moduli[None]).share
        assert layer["share"] == pytest.approx(expected, abs=1e-4)
        assert max(layer["deviation"]) == 0
    assert "initial" not in run_diagnostics(("moduli",), model, inputs)["normalized"]["moduli"]
    with pytest.raises(ValueError, match="unknown diagnostics"):
        run_diagnostics(("modulus",), model, inputs)


def test_models_under_one_condition_are_the_runs_of_spectra_but_for_the_convolution() -> None:
    before = {
        tuple(v.facets.values()): v for v in get_experiment("spectra").plan(STANDARD).variants
    }
    plan = get_experiment("spectra-mods").plan(STANDARD)
    pairs = [v.facets for v in plan.variants if v.facets["group"] == "convolution"]
    assert {one["model"] for one in pairs} == set(MODELS)
    for variant in plan.variants:
        group, task, model, change = variant.facets.values()
        if group == "convolution":
            plain = before[task, model]
            taps = 4 if change == "convolution" else 0
            assert variant.task == plain.task and variant.train == plain.train
            if taps == (4 if model == "Mamba-2" else 0):
                assert variant.model == plain.model
            else:
                options = {**plain.model.options, "short_convolution": taps}
                assert variant.model == replace(plain.model, options=options)
