"""The interpreter with the roundings of a GPU's tensor cores.

Factors become what a GPU multiplies: bfloat16 and float16 as cast, tf32 with its last 13 bits cut
off. Sums stay in float32. The interpreter's own casts to bfloat16 cut off too; here they round.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from unittest import mock

import numpy as np
import triton.language as tl
from triton.runtime.interpreter import InterpreterBuilder, TensorHandle

from coefdyn.execution.triton import common

__all__ = ["tensor_cores"]

_cast = InterpreterBuilder.cast_impl


def _bits(x: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(x, np.float32).view(np.uint32)


def rounded(x: np.ndarray) -> np.ndarray:
    """The bits of the nearest bfloat16."""
    bits = _bits(x)
    nearest = (bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))) >> np.uint32(16)
    return np.where(np.isnan(x), np.uint32(0x7FC0), nearest).astype(np.uint16)


def widened(handle: TensorHandle) -> np.ndarray:
    """float32 numbers; the interpreter keeps bfloat16 as its bits."""
    if handle.dtype.scalar == tl.bfloat16:
        return (handle.data.astype(np.uint32) << np.uint32(16)).view(np.float32)
    return handle.data.astype(np.float32)


def cast(self, handle: TensorHandle, to: tl.dtype) -> TensorHandle:
    since, to = handle.dtype.scalar, to.scalar
    if (since, to) == (tl.float32, tl.bfloat16):
        return TensorHandle(rounded(handle.data), to)
    if (since, to) == (tl.bfloat16, tl.float32):
        return TensorHandle(widened(handle), to)
    return _cast(self, handle, to)


def dot(self, a: TensorHandle, b: TensorHandle, d: TensorHandle, precision, most) -> TensorHandle:
    left, right = widened(a), widened(b)
    if a.dtype.scalar == tl.float32 and precision.name == "TF32":
        left, right = ((_bits(x) & np.uint32(0xFFFFE000)).view(np.float32) for x in (left, right))
    return TensorHandle(np.matmul(left, right) + d.data, d.dtype.scalar)


@contextmanager
def tensor_cores() -> Iterator[None]:
    """Kernels started inside get the number types they would get on a GPU, and its roundings."""
    with (
        mock.patch.object(common, "interpreting", return_value=False),
        mock.patch.object(InterpreterBuilder, "cast_impl", cast),
        mock.patch.object(InterpreterBuilder, "create_dot", dot),
    ):
        yield
