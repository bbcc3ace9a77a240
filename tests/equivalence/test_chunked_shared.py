"""Heads that share q and k (Mamba-2): a scalar evolution runs with one copy of both for all."""

from __future__ import annotations

import pytest
import torch

from coefdyn import CoefficientDynamics, evolution, normalizer, readout
from coefdyn.execution.chunked.scalar import scalar_kernel

TOKENS, KEYS = 21, 3


@pytest.fixture(autouse=True)
def runs(monkeypatch: pytest.MonkeyPatch) -> list[tuple]:
    """Records every forward pass of the kernel with shared q and k."""
    seen: list[tuple] = []
    forward = scalar_kernel.forward

    def recorded(q, k, v, *rest):
        if len(q) < len(v):
            seen.append(tuple(q.shape))
        return forward(q, k, v, *rest)

    monkeypatch.setattr(scalar_kernel, "forward", recorded)
    return seen


def draw(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


@pytest.mark.parametrize("shared", ["q and k", "q", "k", "no tensor"])
@pytest.mark.parametrize("eta", [normalizer.One(), normalizer.RowSum()], ids=["one", "row sum"])
@pytest.mark.parametrize("nats", [0.1, 30.0])
def test_as_the_reference(shared: str, eta: normalizer.Normalizer, nats: float, runs: list) -> None:
    """Values and every gradient; two sequences stay apart, and so do heads that share nothing."""

    def build(q, k, b, g) -> CoefficientDynamics:
        return CoefficientDynamics(
            q=q,
            k=k,
            evolution=evolution.Scalar(log_decay=g),
            scaling=b,
            readout=readout.identity,
            normalizer=eta,
        )

    def vectors(name: str, seed: int) -> torch.Tensor:
        return draw(2, 1 if name in shared.split() else 5, TOKENS, KEYS, seed=seed).abs()

    gates = draw(2, 5, TOKENS, seed=3).abs(), -nats * draw(2, 5, TOKENS, seed=4).abs()
    given = (vectors("q", 1), vectors("k", 2), *gates, draw(2, 5, TOKENS, 2, seed=5))
    found = []
    for method in ("chunked", "reference"):
        leaves = [x.clone().requires_grad_() for x in given]
        y = build(*leaves[:-1]).apply(leaves[-1], method)
        found.append((y, *torch.autograd.grad((y * draw(*y.shape, seed=6)).sum(), leaves)))
    for mine, exact in zip(*found, strict=True):
        torch.testing.assert_close(mine, exact, rtol=1e-9, atol=1e-10)
    assert bool(runs) == (shared == "q and k")


@pytest.mark.parametrize("chunk", [4, 64])
def test_gradcheck_of_states(chunk: int, runs: list) -> None:
    """Initial and final state, with every optional input, of two groups of heads."""
    shapes = ((2, 6, 2), (2, 6, 2), (8, 6, 1), (8, 6), (8, 6), (8, 2, 1))
    inputs = [draw(*shape, seed=number) for number, shape in enumerate(shapes)]
    inputs[4] = -inputs[4].abs()
    leaves = tuple(x.requires_grad_() for x in inputs)
    assert torch.autograd.gradcheck(
        lambda *x: scalar_kernel(*x, chunk, 0.7), leaves, fast_mode=True
    )
    assert runs


def test_vmap_keeps_groups_apart(runs: list) -> None:
    """A mapped axis is one more axis of groups."""
    q, k = draw(3, 2, 1, TOKENS, KEYS, seed=1), draw(3, 2, 1, TOKENS, KEYS, seed=2)
    g, v = -draw(3, 2, 5, TOKENS, seed=3).abs(), draw(3, 2, 5, TOKENS, 2, seed=4)

    def run(q, k, g, v):
        return CoefficientDynamics(
            q=q,
            k=k,
            evolution=evolution.Scalar(log_decay=g),
            scaling=1.0,
            readout=readout.identity,
            normalizer=normalizer.One(),
        ).apply(v, "chunked")

    apart = torch.stack([run(*one) for one in zip(q, k, g, v, strict=True)])
    torch.testing.assert_close(torch.vmap(run)(q, k, g, v), apart)
    assert (6, TOKENS, KEYS) in runs
