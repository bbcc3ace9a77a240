"""The theory of the six principles, without training: each chapter's lemma on small inputs."""

from __future__ import annotations

import math
from math import comb

import pytest
import torch

from coefdyn import CoefficientDynamics, evolution, normalizer, readout

F64 = torch.float64
POINTWISE = [readout.exp, readout.softplus, readout.relu]


def normal(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=F64)


def constant(factor: float, length: int, phi, eta=None, *, n: int = 4, order=None):
    """A_t = factor I on random tokens, given in another order if one is named."""
    order = torch.arange(length) if order is None else order
    decay = torch.full((length,), math.log(factor), dtype=F64)
    return CoefficientDynamics(
        q=normal(length, n, seed=1)[order],
        k=normal(length, n, seed=2)[order],
        evolution=evolution.Scalar(log_decay=decay),
        scaling=n**-0.5,
        readout=phi,
        normalizer=eta or normalizer.RowSum(),
    )


def growing(phi, eta, length: int = 128, dtype=torch.float32) -> torch.Tensor:
    """Normalized coefficients of identical tokens, score 2, whose keys grow by 5% per step."""
    ones = torch.ones(length, 1, dtype=dtype)
    dynamics = CoefficientDynamics(
        q=2 * ones,
        k=ones,
        evolution=evolution.Scalar(log_decay=math.log(1.05) * ones[:, 0]),
        scaling=1.0,
        readout=phi,
        normalizer=eta,
    )
    return dynamics.coefficients(normalized=True)


def powers(length: int = 128, dtype=torch.float32) -> normalizer.Normalizer:
    return normalizer.Given(1.05 ** torch.arange(1, length + 1, dtype=dtype))


@pytest.mark.parametrize(
    ("phi", "degrees"),
    [
        (lambda s: s, [1]),
        (torch.square, [2]),
        (lambda s: 1 + s + s.square() / 2, [0, 1, 2]),
        (lambda s: s**3 - s, [1, 3]),
    ],
)
def test_a_polynomial_readout_has_the_rank_of_its_monomials(phi, degrees) -> None:
    n = 3
    scores = normal(40, n, seed=3) @ normal(40, n, seed=4).T
    wanted = sum(comb(n + d - 1, d) for d in degrees)
    assert torch.linalg.matrix_rank(phi(scores), rtol=1e-10) == wanted


@pytest.mark.parametrize("phi", [torch.exp, torch.relu, torch.tanh])
def test_other_readouts_have_no_finite_rank(phi) -> None:
    ranks = [
        torch.linalg.matrix_rank(phi(normal(m, 3, seed=5) @ normal(m, 3, seed=6).T), rtol=1e-10)
        for m in (10, 20, 40)
    ]
    assert ranks == [10, 20, 40]


def test_relu_on_a_line_has_rank_two() -> None:
    scores = normal(40, 1, seed=7) @ normal(40, 1, seed=8).T
    assert torch.linalg.matrix_rank(torch.relu(scores), rtol=1e-10) == 2


@pytest.mark.parametrize("n", [1, 2, 4])
def test_relu_features_are_all_zero_with_probability_three_quarters_to_the_n(n: int) -> None:
    psi = readout.FeatureMap(torch.relu, name="relu")
    alpha = (
        psi.features(normal(40_000, n, seed=9)) * psi.features(normal(40_000, n, seed=10))
    ).sum(-1)
    assert (alpha == 0).double().mean().item() == pytest.approx(0.75**n, abs=0.01)


def test_the_score_in_the_plane_has_the_laplace_distribution() -> None:
    scores = (normal(200_000, 2, seed=11) * normal(200_000, 2, seed=12)).sum(-1)
    for width in (0.1, 1.0, 4.0):
        share = ((scores >= -width) & (scores <= 0)).double().mean().item()
        assert share == pytest.approx((1 - math.exp(-width)) / 2, abs=0.005)


@pytest.mark.parametrize("phi", POINTWISE, ids=lambda phi: phi.name)
@pytest.mark.parametrize(("factor", "moves"), [(1.0, False), (0.85, True)])
def test_permuting_the_context_moves_the_last_output_only_if_keys_move(phi, factor, moves) -> None:
    v = normal(6, 3, seed=13)
    order = torch.tensor([4, 2, 0, 3, 1, 5])
    plain = constant(factor, 6, phi).apply(v)[-1]
    permuted = constant(factor, 6, phi, order=order).apply(v[order])[-1]
    assert ((plain - permuted).abs().max().item() > 1e-6) == moves


@pytest.mark.parametrize("beta", [0.0, 0.5, 1.0, 1.5, 2.0])
def test_a_householder_step_has_one_eigenvalue_off_one(beta: float) -> None:
    z = torch.nn.functional.normalize(normal(1, 5, seed=14), dim=-1)
    step = evolution.Householder(direction=z, beta=torch.tensor([beta], dtype=F64)).dense(0, 5)
    found = torch.linalg.eigvalsh(step)
    wanted = torch.tensor([1 - beta, 1, 1, 1, 1], dtype=F64)
    torch.testing.assert_close(found, wanted, rtol=0, atol=1e-12)
    orthogonal = torch.allclose(step @ step.T, torch.eye(5, dtype=F64))
    assert orthogonal == (beta in (0.0, 2.0))


def test_two_reflections_turn_by_twice_their_angle() -> None:
    angle = 0.3
    z = torch.tensor([[math.cos(angle), math.sin(angle)], [1.0, 0.0]], dtype=F64)
    mirrors = evolution.Householder(direction=z, beta=torch.full((2,), 2.0, dtype=F64))
    turn = mirrors.dense(1, 2) @ mirrors.dense(0, 2)
    c, s = math.cos(2 * angle), math.sin(2 * angle)
    wanted = torch.tensor([[c, s], [-s, c]], dtype=F64)
    torch.testing.assert_close(turn, wanted)


@pytest.mark.parametrize("eta", [normalizer.One(), powers()], ids=["one", "powers"])
def test_exp_overflows_without_a_row_sum(eta) -> None:
    horizon = math.ceil(math.log(math.log(torch.finfo(torch.float32).max) / 2) / math.log(1.05))
    column = growing(readout.exp, eta)[:, 0]
    assert int(column.isinf().nonzero()[0]) == horizon


@pytest.mark.parametrize("phi", [readout.softplus, readout.relu], ids=lambda phi: phi.name)
def test_readouts_of_linear_growth_are_bounded_by_the_powers(phi) -> None:
    assert growing(phi, powers()).max() < 2.5
    assert growing(phi, normalizer.One()).max() > 500


@pytest.mark.parametrize("phi", POINTWISE, ids=lambda phi: phi.name)
def test_a_row_sum_keeps_every_weight_between_zero_and_one(phi) -> None:
    weights = growing(phi, normalizer.RowSum())
    assert weights.min() >= 0 and weights.max() <= 1
    torch.testing.assert_close(weights.sum(-1), torch.ones(128))
