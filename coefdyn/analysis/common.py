"""Small pieces shared by the analyses."""

from __future__ import annotations

import torch

from coefdyn.shapes import Float, Tensor

__all__ = ["causal_entries"]


def causal_entries(matrix: Float[Tensor, "*batch L L"]) -> Float[Tensor, "*batch m"]:
    """The entries with j <= i, row by row, as the last axis."""
    length = matrix.shape[-1]
    i, j = torch.tril_indices(length, length, device=matrix.device)
    return matrix[..., i, j]
