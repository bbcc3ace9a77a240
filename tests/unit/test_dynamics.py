"""The contract of CoefficientDynamics: extremes, empty rows, and messages for bad input."""

from __future__ import annotations

import math

import pytest
import torch
from torch.nn import functional

from coefdyn import CoefficientDynamics, evolution, normalizer, readout
from coefdyn.execution.apply import resolve
from coefdyn.shapes import broadcast_shapes

PLAIN = {
    "evolution": evolution.Identity(),
    "scaling": 1.0,
    "readout": readout.identity,
    "normalizer": normalizer.One(),
}


def build(**changes: object) -> CoefficientDynamics:
    """A small valid design with some arguments replaced."""
    arguments = {"q": torch.ones(3, 2), "k": torch.ones(3, 2), **PLAIN, **changes}
    return CoefficientDynamics(**arguments)


@pytest.mark.parametrize("method", ["reference", "parallel", "recurrent"])
@pytest.mark.parametrize("eta", [normalizer.RowSum(), normalizer.FlooredRowSum(1.0)])
@pytest.mark.parametrize("size", [1.0, 30.0, 200.0])
def test_exponential_gates_stay_finite(
    method: str, eta: normalizer.Normalizer, size: float
) -> None:
    generator = torch.Generator().manual_seed(0)
    length, n, dv = 40, 8, 4
    q, k, v = (torch.randn(length, width, generator=generator) for width in (n, n, dv))
    gate_i, gate_f = (size * (2 * torch.rand(length, generator=generator) - 1) for _ in range(2))

    def mlstm(dtype: torch.dtype) -> CoefficientDynamics:
        return CoefficientDynamics(
            q=q.to(dtype),
            k=k.to(dtype),
            evolution=evolution.Scalar(log_decay=gate_f.to(dtype)),
            scaling=n**-0.5,
            log_scaling=gate_i.to(dtype),
            readout=readout.identity,
            normalizer=eta,
        )

    expected = mlstm(torch.float64).apply(v.double(), "reference")
    got = mlstm(torch.float32).apply(v, method)
    # the identity readout's row sum can nearly cancel; float32 then keeps about 4 digits
    assert torch.isfinite(got).all()
    assert (got - expected).norm() / expected.norm() < 2e-4


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_softmax_with_huge_scores(dtype: torch.dtype) -> None:
    generator = torch.Generator().manual_seed(1)
    q, k = (100 * torch.randn(30, 16, generator=generator, dtype=dtype) for _ in range(2))
    v = torch.randn(30, 4, generator=generator, dtype=dtype)
    d = CoefficientDynamics(
        q=q, k=k, **{**PLAIN, "readout": readout.exp, "normalizer": normalizer.RowSum()}
    )
    assert (q @ k.T).abs().max() > 1e4
    expected = functional.scaled_dot_product_attention(
        q[None].double(), k[None].double(), v[None].double(), is_causal=True, scale=1.0
    )[0]
    for method in ("reference", "parallel"):
        assert (d.apply(v, method) - expected).abs().max() < 1e-5
    assert torch.allclose(d.coefficients(normalized=True).sum(-1), torch.ones(30, dtype=dtype))


def test_one_position_and_unbatched() -> None:
    d = build(q=torch.full((1, 2), 2.0), k=torch.full((1, 2), 3.0), scaling=0.5)
    assert d.coefficients().item() == 6.0
    assert d.apply(torch.ones(1, 4)).tolist() == [[6.0] * 4]


def test_leading_axes_broadcast() -> None:
    d = build(q=torch.randn(4, 1, 3, 2), k=torch.randn(1, 5, 3, 2), scaling=torch.ones(3))
    assert d.batch_shape == (4, 5)
    assert d.coefficients().shape == (4, 5, 3, 3)
    assert d.apply(torch.randn(4, 5, 3, 6), "recurrent").shape == (4, 5, 3, 6)


def test_flip_is_expressible() -> None:
    sign = torch.tensor([1.0, -1.0, -1.0])
    d = build(evolution=evolution.Scalar(log_decay=torch.zeros(3), sign=sign))
    assert d.coefficients()[:, 0].tolist() == [2.0, -2.0, 2.0]


def test_states_is_the_impulse_response() -> None:
    decay = torch.full((3,), math.log(0.5))
    d = build(evolution=evolution.Scalar(log_decay=decay))
    assert torch.allclose(d.states(1), torch.tensor([[1.0, 1.0], [0.5, 0.5]]))
    with pytest.raises(ValueError, match="0 <= j < L = 3"):
        d.states(3)


def test_recurrent_explains_lemma_1(no_shape_checks: None) -> None:
    with pytest.raises(ValueError, match=r"Lemma 1.*Use method="):
        build(readout=readout.exp).apply(torch.ones(3, 1), "recurrent")
    with pytest.raises(ValueError, match="never forms the L x L matrix"):
        build().coefficients(method="recurrent")


def test_readouts_must_be_elementwise(no_shape_checks: None) -> None:
    with pytest.raises(ValueError, match="not elementwise"):
        readout.Pointwise(lambda s: s.softmax(-1), name="softmax")
    with pytest.raises(ValueError, match="not elementwise"):
        readout.Pointwise(lambda s: s.sum(-1), name="sum")
    with pytest.raises(ValueError, match="floor > 0"):
        normalizer.FlooredRowSum(0.0)
    wrong = readout.FeatureMap(lambda x: x.sum(-1), name="sum")
    with pytest.raises(ValueError, match="last axis only"):
        build(readout=wrong).apply(torch.ones(3, 1))


def test_features_that_are_nan_do_not_count_as_mixed_tokens() -> None:
    logarithm = readout.FeatureMap(torch.log)
    assert build(q=-torch.ones(3, 2), readout=logarithm).apply(torch.ones(3, 1)).isnan().all()


def test_a_nan_in_training_is_left_to_the_trainer() -> None:
    q = torch.full((3, 2), float("nan"), requires_grad=True)
    assert build(q=q).apply(torch.ones(3, 1)).isnan().all()


def test_auto_chooses_by_length_and_trains_a_learnable_readout() -> None:
    slope = torch.tensor(0.3, requires_grad=True)
    leaky = readout.Pointwise(lambda s: torch.where(s > 0, s, slope * s), name="leaky")
    x = torch.randn(300, 2, generator=torch.Generator().manual_seed(2))
    d = build(q=x, k=x, readout=leaky, normalizer=normalizer.One())
    d.apply(x).square().sum().backward()
    assert slope.grad is not None
    (want,) = torch.autograd.grad(d.apply(x, "reference").square().sum(), slope)
    torch.testing.assert_close(slope.grad, want, rtol=1e-4, atol=0)
    assert want.abs() > 0
    short, long = build(), build(q=x, k=x)
    assert resolve(short, "auto") is resolve(short, "parallel")
    assert resolve(long, "auto") is resolve(long, "chunked")


@pytest.mark.parametrize("method", ["reference", "parallel", "recurrent"])
def test_a_floor_keeps_all_its_digits(method: str) -> None:
    dynamics = build(
        q=torch.full((3, 2), 0.01, dtype=torch.float64),
        k=torch.ones(3, 2, dtype=torch.float64),
        normalizer=normalizer.FlooredRowSum(0.7),
    )
    out = dynamics.apply(torch.ones(3, 1, dtype=torch.float64), method)
    want = torch.tensor([[0.02], [0.04], [0.06]], dtype=torch.float64) / 0.7
    torch.testing.assert_close(out, want, rtol=1e-14, atol=0)


@pytest.mark.parametrize(
    "wrong",
    [
        {"q": torch.full((3, 2), torch.nan)},
        {"normalizer": normalizer.Given(torch.zeros(3))},
        {"evolution": evolution.Scalar(log_decay=torch.zeros(3), sign=torch.full((3,), 0.5))},
    ],
)
def test_numbers_are_judged_where_no_training_runs(wrong: dict[str, object]) -> None:
    """Not where gradients flow or are switched off: a run that diverges is a result. As written."""
    with pytest.raises(ValueError, match=r"NaN|zero|only \+1"):
        build(**wrong)
    with torch.no_grad():
        build(**wrong)
    assert "not under ``torch.no_grad()``" in (CoefficientDynamics.__doc__ or "")


@pytest.mark.parametrize(
    "shapes",
    [[()], [(3,), ()], [(2, 1), (1, 3)], [(4, 1, 1), (3, 2), (1,)], [(0, 1), (1, 2)], [(1,), (0,)]],
)
def test_shapes_broadcast_as_torch_does(shapes: list[tuple[int, ...]]) -> None:
    assert broadcast_shapes(*shapes) == tuple(torch.broadcast_shapes(*shapes))
