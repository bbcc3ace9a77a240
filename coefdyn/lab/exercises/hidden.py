"""Hidden inputs of the exercises: how they are drawn, and how a drawn case is changed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from coefdyn.shapes import Tensor

__all__ = ["SIZES", "Arguments", "draw", "numbers", "on", "put", "replaced_at", "tokens_of"]

Arguments = dict[str, Any]

#: (L, n, d_v) of the hidden cases; the first is the smallest in which a mistake can show
SIZES = ((2, 2, 1), (5, 3, 2), (9, 4, 3), (24, 6, 2))


def draw(case: int, *shapes: tuple[int, ...]) -> list[Tensor]:
    """Draw independent standard normal numbers, float64, the same for every call of a case."""
    rng = torch.Generator().manual_seed(100 + case)
    return [torch.randn(shape, generator=rng, dtype=torch.float64) for shape in shapes]


def tokens_of(length: int, n: int, **axes: int) -> Arguments:
    """Standard normal tensors by name, of shape (length, n) or, for 1 axis, (length,)."""
    rng = torch.Generator().manual_seed(length)
    shapes = {1: (length,), 2: (length, n)}
    return {
        name: torch.randn(shapes[count], generator=rng, dtype=torch.float64)
        for name, count in axes.items()
    }


def put(**new: Callable[[Arguments], Any]) -> Callable[[Arguments], Arguments]:
    """Change that replaces arguments by functions of all arguments of the drawn case."""
    return lambda arguments: {**arguments, **{name: make(arguments) for name, make in new.items()}}


def on(function: Callable[..., Any], **new: Callable[[Arguments], Any]) -> Callable[..., Any]:
    """The function on arguments that are changed as by ``put``: a mistake made of the solution."""
    change = put(**new)
    return lambda **arguments: function(**change(arguments))


def numbers(*values: float) -> Callable[[Arguments], Tensor]:
    """Fixed numbers: a tensor without axes for a single one."""
    fixed = values[0] if len(values) == 1 else values
    return lambda _: torch.tensor(fixed, dtype=torch.float64)


def replaced_at(tensor: Tensor, place: int, value: float | Tensor) -> Tensor:
    """Copy of a tensor with one row, or one number, replaced."""
    tensor = tensor.clone()
    tensor[place] = value
    return tensor
