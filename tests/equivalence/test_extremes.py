"""Designs at the edge of their range: any scaling, masks, underflow, growth, autocast."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest
import torch
from designs import Inputs
from methods import cpu_methods
from tolerances import assert_agree
from torch.nn.functional import normalize

from coefdyn import CoefficientDynamics, evolution, normalizer, readout
from coefdyn.execution import policy

F32, F64 = torch.float32, torch.float64


def plain(q: torch.Tensor, k: torch.Tensor, **parts) -> CoefficientDynamics:
    start = {"evolution": evolution.Identity(), "scaling": 1.0}
    ends = {"readout": readout.identity, "normalizer": normalizer.One()}
    return CoefficientDynamics(q=q, k=k, **(start | ends | parts))


def everywhere(d: CoefficientDynamics, v: torch.Tensor, leaves: list[torch.Tensor]) -> torch.Tensor:
    """Every method agrees with the float64 reference, in y and in the gradient of every leaf.

    Returns y of that reference; in float64 it is not computed again to be compared with itself.
    """
    probe = torch.randn(v.shape, generator=torch.Generator().manual_seed(1), dtype=F64)
    want = d.to(F64).apply(v.double(), "reference")
    slopes = torch.autograd.grad(want, leaves, probe.to(want.dtype), retain_graph=True)
    methods = cpu_methods(d)[1:] if v.dtype == F64 else cpu_methods(d)
    for method in ("auto", *methods):
        y = d.apply(v, method)
        assert_agree(y, want, method="parallel", dtype=v.dtype, quantity="output", what=method)
        found = torch.autograd.grad(y, leaves, probe.to(y.dtype), retain_graph=True)
        for got, slope in zip(found, slopes, strict=True):
            assert_agree(
                got, slope, method="parallel", dtype=v.dtype, quantity="gradient", what=method
            )
    return want.detach()


def leaf(*shape: int, seed: int = 0, dtype: torch.dtype = F32) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=F64).to(dtype).requires_grad_()


@pytest.mark.parametrize("dtype", [F32, F64])
@pytest.mark.parametrize("scaling", [0.0, -0.001, -1.0, 0.5])
def test_softmax_with_any_constant_scaling(scaling: float, dtype: torch.dtype) -> None:
    q, k, v = (leaf(9, 4, seed=i, dtype=dtype) for i in range(3))
    everywhere(
        plain(q, k, scaling=scaling, readout=readout.exp, normalizer=normalizer.RowSum()), v, [v]
    )


@pytest.mark.parametrize("eta", [normalizer.One(), normalizer.FlooredRowSum()])
@pytest.mark.parametrize("decayed", [False, True])
@pytest.mark.parametrize(
    ("phi", "k"),
    [
        (readout.exp, [[2.0, 1.0], [100.0, -97.0]]),  # q_0 k_1 = 197: exp is infinite there
        (readout.Pointwise(torch.sqrt, name="sqrt"), [[2.0, 1.0], [1.0, 2.0]]),  # q_0 k_1 = -1
        (readout.Pointwise(lambda s: s**1.5, name="power"), [[2.0, 1.0], [1.0, 2.0]]),
        (readout.Pointwise(torch.log, name="log"), [[2.0, 1.0], [1.0, 2.0]]),
    ],
)
def test_scores_of_the_future_reach_no_gradient(phi, k, decayed: bool, eta) -> None:
    """A pair that no output depends on may lie where phi has no value."""
    q = torch.tensor([[1.0, -1.0], [1.0, 1.0]], requires_grad=True)
    k = torch.tensor(k, requires_grad=True)
    gate = torch.tensor([0.0, -0.1])
    a = evolution.Scalar(log_decay=gate) if decayed else evolution.Identity()
    v = torch.tensor([[1.0, 2.0], [3.0, -1.0]])
    everywhere(plain(q, k, readout=phi, normalizer=eta, evolution=a), v, [q, k])


@pytest.mark.parametrize(
    ("structure", "eta"),
    [
        *itertools.product(["scalar", "diagonal", "scaled_householder"], ["one", "floored"]),
        *itertools.product(["scalar", "diagonal"], ["row_sum"]),
    ],
)
@pytest.mark.parametrize("mask", [torch.finfo(F32).min, -1e15, -1e9, -1e4])
@pytest.mark.parametrize("dtype", [F32, F64])
def test_decays_as_large_as_a_mask(dtype, mask: float, structure: str, eta: str) -> None:
    inputs = Inputs.draw(batch=(), length=40, dtype=dtype, seed=5)
    for name in ("log_decay", "channel_decay"):
        gate = inputs.leaves[name]
        inputs.leaves[name] = gate.detach().index_fill(0, torch.tensor([4, 11, 30]), mask)
    d = inputs.dynamics(structure, "identity", eta)
    if eta == "row_sum":  # of one sign, or it may be near 0
        positive = replace(d.evolution, sign=None)
        d = replace(d, q=d.q.abs(), k=d.k.abs(), evolution=positive)
    everywhere(d, inputs.v, [inputs.leaves["v"], inputs.leaves["q"]])


@pytest.mark.parametrize("eta", [normalizer.RowSum(), normalizer.FlooredRowSum(0.1)])
@pytest.mark.parametrize(("dtype", "length"), [(F32, 300), (F64, 800)])
def test_channels_that_take_turns_in_growing(dtype: torch.dtype, length: int, eta) -> None:
    """A nat per token for the larger channel: in all more than the dtype's range."""
    g = torch.empty(length, 2, dtype=dtype)
    g[0::2, 0], g[1::2, 0], g[0::2, 1], g[1::2, 1] = 1.0, -1.5, -1.5, 1.0
    one, v = torch.ones(length, 2, dtype=dtype), torch.linspace(1, 2, length, dtype=dtype)[:, None]
    d = plain(
        one,
        one,
        evolution=evolution.Diagonal(log_decay=g),
        normalizer=eta,
        log_scaling=torch.zeros(length, dtype=dtype),
    )
    want = everywhere(d, v.requires_grad_(), [v])
    half = length // 2
    y, state = d.narrow(0, half).extend(v[:half])
    y, _ = d.narrow(half, half).extend(v[half:], state)
    assert_agree(y, want[half:], method="chunked", dtype=dtype, quantity="step")


@pytest.mark.parametrize("phi", ["identity", "relu", "tanh"])
@pytest.mark.parametrize("length", [30, 180])
@pytest.mark.parametrize("growth", [0.25, 0.05, -0.1])
def test_householder_evolutions_that_grow(growth: float, length: int, phi: str) -> None:
    """beta takes away on average what the growth adds: no pair is large, all lie far apart."""
    q, k, v = (leaf(length, 3, seed=i, dtype=F64) for i in range(3))
    z = normalize(
        torch.randn(length, 3, generator=torch.Generator().manual_seed(4), dtype=F64), dim=-1
    )
    beta = torch.rand(length, generator=torch.Generator().manual_seed(5), dtype=F64)
    gate = torch.full((length,), growth, dtype=F64)
    phi = readout.Pointwise(torch.tanh) if phi == "tanh" else getattr(readout, phi)
    a = evolution.Householder(direction=z, beta=beta, log_decay=gate)
    everywhere(plain(q, k, evolution=a, readout=phi), v, [v, q])
    single = plain(q, k, evolution=a, readout=phi).to(F32)
    want = single.to(F64).apply(v.float().double(), "reference")
    for method in ("auto", "parallel", "chunked"):
        y = single.apply(v.float(), method)
        assert_agree(
            y, want, method=method if method != "auto" else "chunked", dtype=F32, quantity="output"
        )


@pytest.mark.parametrize("phi", ["relu", "exp", "identity"])
@pytest.mark.parametrize("method", ["auto", "parallel", "chunked", "reference"])
def test_autocast_is_kept_out(method: str, phi: str) -> None:
    inputs = Inputs.draw(batch=(), length=140, dtype=F32)
    d = inputs.dynamics("householder", phi, "one")
    d = replace(d, scaling=0.05)
    want = d.apply(inputs.v, method)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        got = d.apply(inputs.v, method)
        assert torch.equal(d.coefficients()[0], d.coefficients()[0].float())
    assert got.dtype == F32
    assert torch.equal(got, want)


@pytest.mark.parametrize("dtype", [F32, F64])
@pytest.mark.parametrize("phi", [readout.identity, readout.relu])
def test_a_row_sum_below_the_range_is_still_a_quotient(phi, dtype) -> None:
    """Token 1 writes nothing, and token 0 has faded below the smallest number: y_1 is v_0."""
    far = -110.0 if dtype == F32 else -800.0
    k = torch.tensor([[1.0], [0.0], [-1.0]], dtype=dtype)
    k = k if phi is readout.relu else k.clamp(min=0.0)
    gate = torch.tensor([0.0, far, 0.0], dtype=dtype)
    v = torch.tensor([[3.0], [5.0], [7.0]], dtype=dtype, requires_grad=True)
    d = plain(
        torch.ones_like(k),
        k,
        evolution=evolution.Scalar(log_decay=gate),
        readout=phi,
        normalizer=normalizer.RowSum(),
    )
    for method in ("auto", *cpu_methods(d)):
        y = d.apply(v, method)
        assert torch.allclose(y, torch.full_like(y, 3.0)), (method, y)
        (slope,) = torch.autograd.grad(y.sum(), v)
        assert torch.allclose(slope, torch.tensor([[3.0], [0.0], [0.0]], dtype=dtype)), method


@pytest.mark.parametrize("length", [5, 140])
def test_softplus_rows_below_the_range(length: int) -> None:
    q = (leaf(length, 2).abs() + 20.0).detach().requires_grad_()
    k = (-leaf(length, 2, seed=1).abs() - 6.0).detach().requires_grad_()
    d = plain(q, k, readout=readout.softplus, normalizer=normalizer.RowSum())
    assert d.coefficients().sum() == 0  # every coefficient is below float32
    everywhere(d, leaf(length, 3, seed=2), [q, k])


def test_a_floored_state_may_fade_and_grow_again() -> None:
    gate, logs = torch.tensor([0.0, -200.0, 100.0, 100.0]), torch.tensor([0.0, -300, -300, -300])
    one = torch.ones(4, 1)
    v = torch.tensor([[3.0], [0.0], [0.0], [0.0]], requires_grad=True)
    d = plain(
        one,
        one,
        evolution=evolution.Scalar(log_decay=gate),
        log_scaling=logs,
        normalizer=normalizer.FlooredRowSum(),
    )
    for method in cpu_methods(d):
        y = d.apply(v, method)
        assert torch.allclose(y[-1], torch.tensor([3.0])), method
        assert torch.isfinite(torch.autograd.grad(y.sum(), v)[0]).all()


@pytest.mark.parametrize("method", ["reference", "parallel", "chunked"])
def test_an_empty_row_under_a_floor_far_below_has_no_gradient(method: str) -> None:
    q, k = torch.ones(3, 1), -torch.ones(3, 1)
    v = torch.ones(3, 1, requires_grad=True)
    d = plain(
        q,
        k,
        readout=readout.relu,
        normalizer=normalizer.FlooredRowSum(),
        log_scaling=torch.tensor([95.0, 100.0, 88.0]),
    )
    y = d.apply(v, method)
    assert (y == 0).all()
    assert (torch.autograd.grad(y.sum(), v)[0] == 0).all()


@pytest.mark.parametrize("phi", [readout.exp, readout.softplus])
@pytest.mark.parametrize("method", ["reference", "parallel", "chunked", "auto"])
def test_log_scalings_beyond_float32_where_eta_cancels_them(method: str, phi) -> None:
    q, k, v = leaf(6, 2), leaf(6, 2, seed=1), leaf(6, 2, seed=2)
    logs = torch.tensor([0.0, 89.0, 91.0, 1.0, 95.0, 90.0])
    d = plain(q, k, readout=phi, normalizer=normalizer.RowSum(), log_scaling=logs)
    want = d.to(F64).apply(v.double(), "reference")
    assert_agree(d.apply(v, method), want, method="parallel", dtype=F32, quantity="output")


def test_coefficients_have_the_leading_axes_of_eta() -> None:
    q = leaf(5, 3)
    d = plain(q, q, normalizer=normalizer.Given(torch.ones(2, 5)))
    assert d.coefficients().shape == d.coefficients(normalized=True).shape == (2, 5, 5)


@pytest.mark.parametrize("phi", ["exp", "identity", "relu"])
def test_derivatives_that_a_kernel_has_not_are_refused_in_words(phi: str) -> None:
    x = leaf(6, 4, dtype=F64)
    eta = normalizer.RowSum() if phi == "exp" else normalizer.One()
    d = plain(x, x, readout=getattr(readout, phi), normalizer=eta)
    (slope,) = torch.autograd.grad(d.apply(x, "chunked").sum(), x, create_graph=True)
    with pytest.raises(RuntimeError, match=r"second derivative .* method='parallel'"):
        slope.sum().backward()

    def run(v: torch.Tensor) -> torch.Tensor:
        return d.apply(v, "chunked")

    with pytest.raises(RuntimeError, match=r"forward-mode .* method='parallel'"):
        torch.func.jvp(run, (x.detach(),), (x.detach(),))


def test_auto_asks_for_triton_on_a_gpu_where_it_has_a_kernel(monkeypatch) -> None:
    """On a CUDA device; here the device and triton's own check are stood in for."""
    inputs = Inputs.draw(length=300)
    d = inputs.dynamics("scalar", "identity", "one")
    monkeypatch.setattr(policy, "check_triton", lambda dynamics: None)
    assert policy.choose(d) == "chunked"
    monkeypatch.setattr(CoefficientDynamics, "device", torch.device("cuda"))
    assert policy.choose(d, value_dim=3) == "triton"
    assert policy.choose(d, value_dim=300) == "chunked"

    def refuse(dynamics: CoefficientDynamics) -> None:
        raise ValueError("no kernel")

    monkeypatch.setattr(policy, "check_triton", refuse)
    assert policy.choose(d, value_dim=3) == "chunked"


@pytest.mark.parametrize("eta", [normalizer.RowSum(), normalizer.FlooredRowSum(1.0)])
@pytest.mark.parametrize("phi", [readout.identity, readout.relu], ids=["identity", "relu"])
@pytest.mark.parametrize("nats", [300.0, 5000.0])
def test_loud_writes_keep_their_digits_where_a_sequence_is_continued(
    nats: float, phi: readout.Readout, eta: normalizer.Normalizer
) -> None:
    """The scale of a state is hundreds of nats, and float32 holds 5000 of them to 5e-4."""
    inputs = Inputs.draw((2,), 150, 4, 6)
    q, k, v = (inputs.leaves[name].detach().float() for name in "qkv")
    generator = torch.Generator().manual_seed(1)
    loud, fade = (torch.randn(2, 150, generator=generator) for _ in range(2))
    d = plain(
        q.abs(),
        k.abs(),
        evolution=evolution.Scalar(log_decay=-0.05 * fade.abs()),
        log_scaling=nats + 3 * loud,
        readout=phi,
        normalizer=eta,
    )
    want, found = d.to(F64).apply(v.double(), "reference"), [d.apply(v), d.apply(v, "parallel")]
    for size in (1, 7, 64):
        state, outputs = None, []
        for t in range(0, 150, size):
            piece = slice(t, min(t + size, 150))
            y, state = d.narrow(t, piece.stop - t).extend(v[:, piece], state)
            outputs.append(y)
        found.append(torch.cat(outputs, -2))
    for got in found:
        assert ((got.double() - want).norm() / want.norm()).item() < 3e-6
