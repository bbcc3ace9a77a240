"""Run somebody's float32 function in float64, so that it can be compared to 1e-10 and not 1e-6.

Peers cast their inputs with ``.float()`` or ``torch.float32``. Inside ``widened()`` both mean
float64.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import patch

import torch

__all__ = ["widened"]


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
