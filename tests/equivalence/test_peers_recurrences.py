"""Every row of Table 1, built from the contract, against its authors' recurrence."""

from __future__ import annotations

import pytest
import torch
from methods import cpu_methods
from recurrences import AUTHORS
from rows import ROWS, draw
from tolerances import assert_agree


def outcome(leaves: dict[str, torch.Tensor], y: torch.Tensor) -> dict[str, torch.Tensor]:
    """y, and the gradient of every leaf for a loss without symmetry."""
    weights = torch.linspace(-1, 2, y.numel(), dtype=y.dtype).reshape(y.shape)
    slopes = torch.autograd.grad((y * weights).sum(), list(leaves.values()))
    return {"y": y, **dict(zip(leaves, slopes, strict=True))}


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=["float64", "float32"])
@pytest.mark.parametrize("row", ROWS)
def test_row_is_the_authors_recurrence(row: str, dtype: torch.dtype) -> None:
    leaves = draw(row, 19, dtype=dtype)
    dynamics = ROWS[row](leaves)
    exact = {name: leaf.detach().double().requires_grad_() for name, leaf in leaves.items()}
    expected = outcome(exact, AUTHORS[row](**exact))
    for method in ("auto", *cpu_methods(dynamics)):
        y = ROWS[row](leaves).apply(leaves["v"], method=method)
        for name, got in outcome(leaves, y).items():
            quantity = "output" if name == "y" else "gradient"
            what = f"{method}: {name}"
            assert_agree(
                got, expected[name], method="peer", dtype=dtype, quantity=quantity, what=what
            )


@pytest.mark.parametrize("row", ROWS)
def test_row_is_the_authors_recurrence_over_many_chunks(row: str) -> None:
    leaves = draw(row, 200, batch=(2,))
    expected = outcome(leaves, AUTHORS[row](**leaves))
    for name, got in outcome(leaves, ROWS[row](leaves).apply(leaves["v"])).items():
        quantity = "output" if name == "y" else "gradient"
        assert_agree(
            got, expected[name], method="peer", dtype=torch.float64, quantity=quantity, what=name
        )


def test_mlstm_gates_of_two_hundred_nats_stay_exact() -> None:
    leaves = draw("MLSTM", 40, dtype=torch.float32)
    with torch.no_grad():
        leaves["write"] *= 200 / leaves["write"].abs().max()
        leaves["forget"] *= 200 / leaves["forget"].abs().max()
    exact = {name: leaf.detach().double() for name, leaf in leaves.items()}
    got = ROWS["MLSTM"](leaves).apply(leaves["v"])
    expected = AUTHORS["MLSTM"](**exact)
    assert_agree(got, expected, method="peer", dtype=torch.float32, quantity="output")
