"""Growth beside erasure: every method that does not refuse is right, forward, gradients, extend.

Designs grow in single channels, outside phi, in log scalings or by the erasure itself, under every
eta, in float32 and float64. What rounding of the inputs does to the reference is allowed to all.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from tolerances import relative_error, tolerance
from torch.nn.functional import normalize

from coefdyn import CoefficientDynamics, evolution, normalizer, readout
from coefdyn.execution.apply import resolve
from coefdyn.execution.growth import grows, horizon_tokens
from coefdyn.execution.state import has_finite_state

F32, F64 = torch.float32, torch.float64
Tensors = dict[str, torch.Tensor]
Build = Callable[[Tensors], CoefficientDynamics]
TANH = readout.Pointwise(torch.tanh, name="tanh")
PHIS = (readout.identity, readout.relu, readout.exp, TANH)
#: seeds that draw each readout, eta, structure, length, and kind of growth
EVERY_CHOICE = (1, 2, 4, 5, 8, 10, 12, 14)
NIGHTLY = pytest.mark.nightly("seeds that draw every choice")


def drawn(rng: random.Random) -> tuple[Tensors, Build]:
    """Inputs in float64, and the design that they make in any dtype."""
    length, n = rng.choice((33, 70, 140)), rng.choice((3, 4))
    generator = torch.Generator().manual_seed(rng.randrange(10**6))

    def normal(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=generator, dtype=F64)

    def uniform(*shape: int) -> torch.Tensor:
        return torch.rand(*shape, generator=generator, dtype=F64)

    rate, phi, eta = (
        rng.choice((0.05, 0.25, 0.5)),
        rng.choice(PHIS),
        rng.choice(("one", "row_sum", "floored")),
    )
    kind, structure = (
        rng.choice(("gate", "outer", "log", "beta")),
        rng.choice(("plain", "scaled", "rank one")),
    )
    x = {"q": uniform(length, n), "k": uniform(length, n), "v": normal(length, 2)}
    x["z"], x["beta"] = normalize(normal(length, n), dim=-1), uniform(length)
    if kind == "beta":
        x["beta"] = torch.where(torch.arange(length) < length // 2, 0.5, -rate)
    channels = torch.full((length, n), -0.5, dtype=F64)
    channels[:, 0] = rate if kind == "gate" else -0.1
    if structure == "rank one":
        x["g"], x["left"] = channels, x["beta"][:, None] * x["z"] * channels.exp()
    if structure == "scaled":
        x["g"] = torch.full((length,), rate if kind == "gate" else -0.1, dtype=F64)
    if kind == "outer":
        x["c"] = torch.full((length,), rate, dtype=F64)
    if kind == "log":
        x["l"] = -rate * torch.arange(length, dtype=F64)

    def build(x: Tensors) -> CoefficientDynamics:
        if structure == "rank one":
            a = evolution.DiagonalPlusRankOne(log_decay=x["g"], left=x["left"], right=x["z"])
        elif structure == "scaled":
            a = evolution.Householder(direction=x["z"], beta=x["beta"], log_decay=x["g"])
        else:
            a = evolution.Householder(direction=x["z"], beta=x["beta"])
        table = {"one": normalizer.One(), "row_sum": normalizer.RowSum()}
        return CoefficientDynamics(
            q=x["q"],
            k=x["k"],
            evolution=a,
            scaling=1.0,
            readout=phi,
            normalizer=table.get(eta, normalizer.FlooredRowSum()),
            log_scaling=x.get("l"),
            outer_log_decay=x.get("c"),
        )

    return x, build


def computed(x: Tensors, build: Build, method: str, dtype: torch.dtype) -> Tensors:
    """y and every gradient of one method."""
    leaves = {name: value.to(dtype).detach().requires_grad_() for name, value in x.items()}
    d, v = build(leaves), leaves["v"]
    if method == "extend":
        y, state = d.narrow(0, 20).extend(v[:20])
        y = torch.cat([y, d.narrow(20, d.length - 20).extend(v[20:], state)[0]])
    elif method == "coefficients":
        y = d.coefficients(normalized=True) @ v
    else:
        y = d.apply(v, method)
    probe = torch.linspace(-1, 1, y.numel(), dtype=dtype).view_as(y)
    slopes = torch.autograd.grad(y, list(leaves.values()), probe, allow_unused=True)
    return {"y": y, **{n: g for n, g in zip(leaves, slopes, strict=True) if g is not None}}


def methods_of(d: CoefficientDynamics) -> list[str]:
    found = ["auto", "parallel", "extend", "coefficients"]
    for method in ("chunked", "recurrent"):
        try:
            resolve(d, method)
        except ValueError:
            continue
        found.append(method)
    return found


@pytest.mark.parametrize("dtype", [F32, F64])
@pytest.mark.parametrize(
    "seed", [pytest.param(s, marks=() if s in EVERY_CHOICE else NIGHTLY) for s in range(24)]
)
def test_designs_that_grow(seed: int, dtype: torch.dtype) -> None:
    x, build = drawn(random.Random(seed))
    x = {name: value.to(dtype).double() for name, value in x.items()}
    want, eps = computed(x, build, "reference", F64), torch.finfo(dtype).eps
    noise = torch.Generator().manual_seed(seed)
    moved = {
        n: t * (1 + eps * torch.randn(t.shape, generator=noise, dtype=F64)) for n, t in x.items()
    }
    shaken, own = computed(moved, build, "reference", F64), computed(x, build, "reference", dtype)
    largest = max(value.norm() for name, value in want.items() if name != "y")
    for method in methods_of(build({n: t.to(dtype) for n, t in x.items()})):
        got = computed(x, build, method, dtype)
        for name, value in want.items():
            if name != "y" and value.norm() < 1e-3 * largest:
                continue
            limit = tolerance("parallel", dtype, "output" if name == "y" else "gradient")
            known = (relative_error(y[name], value) for y in (shaken, own))
            limit = max(limit, *(30 * error for error in known))
            assert relative_error(got[name], value) <= limit, (method, name, build(x))


def test_a_refusal_names_the_horizon_and_auto_goes_on() -> None:
    x = normalize(torch.randn(300, 4, generator=torch.Generator().manual_seed(0)), dim=-1)
    a = evolution.Householder(direction=x, beta=torch.full((300,), 0.9))
    d = CoefficientDynamics(
        q=x.abs(),
        k=x.abs(),
        evolution=a,
        scaling=1.0,
        readout=readout.identity,
        normalizer=normalizer.FlooredRowSum(1e-3),
        outer_log_decay=torch.full((300,), 0.4),
    )
    with pytest.raises(ValueError, match=r"the first 13 of 300 tokens\. Use method='auto'"):
        d.apply(x, "chunked")
    want = d.to(F64).apply(x.double(), "reference")
    assert relative_error(d.apply(x), want) < 1e-4


def test_benign_designs_do_not_grow() -> None:
    """beta of at most 2 along a unit key, KDA's form and negative decays stay on the fast path."""
    generator = torch.Generator().manual_seed(0)
    z = normalize(torch.randn(500, 16, generator=generator), dim=-1)
    g = -torch.rand(500, 16, generator=generator)
    beta = 2 * torch.rand(500, generator=generator)
    a = evolution.Householder(direction=z, beta=beta)
    kda = evolution.DiagonalPlusRankOne(log_decay=g, left=beta[:, None] * z, right=g.exp() * z)
    for one in (a, kda):
        d = CoefficientDynamics(
            q=z, k=z, evolution=one, scaling=1.0, readout=readout.exp, normalizer=normalizer.One()
        )
        assert not grows(d)
        assert horizon_tokens(d) == 500


@pytest.mark.parametrize(
    "dtype", [F32, pytest.param(F64, marks=pytest.mark.nightly("the same in float32"))]
)
@pytest.mark.parametrize("eta", [normalizer.RowSum(), normalizer.FlooredRowSum(1.0)])
@pytest.mark.parametrize("structure", ["diagonal", "rank one"])
def test_an_outer_growth_out_of_range_beside_decays_per_channel(
    structure: str, eta: normalizer.Normalizer, dtype: torch.dtype
) -> None:
    """eta cancels what a state in A_t's own scale could not hold: 139 tokens of 8 nats."""
    generator = torch.Generator().manual_seed(0)

    def uniform(*shape: int) -> torch.Tensor:
        return torch.rand(*shape, generator=generator, dtype=F64).to(dtype).double()

    length, n = 140, 3
    x = {"q": uniform(length, n), "k": uniform(length, n), "v": uniform(length, 2) - 0.5}
    x |= {"g": -0.1 * uniform(length, n), "c": torch.full((length,), 8.0, dtype=F64)}
    x |= {"left": 0.3 * uniform(length, n), "right": 0.3 * uniform(length, n)}

    def build(x: Tensors) -> CoefficientDynamics:
        sides = {"left": x["left"], "right": x["right"]}
        a = evolution.Diagonal(log_decay=x["g"])
        if structure == "rank one":
            a = evolution.DiagonalPlusRankOne(log_decay=x["g"], **sides)
        return CoefficientDynamics(
            q=x["q"],
            k=x["k"],
            evolution=a,
            scaling=1.0,
            readout=readout.identity,
            normalizer=eta,
            outer_log_decay=x["c"],
        )

    want, own = (computed(x, build, "reference", kind) for kind in (F64, dtype))
    for method in ("auto", "parallel", "chunked", "coefficients"):
        got = computed(x, build, method, dtype)
        for name, value in want.items():
            limit = tolerance("parallel", dtype, "output" if name == "y" else "gradient")
            limit = max(limit, 30 * relative_error(own[name], value))
            assert relative_error(got[name], value) <= limit, (method, name)
    d, v, state, outputs = build(x).to(dtype), x["v"].to(dtype), None, []
    for start, size in ((0, 60), (60, 70), *((i, 1) for i in range(130, length))):
        y, state = d.narrow(start, size).extend(v[start : start + size], state)
        outputs.append(y)
    limit = max(tolerance("parallel", dtype, "step"), 30 * relative_error(own["y"], want["y"]))
    assert relative_error(torch.cat(outputs), want["y"]) <= limit
    few = d.narrow(0, 2).extend(v[:2])[1]
    for refused in (
        lambda: d.apply(v, "recurrent"),
        lambda: d.narrow(2, 100).extend(v[2:102], few),
    ):
        with pytest.raises(ValueError, match="outgrows the dtype beside decays per channel"):
            refused()
    benign = replace(build(x), outer_log_decay=torch.full((length,), 0.05, dtype=F64))
    assert has_finite_state(benign) and not has_finite_state(build(x))
