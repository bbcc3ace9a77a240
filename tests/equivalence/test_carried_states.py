"""A sequence in pieces, through the states between them, is the sequence: values and gradients."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from designs import READOUTS, STRUCTURES, Inputs
from tolerances import assert_agree

from coefdyn import CoefficientDynamics, mask, normalizer
from coefdyn.execution.state import CacheState, LinearState, State, has_finite_state

F64, F32 = torch.float64, torch.float32
Values = torch.Tensor


def pieces(d: CoefficientDynamics, v: Values, cuts: tuple[int, ...], method="auto") -> Values:
    """y, the state of each piece given to the next."""
    state, found = None, []
    for start, stop in zip((0, *cuts), (*cuts, d.length), strict=True):
        part = d.narrow(start, stop - start)
        y, state = part.apply(
            v[..., start:stop, :], method if found else "auto", state=state, return_state=True
        )
        found.append(y)
    assert isinstance(state, LinearState if has_finite_state(d) else CacheState)
    alone = part.apply(v[..., start:stop, :], method, state=before(d, v, start))
    torch.testing.assert_close(alone, found[-1], rtol=1e-9, atol=1e-9)
    return torch.cat(found, -2)


def before(d: CoefficientDynamics, v: Values, stop: int) -> State:
    return d.narrow(0, stop).apply(v[..., :stop, :], return_state=True)[1]


def agree(got: Values, want: Values, inputs: Inputs, exact: Inputs, dtype: torch.dtype) -> None:
    """Outputs, and the gradients of every input of a loss without symmetry."""
    assert_agree(got, want, method="recurrent", dtype=dtype, quantity="step")
    probe = torch.randn(want.shape, generator=torch.Generator().manual_seed(3)).double()

    def slopes(y: Values, leaves: dict[str, Values]) -> list[Values | None]:
        return torch.autograd.grad(y, list(leaves.values()), probe.to(y), allow_unused=True)

    pairs = zip(slopes(got, inputs.leaves), slopes(want, exact.leaves), strict=True)
    for name, (found, wanted) in zip(inputs.leaves, pairs, strict=True):
        assert (found is None) == (wanted is None), name
        if wanted is not None:
            assert_agree(
                found, wanted, method="recurrent", dtype=dtype, quantity="gradient", what=name
            )


@pytest.mark.parametrize("method", ["auto", "recurrent", "chunked"])
@pytest.mark.parametrize("structure", STRUCTURES)
def test_long_pieces_by_every_method_that_carries_a_state(structure: str, method: str) -> None:
    inputs = Inputs.draw(batch=(2, 1), length=150, seed=6)
    if structure == "dense" and method == "chunked":
        return  # refused like every dense design
    for phi in ("identity", "elu1") if structure == "identity" else ("identity",):
        d = inputs.dynamics(structure, phi, "floored")
        agree(pieces(d, inputs.v, (70,), method), d.apply(inputs.v), inputs, inputs, F64)


def features(d: CoefficientDynamics) -> CoefficientDynamics:
    return replace(d, readout=READOUTS["elu1"])


def decay(d: CoefficientDynamics) -> Values:
    return -0.3 * d.q[..., 0].detach().abs()


SINK = normalizer.RowSum(sink=0.3)
#: what stands beside the four ingredients -> the design with it
BESIDE: dict[str, Callable[[CoefficientDynamics], CoefficientDynamics]] = {
    "own": lambda d: replace(d, own=d.q[..., 1]),
    "outer": lambda d: replace(d, outer_log_decay=decay(d)),
    "outer, features": lambda d: replace(features(d), outer_log_decay=decay(d)),
    "outer, own, log scaling": lambda d: replace(
        d, outer_log_decay=decay(d), own=d.q[..., 1], log_scaling=d.k[..., 0]
    ),
    "sink": lambda d: replace(d, normalizer=SINK),
    "sink, features, outer": lambda d: replace(
        features(d), normalizer=SINK, outer_log_decay=decay(d)
    ),
    "window": lambda d: replace(d, mask=mask.Window(5)),
    "blocks, outer": lambda d: replace(d, mask=mask.Blocks(4, 1), outer_log_decay=decay(d)),
    "pairs": lambda d: replace(d, mask=mask.Given(torch.eye(18).cumsum(0) % 3 != 1)),
}


@pytest.mark.parametrize("beside", BESIDE)
@pytest.mark.parametrize("phi", ["identity", "exp", "relu"])
@pytest.mark.parametrize("structure", ["identity", "scalar", "householder"])
def test_what_stands_beside_the_ingredients_is_carried(
    structure: str, phi: str, beside: str
) -> None:
    if phi == "identity" and beside == "sink":
        return  # refused by the design itself
    inputs = Inputs.draw(length=18, seed=7)
    eta = "one" if phi == "identity" else "row_sum"
    d = BESIDE[beside](inputs.dynamics(structure, phi, eta))
    got = pieces(d, inputs.v, (8, 9))
    agree(got, d.apply(inputs.v, "reference"), inputs, inputs, F64)


@pytest.mark.parametrize("log_scaled", [False, True])
@pytest.mark.parametrize(
    ("phi", "eta"),
    [("identity", "one"), ("identity", "floored"), ("exp", "row_sum"), ("relu", "floored")],
)
@pytest.mark.parametrize("structure", STRUCTURES)
@pytest.mark.parametrize("length", [6, 70])
def test_gradients_of_a_state_that_is_given(
    structure: str, phi: str, eta: str, log_scaled: bool, length: int
) -> None:
    """By finite differences: every number of the first state, in y and in the state returned."""
    if length == 70 and phi != "identity":
        return  # the same code as for six tokens
    inputs = Inputs.draw(batch=(), length=length + 3, n=3, dv=2, seed=9)
    d = inputs.dynamics(structure, phi, eta, log_scaled)
    with torch.no_grad():
        first = before(d, inputs.v, 3)
    later, v = d.narrow(3, length), inputs.v[3:].detach()
    later = later.to(F64)  # the same, for a fresh object

    def run(*held: torch.Tensor) -> tuple[torch.Tensor, ...]:
        rest = iter(held)
        y, after = later.apply(v, state=first.map(lambda _: next(rest)), return_state=True)
        wanted = [x for x in after.tensors() if x.requires_grad]
        return (y, *wanted)

    held = [x.clone().requires_grad_() for x in first.tensors()]
    assert torch.autograd.gradcheck(run, held, fast_mode=True)
