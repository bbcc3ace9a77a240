"""Small edges: resets beside fused attention, masks of other sizes, no sequences, huge numbers."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from designs import Inputs
from methods import cpu_methods
from own_structures import Shift
from tolerances import assert_agree, relative_error

from coefdyn import CoefficientDynamics, evolution, mask, normalizer, readout

F64 = torch.float64


def plain(q: torch.Tensor, **parts) -> CoefficientDynamics:
    start = {"k": q, "evolution": evolution.Identity(), "scaling": 1.0}
    ends = {"readout": readout.identity, "normalizer": normalizer.One()}
    return CoefficientDynamics(q=q, **(start | ends | parts))


@pytest.mark.parametrize("reset", [-1e4, -1e5, -1e6, -1e9, -3e10, -1e15])
@pytest.mark.parametrize("every", [90, 13])
def test_resets_cost_fused_softmax_no_digit(reset: float, every: int) -> None:
    inputs = Inputs.draw((2,), 300, 4, 4)
    x, c = inputs.leaves, -0.02 * torch.ones(2, 300, dtype=F64)
    c[:, ::every] = reset
    c.requires_grad_()
    d = replace(inputs.dynamics("identity", "exp", "row_sum"), outer_log_decay=c)
    found = {}
    for method in ("reference", "auto", "parallel"):
        y = d.apply(x["v"], method)
        leaves = [x["q"], x["k"], x["v"]]
        probe = torch.linspace(-1, 1, y.numel(), dtype=F64).view_as(y)
        found[method] = (y, *torch.autograd.grad(y, leaves, probe))
    for method in ("auto", "parallel"):
        for got, want, what in zip(
            found[method], found["reference"], ("output", *3 * ["gradient"]), strict=True
        ):
            assert_agree(got, want, method="chunked", dtype=F64, quantity=what, what=method)


@pytest.mark.parametrize("columns", [3, 5, 6])
def test_a_given_mask_has_one_column_per_token(columns: int) -> None:
    with pytest.raises(ValueError, match=r"one for every token .* position=p"):
        mask.Given(torch.ones(4, columns, dtype=torch.bool))
    whole = mask.Given(torch.ones(4, 4, dtype=torch.bool))
    assert whole.narrow(1, 2).allowed.shape == (2, 3)
    assert whole.narrow(1, 2).narrow(1, 1).allowed.shape == (1, 3)


def test_an_outer_decay_that_leaves_the_range_of_exp() -> None:
    """exp(c) is never formed beside what it meets: a right of 0, a matrix that fades as fast."""
    q, v = torch.ones(4, 2), torch.randn(4, 2)
    c, nothing = torch.full((4,), 99.0), torch.zeros(4, 2)
    a = evolution.DiagonalPlusRankOne(log_decay=nothing - 80.0, left=q, right=nothing)
    dense = evolution.Dense(matrix=torch.eye(2).expand(4, 2, 2) * torch.tensor(-80.0).exp())
    kept = evolution.Scalar(log_decay=c - 80.0)
    for structure in (a, dense):
        d = plain(q, evolution=structure, outer_log_decay=c)
        want = plain(q, evolution=kept).to(F64).apply(v.double(), "reference")
        for method in ("auto", *cpu_methods(d)):
            assert relative_error(d.apply(v, method), want) < 2e-5, (structure, method)


@pytest.mark.parametrize("length", [9, 150])
def test_a_structure_of_ones_own_keeps_its_outer_decay(length: int) -> None:
    x = torch.randn(length, 3, generator=torch.Generator().manual_seed(0), dtype=F64)
    d = plain(x, evolution=Shift(), outer_log_decay=torch.full((length,), -0.3, dtype=F64))
    want = d.apply(x, "reference")
    for method in ("auto", *cpu_methods(d)):
        assert relative_error(d.apply(x, method), want) < 1e-11, method
    y, state = d.narrow(0, 4).extend(x[:4])
    rest = d.narrow(4, length - 4).extend(x[4:], state)[0]
    assert relative_error(torch.cat([y, rest]), want) < 1e-11


@pytest.mark.usefixtures("no_shape_checks")
def test_numbers_that_nothing_can_hold_are_refused_in_words() -> None:
    for make in (mask.Window, mask.Blocks):
        with pytest.raises(ValueError, match=str(2**31)):
            make(10**30)
    with pytest.raises(ValueError, match="finite number"):
        normalizer.RowSum(10**400)
    for floor in (True, 10**400, -1.0):
        with pytest.raises(ValueError, match="needs a number floor > 0"):
            normalizer.FlooredRowSum(floor)
