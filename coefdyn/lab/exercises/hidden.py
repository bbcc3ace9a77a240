"""Hidden inputs of the exercises."""

from __future__ import annotations

import torch

from coefdyn.shapes import Tensor

__all__ = ["SIZES", "draw"]

#: (L, n, d_v) of the hidden cases; the first is the smallest in which a mistake can show
SIZES = ((2, 2, 1), (5, 3, 2), (9, 4, 3), (24, 6, 2))


def draw(case: int, *shapes: tuple[int, ...]) -> list[Tensor]:
    """Draw independent standard normal numbers, float64, the same for every call of a case."""
    rng = torch.Generator().manual_seed(100 + case)
    return [torch.randn(shape, generator=rng, dtype=torch.float64) for shape in shapes]
