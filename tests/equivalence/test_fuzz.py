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

from coefdyn import CoefficientDynamics, readout
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


@pytest.mark.parametrize(
    "seed",
    [pytest.param(s, marks=() if s < 4 else pytest.mark.nightly("32 designs")) for s in range(12)],
)
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
