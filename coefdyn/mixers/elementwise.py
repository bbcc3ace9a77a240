"""softplus and elu whose gradients keep their layout while a graph is recorded.

The shape functions of torch's own backward passes promise the layout of the input where the kernels
return that of the gradient (torch 2.13), and ``torch.compile(backend="aot_eager")`` then views what
cannot be viewed. Outside of a graph these are torch's own functions, to the last digit.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

__all__ = ["elu", "softplus"]


def softplus(x: Tensor) -> Tensor:
    """log(1 + exp(x))."""
    return -functional.logsigmoid(-x) if torch.compiler.is_compiling() else functional.softplus(x)


def elu(x: Tensor) -> Tensor:
    """x where it is positive, else exp(x) - 1."""
    if not torch.compiler.is_compiling():
        return functional.elu(x)
    return torch.where(x > 0, x, x.clamp(max=0.0).expm1())
