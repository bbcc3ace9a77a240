"""Helpers of every Triton kernel: number types, sums of log decays, registered operators."""

from __future__ import annotations

import os
from collections.abc import Callable

import torch
import triton
import triton.language as tl

from coefdyn.execution.chunked.operators import Kernel
from coefdyn.shapes import Float, Tensor

__all__ = [
    "RegisteredKernel",
    "dot_types",
    "interpreting",
    "padded",
    "reverse_sums",
    "split_sums",
]

#: head sizes that the tiles are made for
HEADS = (16, 256)
_HALF = {torch.float16: tl.float16, torch.bfloat16: tl.bfloat16}


def interpreting() -> bool:
    """Return whether kernels run in Triton's interpreter, on CPU (``TRITON_INTERPRET=1``)."""
    return os.environ.get("TRITON_INTERPRET") == "1"


def dot_types(dtype: torch.dtype, wide: bool = False) -> dict[str, object]:
    """DOT, the type both factors of a product are cast to, and PRECISION, for float32 factors.

    float32 inputs are multiplied in full float32. The interpreter's bfloat16 products are wrong, so
    there everything is float32. ``wide`` keeps the factors of half-precision inputs in float32:
    what tf32 cuts off is multiplied apart, as without it every factor would lose up to 2^-10.
    """
    if interpreting() or dtype == torch.float32:
        return {"DOT": tl.float32, "PRECISION": "ieee"}
    if wide:
        return {"DOT": tl.float32, "PRECISION": "tf32x3"}
    return {"DOT": _HALF[dtype], "PRECISION": "tf32"}


def padded(size: int) -> int:
    """The power of two, at least 16, that holds a head of this size."""
    return max(HEADS[0], triton.next_power_of_2(size))


def split_sums(log_decay: Float[Tensor, "B L"], chunk: int | None = None) -> tuple[Tensor, Tensor]:
    """Inclusive sums of g as high + low, both float32; anew in every chunk if one is given.

    A difference of two highs is exact where it is small, so that exp(c_i - c_j) is good to 1e-7
    however long the sums have grown.
    """
    length = log_decay.shape[-1]
    g = log_decay.double().clamp(min=-1e4)
    if chunk is None:
        sums = g.cumsum(-1)
    else:
        g = torch.nn.functional.pad(g, (0, -length % chunk)).unflatten(-1, (-1, chunk))
        sums = g.cumsum(-1).flatten(-2)[..., :length]
    high = sums.float()
    return high, (sums - high.double()).float()


def reverse_sums(terms: Float[Tensor, "B L"], dtype: torch.dtype) -> Tensor:
    """sum_{i >= t} terms_i: the gradient of g_t from that of its sums c_i."""
    return terms.double().flip(1).cumsum(1).flip(1).to(dtype)


class RegisteredKernel(Kernel):
    """A ``torch.library`` operator whose outputs differ in type: ``shapes`` gives empty tensors."""

    def __init__(self, name: str, forward: Callable, backward: Callable, **rest) -> None:
        def forward_here(*args):
            with torch.cuda.device_of(args[0]):
                return forward(*(x.contiguous() if isinstance(x, Tensor) else x for x in args))

        def backward_here(*args):
            with torch.cuda.device_of(args[0]):
                return backward(*args)

        super().__init__(name, forward_here, backward_here, **rest)

    def _fake(self, *args):
        return tuple(self.shapes(*args[: self.count]))
