"""Building blocks of hard cases, and the demands on the way of computing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch

from coefdyn.lab.exercises.demands import no_eigensolver, no_large_tensor, no_loop, one_pass
from coefdyn.lab.exercises.exercise import Demand
from coefdyn.shapes import Tensor

__all__ = ["DEMANDS", "numbers", "put"]

Arguments = dict[str, Any]


def put(**new: Callable[[Arguments], Any]) -> Callable[[Arguments], Arguments]:
    """Change that replaces arguments by functions of all arguments of the drawn case."""
    return lambda arguments: {**arguments, **{name: make(arguments) for name, make in new.items()}}


def numbers(*values: float) -> Callable[[Arguments], Tensor]:
    """Fixed numbers: a tensor without axes for a single one."""
    fixed = values[0] if len(values) == 1 else values
    return lambda _: torch.tensor(fixed, dtype=torch.float64)


def _drawn(length: int, n: int, **axes: int) -> Arguments:
    """Standard normal tensors by name, of shape (length, n) or, for 1 axis, (length,)."""
    rng = torch.Generator().manual_seed(length)
    shapes = {1: (length,), 2: (length, n)}
    return {
        name: torch.randn(shapes[count], generator=rng, dtype=torch.float64)
        for name, count in axes.items()
    }


def _chunk(length: int) -> Arguments:
    found = _drawn(length, 3, q=2, k=2, v=2, g=1)
    return {"S": found["k"][:3] * 1.0, **found, "g": -found["g"].abs()}


def _retention(length: int) -> Arguments:
    return {**_drawn(length, 3, q=2, k=2), "gamma": torch.tensor(0.9, dtype=torch.float64)}


def _row(length: int) -> Arguments:
    return _drawn(length, 2, scores=1, v=2)


def _average(length: int) -> Arguments:
    return {**_drawn(length, 2, x=2), "a": torch.tensor([0.5, 0.9], dtype=torch.float64)}


def _backwards(length: int) -> Arguments:
    found = _drawn(length, 2 * length, k=2, beta=1, a=1)
    return {
        "q": found["k"][0] * 1.0,
        "k": found["k"] / found["k"].norm(dim=-1, keepdim=True),
        "beta": found["beta"].sigmoid(),
        "a": found["a"].sigmoid(),
    }


def _eigenvalues(length: int) -> Arguments:
    one = torch.tensor(0.9, dtype=torch.float64)
    return {"z": _drawn(length, 1, z=1)["z"], "beta": one, "a": one * 1.0, "ratio": one * 1.0}


#: exercise -> what its text asks of the way of computing
DEMANDS: Mapping[str, Mapping[str, Demand]] = {
    "one pass": {"the way through the row": one_pass(_row, "scores")},
    "one chunk": {"the number of operations": no_loop(_chunk)},
    "retention": {"the number of operations": no_loop(_retention)},
    "eigenvalues of a step": {"the way to them": no_eigensolver(_eigenvalues)},
    "leaky average": {"the numbers that are kept": no_large_tensor(_average, 512)},
    "row backwards": {"the numbers that are kept": no_large_tensor(_backwards, 8192)},
}
