"""The chunked kernels as torch operators: gradcheck, states, vmap, torch.compile, errors."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from chunked_cases import in_chunks
from designs import STRUCTURES, Inputs
from passed import CORE

from coefdyn import CoefficientDynamics
from coefdyn.execution.chunked.dispatch import continue_chunked

LINEAR = tuple(structure for structure in STRUCTURES if structure != "dense")
CASES = [(s, p) for s in LINEAR for p in ("identity", "exp", "softplus", "tanh")]


def rebuilt(inputs: Inputs, values: tuple[torch.Tensor, ...]) -> Inputs:
    return Inputs(dict(zip(inputs.leaves, values, strict=True)), inputs.signs)


def output(inputs: Inputs, structure: str, phi: str, *values: torch.Tensor) -> torch.Tensor:
    """y of chunks of four as a function of all leaves."""
    x = rebuilt(inputs, values)
    d = x.dynamics(structure, phi, "floored", log_scaled=True)
    return in_chunks(d, x.v, chunk_size=4)


def test_continuing_with_gates_that_all_heads_share() -> None:
    """A log scaling without leading axes meets a state that has them all."""
    inputs = Inputs.draw(length=20, seed=26)
    d = inputs.dynamics("identity", "identity", "floored", log_scaled=True)
    d, v = replace(d, log_scaling=d.log_scaling[0]), inputs.v
    with torch.no_grad():
        first, state = continue_chunked(d.narrow(0, 9), v[..., :9, :], None, 4)
        rest, _ = continue_chunked(d.narrow(9, 11), v[..., 9:, :], state, 4)
        expected = d.apply(v, method="reference")
    torch.testing.assert_close(torch.cat([first, rest], -2), expected, rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize(("structure", "phi"), CASES)
def test_gradcheck(structure: str, phi: str) -> None:
    inputs = Inputs.draw(batch=(1,), length=9, n=3, dv=2, seed=21)
    torch.autograd.gradcheck(
        lambda *values: output(inputs, structure, phi, *values),
        tuple(inputs.leaves.values()),
        fast_mode=True,
        check_undefined_grad=False,
    )


@pytest.mark.parametrize(("structure", "phi"), CASES)
def test_vmap_of_gradients(structure: str, phi: str) -> None:
    """Per-sample gradients equal those of a loop."""
    inputs = Inputs.draw(batch=(), length=10, n=3, dv=2, seed=24)
    values = [x.detach() for x in inputs.leaves.values()]
    generator = torch.Generator().manual_seed(25)
    many = torch.randn(3, *values[0].shape, generator=generator, dtype=torch.float64)

    def loss(q: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
        return output(inputs, structure, phi, q, k, *values[2:]).sin().sum()

    both = torch.func.grad(loss, argnums=(0, 1))
    batched = torch.func.vmap(both, in_dims=(0, None))(many, values[1])
    for i in range(3):
        for got, want in zip(batched, both(many[i], values[1]), strict=True):
            torch.testing.assert_close(got[i], want, rtol=1e-9, atol=1e-11)


@pytest.mark.compile
@pytest.mark.reads(CORE)
@pytest.mark.parametrize(
    ("structure", "phi"),
    [
        ("scalar", "identity"),
        ("diagonal", "identity"),
        ("scaled_householder", "identity"),
        ("diagonal_plus_rank_one", "identity"),
        ("diagonal_plus_rank_one", "softplus"),
        ("identity", "softplus"),
        ("householder", "relu"),
    ],
)
def test_compiles_without_graph_breaks(structure: str, phi: str) -> None:
    inputs = Inputs.draw(length=40, seed=26)
    leaves = list(inputs.leaves.values())

    def loss(*values: torch.Tensor) -> torch.Tensor:
        x = rebuilt(inputs, values)
        d = x.dynamics(structure, phi, "floored")
        return d.apply(x.v, method="chunked").sin().sum()

    compiled = torch.compile(loss, fullgraph=True, backend="aot_eager")
    grads = torch.autograd.grad(compiled(*leaves), leaves, allow_unused=True)
    expected = torch.autograd.grad(loss(*leaves), leaves, allow_unused=True)
    for got, want in zip(grads, expected, strict=True):
        if want is not None:
            torch.testing.assert_close(got, want, rtol=1e-9, atol=1e-11)


def test_designs_without_a_chunked_algorithm() -> None:
    inputs = Inputs.draw(length=5)
    with pytest.raises(ValueError, match="recurrent, parallel"):
        inputs.dynamics("dense", "identity", "one").apply(inputs.v, method="chunked")
    with pytest.raises(ValueError, match="Use method='parallel'"):
        inputs.dynamics("scalar", "elu1", "one").apply(inputs.v, method="chunked")


def test_nothing_is_left_unwritten(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every buffer starts as NaN; lengths and batches that do not fill the last tile or group."""
    poison_empty(monkeypatch)
    monkeypatch.setattr("coefdyn.execution.chunked.tiles.TILE_BYTES", 64 * 1024)
    monkeypatch.setattr("coefdyn.execution.chunked.pointwise_tiles.BUFFER_BYTES", 32 * 1024)
    inputs = Inputs.draw(batch=(7,), length=70, n=4, seed=27)
    for structure in LINEAR:
        for phi in ("identity", "softplus"):
            d = inputs.dynamics(structure, phi, "one")
            assert_finite(d, inputs)


def poison_empty(monkeypatch: pytest.MonkeyPatch) -> None:
    """torch.empty_like and Tensor.new_empty hand out NaN."""
    monkeypatch.setattr(torch, "empty_like", lambda x: torch.full_like(x, torch.nan))
    monkeypatch.setattr(
        torch.Tensor,
        "new_empty",
        lambda self, *size: self.new_full(
            size[0] if not isinstance(size[0], int) else size, torch.nan
        ),
    )


def assert_finite(d: CoefficientDynamics, inputs: Inputs) -> None:
    y = d.apply(inputs.v, method="chunked")
    grads = torch.autograd.grad(y.sum(), list(inputs.leaves.values()), allow_unused=True)
    assert all(torch.isfinite(x).all() for x in (y, *grads) if x is not None)
