"""A_t = diag - left right^T: its special cases, its pairs of any size, and unstable ones."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from chunked_cases import agrees_with_reference, draw_rounded, in_chunks, in_float64
from designs import Inputs
from tolerances import assert_agree

from coefdyn import CoefficientDynamics, evolution

METHODS = ("reference", "recurrent", "parallel", "chunked")


def as_rank_one(inputs: Inputs, scaled: bool) -> CoefficientDynamics:
    """exp(g) (I - beta z z^T) written as diagonal plus rank one."""
    x = inputs.leaves
    z, g = x["direction"], x["log_decay"] if scaled else torch.zeros_like(x["log_decay"])
    left = (g.exp() * x["beta"])[..., None] * z
    sign = inputs.signs["sign"][..., None] if scaled else torch.ones_like(g)[..., None]
    return replace(
        inputs.dynamics("scaled_householder" if scaled else "householder", "identity", "one"),
        evolution=evolution.DiagonalPlusRankOne(
            log_decay=g[..., None].expand_as(z),
            left=left * sign,
            right=z,
            sign=sign.expand_as(z),
        ),
    )


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("scaled", [False, True])
def test_householder_structures_are_special_cases(scaled: bool, method: str) -> None:
    inputs = Inputs.draw(length=70, seed=1)
    structure = "scaled_householder" if scaled else "householder"
    d = inputs.dynamics(structure, "identity", "one")
    want, got = d.apply(inputs.v), as_rank_one(inputs, scaled).apply(inputs.v, method=method)
    leaves = [inputs.leaves[name] for name in ("q", "k", "v", "direction", "beta")]
    assert_agree(got, want, method="chunked", dtype=torch.float64, quantity="output")
    weights = torch.linspace(-1, 2, want.numel(), dtype=torch.float64).reshape(want.shape)
    for a, b in zip(
        torch.autograd.grad((got * weights).sum(), leaves),
        torch.autograd.grad((want * weights).sum(), leaves),
        strict=True,
    ):
        assert_agree(a, b, method="chunked", dtype=torch.float64, quantity="gradient")


def build(phi: str):
    return lambda x: x.dynamics("diagonal_plus_rank_one", phi, "one")


@pytest.mark.parametrize("phi", ["identity", "softplus"])
@pytest.mark.parametrize("chunk", [1, 3, 4, 16, 64])
def test_one_channel_of_200_nats_among_calm_ones(chunk: int, phi: str) -> None:
    """Within one chunk: some tokens reset a channel or all, others decay hardly at all."""
    inputs, _ = draw_rounded(torch.float32, length=70, seed=2)
    g = inputs.leaves["channel_decay"].detach().clone()
    g[..., 10:12, 1] = -200.0
    g[..., 33, :] = -200.0
    g[..., 50:58, 2] = -9.0
    leaves = {**inputs.leaves, "channel_decay": g.requires_grad_()}
    inputs = Inputs(leaves, inputs.signs)

    def run(d: CoefficientDynamics, v: torch.Tensor) -> torch.Tensor:
        return in_chunks(d, v, chunk_size=chunk)

    expected = agrees_with_reference(run, build(phi), in_float64(inputs))
    agrees_with_reference(run, build(phi), inputs, expected)


@pytest.mark.parametrize("phi", ["identity", "softplus"])
@pytest.mark.parametrize("size", [0.0, 1.0, 1.8])
def test_left_and_right_of_any_size(size: float, phi: str) -> None:
    """Nothing erased, projections, and products that may grow by the token."""
    inputs, _ = draw_rounded(torch.float32, length=66, n=4, seed=3)
    leaves = dict(inputs.leaves)
    for name in ("left", "right"):
        factor = size**0.5 / leaves[name].detach().norm(dim=-1, keepdim=True)
        leaves[name] = (factor * leaves[name].detach()).requires_grad_()
    inputs = Inputs(leaves, inputs.signs)
    expected = agrees_with_reference(
        lambda d, v: d.apply(v, method="chunked"), build(phi), in_float64(inputs)
    )
    agrees_with_reference(lambda d, v: d.apply(v, method="chunked"), build(phi), inputs, expected)
