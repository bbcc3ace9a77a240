"""Run somebody's float32 function in float64, so that it can be compared to 1e-10 and not 1e-6.

Peers cast their inputs with ``.float()`` or ``torch.float32``. Inside ``widened()`` both mean
float64. What all comparisons with peers share stands here, too.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import patch

import torch
from tolerances import assert_agree

__all__ = ["agrees_with_peer", "time_first", "widened"]


@contextmanager
def widened() -> Iterator[None]:
    """float32 is float64 for code that asks torch for it by name; the default dtype too."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        with (
            patch.object(torch, "float32", torch.float64),
            patch.object(torch, "float", torch.float64),
            patch.object(torch.Tensor, "float", torch.Tensor.double),
        ):
            yield
    finally:
        torch.set_default_dtype(before)


def time_first(*values: torch.Tensor) -> list[torch.Tensor]:
    """(B, H, L, ...) to fla's (B, L, H, ...)."""
    return [value.transpose(1, 2) for value in values]


def agrees_with_peer(
    leaves: dict[str, torch.Tensor], ours: torch.Tensor, theirs: torch.Tensor
) -> None:
    """y, and the gradient of every leaf that it depends on, for a loss without symmetry."""
    dtype = ours.dtype
    assert theirs.dtype == dtype
    assert_agree(ours, theirs, method="peer", dtype=dtype, quantity="output")
    weights = torch.linspace(-1, 2, ours.numel(), dtype=dtype).reshape(ours.shape)
    values = list(leaves.values())
    mine, other = (
        torch.autograd.grad((y * weights).sum(), values, allow_unused=True, retain_graph=True)
        for y in (ours, theirs)
    )
    for name, a, b in zip(leaves, mine, other, strict=True):
        assert (a is None) == (b is None), name
        if a is not None:
            assert_agree(a, b, method="peer", dtype=dtype, quantity="gradient", what=name)
