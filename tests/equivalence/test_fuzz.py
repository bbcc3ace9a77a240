"""Random designs at ordinary and at hard places: every method against the float64 reference.

Each draw mixes what tables of designs leave apart: scalings of both signs and zero, d_v = n, scores
out of range, masks as decays, channels that take turns in growing, growth, autocast, readouts of
one's own, and lengths on both sides of where "auto" changes its method. Gradients of every input
are compared in float64, where they hold to the table of tolerances.
"""

from __future__ import annotations

import contextlib
import random
from dataclasses import replace

import pytest
import torch
from designs import STRUCTURES, Inputs
from methods import cpu_methods
from tolerances import assert_agree

from coefdyn import CoefficientDynamics, evolution, mask, normalizer, readout
from coefdyn.execution.policy import PARALLEL_UP_TO

LENGTHS = (1, 2, 9, *(limit + more for limit in (32, 64, 128) for more in (0, 1)))
READOUTS = (
    readout.identity,
    readout.exp,
    readout.relu,
    readout.softplus,
    readout.Pointwise(lambda s: torch.nn.functional.leaky_relu(s, 0.2), name="leaky"),
    readout.Pointwise(lambda s: s.square(), name="square"),
)
MASKS = (torch.finfo(torch.float32).min, -1e9, -1e4)


def drawn(rng: random.Random, dtype: torch.dtype) -> tuple[CoefficientDynamics, Inputs]:
    """One design; sums that eta divides by are of one sign, or no method could agree on them."""
    phi, eta = rng.choice(READOUTS), rng.choice(("one", "row_sum", "floored", "given"))
    inputs = Inputs.draw(
        batch=rng.choice([(), (2,), (1, 2)]),
        length=rng.choice(LENGTHS),
        n=3,
        dv=rng.choice([3, 2]),
        dtype=dtype,
        seed=rng.randrange(10**6),
    )
    x = inputs.leaves
    with torch.no_grad():
        if rng.random() < 0.3:  # a mask among the decays
            for name in ("log_decay", "channel_decay"):
                x[name][..., x[name].shape[-1] // 2 :: 7] = rng.choice(MASKS)
        elif rng.random() < 0.3:  # channels take turns in growing; all of them shrink on the whole
            x["channel_decay"][..., 0::2, 0] = 0.5
            x["channel_decay"][..., 1::2, 0] = -0.8
            x["log_decay"] += 0.1
        if eta == "row_sum" and not phi.same_as(readout.exp):
            for name in ("q", "k"):
                x[name].abs_()
            inputs.signs["sign"].fill_(1.0)
            inputs.signs["channel_sign"].fill_(1.0)
    evolves = ["identity", "scalar", "diagonal"]
    signed = eta != "row_sum" or phi.same_as(readout.exp) or phi.same_as(readout.softplus)
    d = inputs.dynamics(rng.choice(STRUCTURES if signed else evolves), "identity", eta)
    scaling = rng.choice([0.0, -0.3, 0.5, d.scaling]) if signed else rng.choice([0.5, d.scaling])
    logs = x["log_scaling"] if rng.random() < 0.3 and not phi.same_as(readout.exp) else None
    return replace(d, readout=phi, scaling=scaling, log_scaling=logs), inputs


def found(
    d: CoefficientDynamics, inputs: Inputs, method: str
) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
    """y, and the gradient of every input that has one."""
    y = d.apply(inputs.v, method)
    probe = torch.randn(y.shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    leaves = list(inputs.leaves.values())
    slopes = torch.autograd.grad(y, leaves, probe.to(y.dtype), allow_unused=True)
    return y, {n: g for n, g in zip(inputs.leaves, slopes, strict=True) if g is not None}


@pytest.mark.parametrize("seed", range(12))
def test_random_designs(seed: int) -> None:
    rng = random.Random(seed)
    for _ in range(8):
        d, inputs = drawn(rng, torch.float64)
        want, slopes = found(d, inputs, "reference")
        for method in ("auto", *cpu_methods(d)[1:]):
            autocast = torch.autocast("cpu", dtype=torch.bfloat16)
            with autocast if rng.random() < 0.3 else contextlib.nullcontext():
                y, got = found(d, inputs, method)
            about = {"method": "parallel", "dtype": torch.float64, "what": f"{method} {d}"}
            assert_agree(y, want, quantity="output", **about)
            for name, slope in slopes.items():
                if slope.norm() > 1e-6 * max(g.norm() for g in slopes.values()):
                    assert_agree(got[name], slope, quantity="gradient", **about)


def test_the_lengths_lie_on_both_sides_of_every_change_of_method() -> None:
    limits = {limit for row in PARALLEL_UP_TO.values() for limit in row.values() if limit}
    assert {limit + more for limit in limits for more in (0, 1)} <= set(LENGTHS)


@pytest.mark.parametrize("seed", range(20))
def test_future_scores_out_of_range(seed: int) -> None:
    """Scores grow with j, so that those above the diagonal leave float32's exp; none below does."""
    generator = torch.Generator().manual_seed(seed)
    q = torch.linspace(1.0, 0.01, 12)[:, None] * torch.rand(12, 1, generator=generator)
    k = torch.linspace(0.1, 30.0, 12)[:, None].square()
    k = torch.minimum(k, 60.0 / q).requires_grad_()
    q = torch.minimum(q, 80.0 / k.detach().cummax(0).values).requires_grad_()
    v = torch.randn(12, 1, generator=generator)
    inputs = Inputs({"q": q, "k": k, "v": v.requires_grad_()}, {})
    d = CoefficientDynamics(
        q=q,
        k=k,
        evolution=evolution.Identity(),
        scaling=1.0,
        readout=readout.exp,
        normalizer=normalizer.One(),
    )
    for method in ("auto", "parallel", "chunked"):
        y, slopes = found(d, inputs, method)
        assert torch.isfinite(y).all()
        assert all(torch.isfinite(g).all() for g in slopes.values()), method


def restricted(rng: random.Random) -> tuple[CoefficientDynamics, Inputs]:
    """A design with an own term, an outer decay, a mask or a sink, or several of them."""
    phi = rng.choice((readout.identity, readout.exp, readout.softplus, readout.relu))
    eta = rng.choice(("one", "given") if phi.is_linear else ("one", "given", "row_sum"))
    length = rng.choice((1, 2, 9, 33, 65))
    inputs = Inputs.draw(
        batch=rng.choice([(), (2,), (1, 2)]),
        length=length,
        n=3,
        dv=rng.choice([3, 2]),
        seed=rng.randrange(10**6),
    )
    x = inputs.leaves
    d = inputs.dynamics(rng.choice(STRUCTURES), "identity", eta)
    row = x["q"].detach()[..., 0]
    drawn_rows = torch.Generator().manual_seed(rng.randrange(10**6))
    for name, factor in (("own", 1.0), ("outer", -rng.choice((0.02, 0.3, 2.0))), ("sink", 3.0)):
        noise = torch.rand(row.shape, generator=drawn_rows, dtype=torch.float64)
        x[name] = (factor * noise).requires_grad_()
    allowed = torch.rand(length, length, generator=drawn_rows) > 0.4
    masks = (mask.Window(rng.choice((1, 4, 40))), mask.Blocks(5, before=1), mask.Given(allowed))
    changed: dict[str, object] = {"readout": phi}
    if rng.random() < 0.5:
        changed["own"] = x["own"]
    if rng.random() < 0.5:
        changed["outer_log_decay"] = x["outer"]
    if rng.random() < 0.5:
        changed["mask"] = rng.choice(masks)
    if eta == "row_sum" and rng.random() < 0.5:
        changed["normalizer"] = normalizer.RowSum(sink=x["sink"])
    return replace(d, **changed), inputs


@pytest.mark.parametrize("seed", range(12))
def test_random_restrictions(seed: int) -> None:
    rng = random.Random(1000 + seed)
    for _ in range(4):
        d, inputs = restricted(rng)
        want, slopes = found(d, inputs, "reference")
        for method in ("auto", *cpu_methods(d)[1:]):
            y, got = found(d, inputs, method)
            about = {"method": "parallel", "dtype": torch.float64, "what": f"{method} {d}"}
            assert_agree(y, want, quantity="output", **about)
            for name, slope in slopes.items():
                if slope.norm() > 1e-6 * max(g.norm() for g in slopes.values()):
                    assert_agree(got[name], slope, quantity="gradient", **about)
