"""The analyses where growth, masks, precision or the batch leave the middle of the road."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from torch.nn import functional

from coefdyn import CoefficientDynamics, analysis, evolution, mask, normalizer, readout
from coefdyn.analysis.spectra import transition_moduli
from coefdyn.execution.restrictions import absorbed

F64 = torch.float64
LENGTH, N = 800, 3


class Turning(evolution.Scalar):
    """A structure of one's own: a rotation in the first two channels."""

    def rotate(self, h: torch.Tensor, t: int) -> torch.Tensor:
        return torch.stack([-h[..., 1], h[..., 0], h[..., 2]], -1)


def evolutions(rate: float) -> dict[str, evolution.Evolution]:
    """Every structure, growing by ``rate`` nats per token along the first channel."""
    along = functional.one_hot(torch.zeros(LENGTH, dtype=torch.long), N).to(F64)
    zeros, g = torch.zeros(LENGTH, dtype=F64), torch.full((LENGTH,), rate, dtype=F64)
    channels = g[:, None] * along
    return {
        "scalar": evolution.Scalar(log_decay=g),
        "diagonal": evolution.Diagonal(log_decay=channels),
        "householder": evolution.Householder(direction=along, beta=-(g.expm1())),
        "scaled": evolution.Householder(direction=along, beta=zeros, log_decay=g),
        "rank one": evolution.DiagonalPlusRankOne(log_decay=channels, left=0 * along, right=along),
        "dense": evolution.Dense(matrix=torch.diag_embed(channels.exp())),
        "own": Turning(log_decay=g),
    }


def of(e: evolution.Evolution, key: tuple[float, ...] = (1.0, 0.0, 0.0)) -> CoefficientDynamics:
    """Identity readout, eta = 1, all keys alike."""
    k = torch.tensor(key, dtype=F64).expand(LENGTH, N).contiguous()
    return CoefficientDynamics(
        q=k,
        k=k,
        evolution=e,
        scaling=1.0,
        readout=readout.identity,
        normalizer=normalizer.One(),
    )


@pytest.mark.parametrize("rate", [1.5, -10.0])
@pytest.mark.parametrize("structure", list(evolutions(0.0)))
def test_growth_and_decay_beyond_the_range_of_float64(structure: str, rate: float) -> None:
    found = analysis.stability(of(evolutions(rate)[structure]))
    assert found.growth_rate == pytest.approx(rate, rel=1e-5)  # 1 - e^-10 is rounded
    assert found.growth_nats == pytest.approx(max(rate, 0.0) * (LENGTH - 1))
    expected = 88.7228 / rate if rate > 0 else math.inf
    assert found.horizon_tokens == pytest.approx(expected, rel=1e-4)
    common = structure in ("scalar", "scaled", "own")
    assert found.largest_norm == pytest.approx(math.exp(rate if common else max(rate, 0.0)))


def test_growth_in_a_single_step_beyond_the_range() -> None:
    found = analysis.stability(of(evolutions(800.0)["diagonal"]))
    assert found.growth_rate == pytest.approx(800.0)
    assert found.largest_norm == math.inf


def test_a_key_that_is_erased_has_no_growth() -> None:
    z = torch.zeros(LENGTH, N, dtype=F64)
    z[:, 0] = 1.0
    e = evolution.Householder(direction=z, beta=torch.ones(LENGTH, dtype=F64))
    assert analysis.stability(of(e)).growth_rate == -math.inf
    assert analysis.stability(of(e)).horizon_tokens == math.inf


@pytest.mark.parametrize("structure", list(evolutions(0.0)))
@pytest.mark.parametrize("phi", ["identity", "exp"])
def test_an_outer_decay_counts_as_a_factor_of_a(structure: str, phi: str) -> None:
    c = torch.linspace(0.1, 0.5, 40, dtype=F64)
    outer = replace(of(evolutions(0.3)[structure]).narrow(0, 40), outer_log_decay=c)
    twin = absorbed(outer)
    outer = replace(outer, readout=getattr(readout, phi))
    if structure == "own":
        twin = replace(outer, evolution=Turning(log_decay=c + 0.3), outer_log_decay=None)
    one, two = analysis.stability(outer), analysis.stability(twin)
    for name in ("largest_norm", "growth_nats", "growth_rate", "horizon_tokens"):
        assert getattr(one, name) == pytest.approx(getattr(two, name)), name
    if phi == "identity":
        found, expected = analysis.spectrum(outer), analysis.spectrum(twin)
        assert found.largest_modulus == pytest.approx(expected.largest_modulus)
        torch.testing.assert_close(
            found.transition[1:].abs().sort(-1).values,
            expected.transition[1:].abs().sort(-1).values,
        )
        torch.testing.assert_close(
            transition_moduli(outer).reshape(39, -1).amax(-1),
            transition_moduli(twin).reshape(39, -1).amax(-1),
        )


def test_an_outer_decay_tells_positions_apart() -> None:
    d = replace(of(evolution.Identity()).narrow(0, 12), readout=readout.exp)
    decayed = replace(d, outer_log_decay=torch.full((12,), -0.1, dtype=F64))
    assert analysis.positional_information(decayed, 2, 7).separated
    assert analysis.report(decayed).evolves
    assert "evolution: yes" in str(analysis.report(decayed))
    windowed = replace(d, mask=mask.Window(3))
    assert analysis.positional_information(windowed, 2, 7).separated
    assert "from the mask" in str(analysis.report(windowed))
    assert not analysis.positional_information(d, 2, 7).separated


@pytest.mark.parametrize("rate", [2.0, -50.0])
def test_positions_beyond_the_range(rate: float) -> None:
    d = of(evolutions(rate)["diagonal"])
    assert analysis.positional_information(d, 0, 5).separated
    assert not analysis.positional_information(of(evolutions(0.0)["diagonal"]), 0, 5).separated


def test_positions_in_float32_are_not_told_apart_by_rounding() -> None:
    generator = torch.Generator().manual_seed(0)
    q, k = torch.randn(2, 33, 64, generator=generator).unbind(0)
    d = CoefficientDynamics(
        q=q,
        k=k,
        evolution=evolution.Identity(),
        scaling=1.0,
        readout=readout.exp,
        normalizer=normalizer.One(),
    )
    for dtype in (torch.float32, torch.bfloat16):
        for later in range(1, 33):
            assert not analysis.positional_information(d.to(dtype), 0, later).separated


def test_a_mask_s_zeros_are_not_counted() -> None:
    generator = torch.Generator().manual_seed(0)
    q, k = torch.randn(2, 40, 4, generator=generator, dtype=F64).unbind(0)
    d = CoefficientDynamics(
        q=q,
        k=k,
        evolution=evolution.Identity(),
        scaling=1.0,
        readout=readout.softplus,
        normalizer=normalizer.One(),
        mask=mask.Window(3),
    )
    alpha = d.coefficients()
    pairs = [(i, j) for i in range(40) for j in range(max(0, i - 2), i + 1)]
    share = sum(alpha[pair].item() <= 0.5 for pair in pairs) / len(pairs)
    assert analysis.selectivity(d, 0.5).near_zero_fraction == pytest.approx(share)
    assert 0.2 < share < 0.8
    assert analysis.simultaneous_zeros(d, 1e-9).sum().item() == 0


def random_features(dtype: torch.dtype = F64) -> CoefficientDynamics:
    generator = torch.Generator().manual_seed(0)
    q, k = torch.randn(2, 12, 8, generator=generator, dtype=dtype).unbind(0)
    weight = torch.randn(8, 16, generator=generator, dtype=dtype) / 8
    return CoefficientDynamics(
        q=q,
        k=k,
        evolution=evolution.Identity(),
        scaling=1.0,
        readout=readout.FeatureMap(lambda x: (x @ weight).exp()),
        normalizer=normalizer.RowSum(),
    )


@pytest.mark.parametrize("dtype", [F64, torch.float32])
def test_feature_maps_that_know_n(dtype: torch.dtype) -> None:
    d = random_features(dtype)
    assert analysis.combination_class(d) is analysis.CombinationClass.CONVEX
    assert analysis.report(d).observed_class is analysis.CombinationClass.CONVEX
    assert transition_moduli(d).isfinite().all()
    signed = replace(d, readout=readout.FeatureMap(lambda x: x - x.mean(-1, keepdim=True)))
    assert analysis.combination_class(signed) is analysis.CombinationClass.AFFINE


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("structure", ["rank one", "dense", "own", "diagonal"])
def test_half_precision_equals_what_it_holds(structure: str, dtype: torch.dtype) -> None:
    d = of(evolutions(-0.25)[structure], (0.5, 1.0, -1.0)).narrow(0, 12).to(dtype)
    d = replace(d, normalizer=normalizer.RowSum(), readout=readout.exp)
    angles = torch.tensor([[0.25, 0.5, -0.5]], dtype=dtype)
    found = analysis.spectrum(d, angles=angles)
    expected = analysis.spectrum(d.to(torch.float64), angles=angles.double())
    for name in ("eigenvalues", "transition"):
        one, two = getattr(found, name)[1:], getattr(expected, name)[1:]
        torch.testing.assert_close(one.abs().sort(-1).values.double(), two.abs().sort(-1).values)
    assert analysis.report(d).observed_class is analysis.CombinationClass.CONVEX
    assert analysis.report(d).stability == analysis.report(d.to(torch.float64)).stability


def test_moduli_where_eta_leaves_the_range() -> None:
    grown = replace(of(evolutions(1.0)["scalar"]), normalizer=normalizer.RowSum())
    for eta in (normalizer.RowSum(), normalizer.FlooredRowSum(2.0)):
        moduli = transition_moduli(replace(grown, normalizer=eta))
        assert moduli[-10:].tolist() == pytest.approx([1.0] * 10)
    hot = replace(
        of(evolution.Identity(), (60.0, 0.0, 0.0)).narrow(0, 6),
        readout=readout.exp,
        normalizer=normalizer.RowSum(),
    )
    counted = [t / (t + 1) for t in range(1, 6)]
    assert transition_moduli(hot).tolist() == pytest.approx(counted)
    assert analysis.spectrum(hot.to(torch.float32)).transition[1:, 0].real.tolist() == (
        pytest.approx(counted)
    )
    for sink in (3600.0, torch.full((6,), 3600.0, dtype=F64)):  # as much as one more key
        sunk = replace(hot, normalizer=normalizer.RowSum(sink))
        assert transition_moduli(sunk).tolist() == pytest.approx(
            [(t + 1) / (t + 2) for t in range(1, 6)]
        )


def test_batches_without_sequences_are_refused_in_words() -> None:
    d = of(evolution.Identity()).narrow(0, 6)
    none = replace(d, q=d.q.expand(0, 6, N), k=d.k.expand(0, 6, N))
    for asked in (
        analysis.report,
        analysis.stability,
        analysis.spectrum,
        analysis.selectivity,
        lambda x: analysis.positional_information(x, 0, 2),
        lambda x: analysis.observed_class(x.coefficients()),
    ):
        with pytest.raises(ValueError, match="at least one sequence"):
            asked(none)
