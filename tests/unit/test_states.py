"""States: what they hold, what continues them, and batches and prompts at their edges."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from designs import READOUTS, STRUCTURES, Inputs

from coefdyn import CoefficientDynamics, evolution, mask, normalizer, readout

F64 = torch.float64


def pieces(d: CoefficientDynamics, v: torch.Tensor, cuts: tuple[int, ...]) -> torch.Tensor:
    """y, the sequence given piece by piece."""
    state, found = None, []
    for start, stop in zip((0, *cuts), (*cuts, d.length), strict=True):
        y, state = d.narrow(start, stop - start).extend(v[..., start:stop, :], state)
        found.append(y)
    return torch.cat(found, -2)


@pytest.mark.parametrize("kind", ["given", "blocks", "begun blocks"])
def test_masks_continue_by_their_position(kind: str) -> None:
    inputs = Inputs.draw(length=20)
    generator = torch.Generator().manual_seed(1)
    allowed = torch.rand(20, 20, generator=generator) < 0.6
    pairs = {
        "given": mask.Given(allowed),
        "blocks": mask.Blocks(6),
        "begun blocks": mask.Blocks(6, position=4),
    }[kind]
    d = replace(inputs.dynamics("identity", "exp", "row_sum"), mask=pairs)
    torch.testing.assert_close(pieces(d, inputs.v, (7, 8)), d.apply(inputs.v, method="reference"))
    state = d.narrow(0, 7).extend(inputs.v[..., :7, :])[1]
    later = d.narrow(9, 5)
    with pytest.raises(ValueError, match="begins at position"):
        later.extend(inputs.v[..., 9:14, :], state)


def test_a_narrowed_given_mask_keeps_the_columns_of_its_rows() -> None:
    pairs = mask.Given(torch.ones(9, 9, dtype=torch.bool)).narrow(2, 4).narrow(1, 2)
    assert tuple(pairs.allowed.shape) == (2, 5) and pairs.position == 3


@pytest.mark.parametrize("length", [5, 100, 200])
@pytest.mark.parametrize("structure", STRUCTURES)
def test_no_sequences_give_no_outputs(structure: str, length: int) -> None:
    inputs = Inputs.draw(batch=(0,), length=length)
    c = torch.zeros(0, length, dtype=F64)
    for phi in READOUTS:
        for extra in ({}, {"outer_log_decay": c}, {"log_scaling": c}):
            d = replace(inputs.dynamics(structure, phi, "row_sum"), **extra)
            for method in ("auto", "parallel", "reference"):
                y = d.apply(inputs.v, method=method)
                assert y.shape == (0, length, 3)
                assert torch.autograd.grad(y.sum(), inputs.v)[0].shape == (0, length, 3)
            assert d.extend(inputs.v)[0].shape == (0, length, 3)
            assert d.coefficients().shape == (0, length, length)


def test_no_sequences_of_a_window() -> None:
    q = torch.zeros(0, 200, 4)
    d = CoefficientDynamics(
        q=q,
        k=q,
        evolution=evolution.Identity(),
        scaling=1.0,
        readout=readout.exp,
        normalizer=normalizer.RowSum(),
        mask=mask.Window(3),
    )
    assert d.apply(q).shape == d.apply(q, method="chunked").shape == (0, 200, 4)
