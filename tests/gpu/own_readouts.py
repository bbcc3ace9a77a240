"""A readout that the library does not have, given to the Triton kernels in six lines."""

from __future__ import annotations

import triton
import triton.language as tl

from coefdyn import readout
from coefdyn.execution.triton.readouts import key_of, register

__all__ = ["KEY", "rate", "squared_relu", "value"]


@triton.jit
def value(s):
    return tl.maximum(s, 0.0) * tl.maximum(s, 0.0)


@triton.jit
def rate(s):
    return 2.0 * tl.maximum(s, 0.0)


squared_relu = readout.Pointwise(lambda s: s.relu() ** 2, name="squared_relu")
register(squared_relu, phi=value, slope=rate)
#: how an operator names it
KEY = key_of(squared_relu)
