"""The analyses against what theory says they must find."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from torch.nn import functional

from coefdyn import CoefficientDynamics, analysis, evolution, normalizer, readout
from coefdyn.analysis import CombinationClass


def design(
    length: int = 12,
    n: int = 4,
    phi: readout.Readout = readout.identity,
    eta: normalizer.Normalizer | None = None,
    e: evolution.Evolution | None = None,
    seed: int = 0,
) -> CoefficientDynamics:
    generator = torch.Generator().manual_seed(seed)
    q, k = (torch.randn(length, n, generator=generator, dtype=torch.float64) for _ in range(2))
    return CoefficientDynamics(
        q=q,
        k=k,
        evolution=e or evolution.Identity(),
        scaling=n**-0.5,
        readout=phi,
        normalizer=eta or normalizer.One(),
    )


@pytest.mark.parametrize(
    ("phi", "eta", "expected"),
    [
        (readout.exp, normalizer.RowSum(), CombinationClass.CONVEX),
        (readout.softplus, normalizer.One(), CombinationClass.CONICAL),
        (readout.identity, normalizer.RowSum(), CombinationClass.AFFINE),
        (readout.identity, normalizer.One(), CombinationClass.LINEAR),
        (readout.identity, normalizer.FlooredRowSum(), CombinationClass.LINEAR),
        (readout.relu, normalizer.FlooredRowSum(), CombinationClass.CONICAL),
    ],
)
def test_classes(
    phi: readout.Readout, eta: normalizer.Normalizer, expected: CombinationClass
) -> None:
    d = design(phi=phi, eta=eta)
    assert analysis.combination_class(d) is expected
    assert analysis.observed_class(d.coefficients(normalized=True)) is expected


@pytest.mark.parametrize("phi", [readout.identity, readout.exp, readout.relu, readout.softplus])
def test_identity_evolution_carries_no_position(phi: readout.Readout) -> None:
    assert not analysis.positional_information(design(phi=phi), 2, 7).separated


def test_decay_separates_and_a_double_reflection_does_not() -> None:
    decay = evolution.Scalar(log_decay=torch.full((12,), -0.1, dtype=torch.float64))
    assert analysis.positional_information(design(e=decay), 2, 7).separated
    z = functional.normalize(torch.ones(12, 4, dtype=torch.float64), dim=-1)
    mirror = evolution.Householder(direction=z, beta=torch.full((12,), 2.0, dtype=torch.float64))
    assert not analysis.positional_information(design(e=mirror), 2, 4).separated
    assert analysis.positional_information(design(e=mirror), 2, 5).separated
    with pytest.raises(ValueError, match="0 <= j < later"):
        analysis.positional_information(design(), 5, 5)


def test_near_zero_sets(no_shape_checks: None) -> None:
    relu = analysis.near_zero_set(readout.relu)
    assert relu.measure == pytest.approx(10.001, abs=2e-4)
    soft = analysis.near_zero_set(readout.softplus)
    assert soft.intervals[0][1] == pytest.approx(math.log(math.expm1(1e-3)), abs=1e-4)
    assert analysis.near_zero_set(readout.identity).measure == pytest.approx(2e-3, abs=2e-4)
    with pytest.raises(ValueError, match="pointwise"):
        analysis.near_zero_set(readout.FeatureMap(torch.relu))  # type: ignore[arg-type]


def test_at_most_n_minus_one_zeros() -> None:
    d = design(length=12, n=4)
    q = d.q.clone()
    basis = torch.linalg.qr(d.k[:4].T).Q  # orthonormal, spans the first four keys in order
    q[11] = basis[:, 3]  # orthogonal to keys 0, 1, 2 and not to key 3
    changed = CoefficientDynamics(
        q=q, k=d.k, evolution=d.evolution, scaling=1.0, readout=d.readout, normalizer=d.normalizer
    )
    assert analysis.simultaneous_zeros(changed)[11].item() == 3


def test_selectivity_counts() -> None:
    d = design(phi=readout.relu, eta=normalizer.RowSum())
    found = analysis.selectivity(d)
    alpha = d.coefficients(normalized=True)
    i, j = torch.tril_indices(12, 12)
    assert found.near_zero_fraction == (alpha[i, j].abs() <= 1e-3).double().mean().item()
    assert 0.2 < found.near_zero_fraction < 0.8


def test_stability_and_horizon() -> None:
    grow = evolution.Scalar(log_decay=torch.full((12,), math.log(1.05), dtype=torch.float64))
    found = analysis.stability(design(e=grow))
    assert found.largest_norm == pytest.approx(1.05)
    assert found.growth_nats == pytest.approx(11 * math.log(1.05))
    assert found.horizon_tokens == pytest.approx(88.7228 / math.log(1.05), rel=1e-4)
    assert analysis.stability(design()).horizon_tokens == math.inf


def test_stability_begins_with_the_first_key_that_is_not_zero() -> None:
    d = design(e=evolution.Scalar(log_decay=torch.full((12,), math.log(1.05)).double()))
    k = d.k.clone()
    k[:3] = 0
    found = analysis.stability(replace(d, k=k))
    assert found.growth_rate == pytest.approx(math.log(1.05))
    assert found.growth_nats == pytest.approx(8 * math.log(1.05))
    heads = torch.stack([torch.zeros_like(k), k])
    two = replace(d, q=d.q.expand(2, -1, -1), k=heads)
    assert analysis.stability(two).growth_rate == pytest.approx(math.log(1.05))
    assert analysis.stability(replace(d, k=0 * k)).growth_rate == 0.0


def test_norm_bounds_the_state_but_spectral_radius_does_not() -> None:
    # two nilpotent-like matrices of spectral radius 0.5 whose alternating product grows
    a = torch.tensor([[0.5, 2.0], [0.0, 0.5]], dtype=torch.float64)
    steps = torch.stack([a if t % 2 else a.T for t in range(12)])
    found = analysis.stability(design(n=2, e=evolution.Dense(matrix=steps)))
    assert analysis.spectrum(design(n=2, e=evolution.Dense(matrix=steps))).largest_modulus < 0.51
    assert found.growth_nats > 5
    assert found.largest_norm > 1


def test_variance_grows_with_n_unless_scaled() -> None:
    assert analysis.score_variance(lambda n: 1.0).slope == pytest.approx(1.0, abs=0.05)
    assert analysis.score_variance(lambda n: n**-0.5).slope == pytest.approx(0.0, abs=0.05)


def test_report_reads_as_text() -> None:
    text = str(analysis.report(design(phi=readout.exp, eta=normalizer.RowSum())))
    assert "finite state: no" in text
    assert "convex guaranteed, convex observed" in text
