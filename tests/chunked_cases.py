"""Helpers of the chunked tests: the same numbers in two precisions, and every gradient."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import torch
from designs import Inputs
from tolerances import assert_agree

from coefdyn import CoefficientDynamics
from coefdyn.execution.chunked.dispatch import check_chunked, run_chunked
from coefdyn.execution.inputs import in_working_precision
from coefdyn.execution.restrictions import absorbed

__all__ = [
    "agrees_with_reference",
    "draw_rounded",
    "in_chunks",
    "output_and_gradients",
    "own_key",
]

Run = Callable[[CoefficientDynamics, torch.Tensor], torch.Tensor]


def in_chunks(d: CoefficientDynamics, v: torch.Tensor, chunk_size: int | None) -> torch.Tensor:
    """y by chunks of this size; None for the library's own."""
    d = absorbed(d)
    check_chunked(d)
    d, values = in_working_precision(d, v)
    return run_chunked(d, values, chunk_size).to(v.dtype)


def draw_rounded(dtype: torch.dtype, **sizes: object) -> tuple[Inputs, Inputs]:
    """Inputs of ``dtype``, and the same numbers in float64."""
    inputs = Inputs.draw(dtype=dtype, **sizes)
    return inputs, in_float64(inputs)


def in_float64(inputs: Inputs) -> Inputs:
    """The same numbers in float64, as leaves of their own."""
    return Inputs(
        {name: x.detach().double().requires_grad_() for name, x in inputs.leaves.items()},
        {name: x.double() for name, x in inputs.signs.items()},
    )


def own_key(dynamics: CoefficientDynamics) -> CoefficientDynamics:
    """The same design with the erase direction as its key (DeltaNet)."""
    return replace(dynamics, k=dynamics.evolution.direction)


def output_and_gradients(
    run: Run, d: CoefficientDynamics, inputs: Inputs
) -> dict[str, torch.Tensor]:
    """y, and the gradient of every leaf that y depends on, for a fixed random incoming gradient."""
    y = run(d, inputs.v)
    generator = torch.Generator().manual_seed(7)
    probe = torch.randn(y.shape, generator=generator, dtype=torch.float64).to(y.dtype)
    grads = torch.autograd.grad(y, list(inputs.leaves.values()), probe, allow_unused=True)
    named = zip(inputs.leaves, grads, strict=True)
    return {"output": y, **{name: g for name, g in named if g is not None}}


def agrees_with_reference(
    run: Run,
    build: Callable[[Inputs], CoefficientDynamics],
    inputs: Inputs,
    expected: dict[str, torch.Tensor] | None = None,
) -> dict[str, torch.Tensor]:
    """Compare ``run`` with the float64 reference on the same numbers, and return that one."""
    if expected is None:
        exact = in_float64(inputs)
        expected = output_and_gradients(
            lambda d, v: d.apply(v, method="reference"), build(exact), exact
        )
    got = output_and_gradients(run, build(inputs), inputs)
    assert got.keys() == expected.keys()
    for name, value in got.items():
        assert_agree(
            value,
            expected[name],
            method="chunked",
            dtype=inputs.v.dtype,
            quantity="output" if name == "output" else "gradient",
            what=name,
        )
    return expected
