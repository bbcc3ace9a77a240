"""The method that "auto" selects (``make bench`` prints the tables behind the CPU's limits)."""

from __future__ import annotations

from math import prod

import torch

from coefdyn.dynamics.coefficients import CoefficientDynamics
from coefdyn.dynamics.evolution import (
    Diagonal,
    DiagonalPlusRankOne,
    Householder,
    Identity,
    Scalar,
)
from coefdyn.dynamics.readout import FeatureMap
from coefdyn.execution.chunked.dispatch import check_chunked, is_softmax
from coefdyn.execution.growth import erases
from coefdyn.execution.state import has_finite_state
from coefdyn.execution.triton.dispatch import WIDEST, check_triton

__all__ = ["PARALLEL_UP_TO", "accepts", "choose"]

#: structure -> {readout kind: the longest L at which the whole L x L matrix is faster on a CPU,
#: forward and backward}; 0: never
PARALLEL_UP_TO: dict[type, dict[str, int]] = {
    Identity: {"linear": 64, "softmax": 0, "pointwise": 128},
    Scalar: {"linear": 64, "pointwise": 64},
    Diagonal: {"linear": 0, "pointwise": 32},
    Householder: {"linear": 32, "pointwise": 128},
    DiagonalPlusRankOne: {"linear": 32, "pointwise": 32},
}
#: structures whose whole matrix is a few products, so that a graph of it serves any length
FREE = (Identity, Scalar, Householder)
#: the longest such L where a mask says how far a row reads: tiles then read no more
MASKED_UP_TO = 64
#: linear readouts: the most numbers that the matrices of all batch entries may hold together for
#: that; more do not stay in cache. A triangular solve of each matrix brings the limit down
MATRICES, HOUSEHOLDER_MATRICES = 2**21, 2**18
#: a structure without a fast algorithm is run token by token beyond this length, where its readout
#: allows: L^2 states of n numbers then cost more than L matrices
STATES_UP_TO = 128


def choose(dynamics: CoefficientDynamics, value_dim: int = 1) -> str:
    """The method of "auto" for this design, on the device it lies on.

    1. On a CUDA device: triton, where a kernel takes the design with d_v = ``value_dim`` value
       channels and triton is installed.
    2. The whole matrix up to the lengths of ``PARALLEL_UP_TO``, chunks beyond. Measured on a CPU,
       and used on every device.
    3. What chunks refuse: token by token if the past fits into one state and the sequence is longer
       than STATES_UP_TO, else the whole matrix.

    Where ``torch.export`` records a graph for any length, the whole matrix: see ``FREE``.

    Raises:
        ValueError: for another structure there.
    """
    if has_free_length(dynamics):
        return check_free(dynamics)
    on_gpu = dynamics.device.type == "cuda" and value_dim <= WIDEST
    if on_gpu and accepts(check_triton, dynamics):
        return "triton"
    finite = has_finite_state(dynamics)
    if not accepts(check_chunked, dynamics):
        return "recurrent" if finite and dynamics.length > STATES_UP_TO else "parallel"
    kind = "linear" if finite else "softmax" if is_softmax(dynamics) else "pointwise"
    limits = PARALLEL_UP_TO.get(type(dynamics.evolution), {})
    longest = limits.get(kind, 0)
    if dynamics.mask is not None and dynamics.mask.first(0) is not None:
        longest = min(longest, MASKED_UP_TO)
    short = dynamics.length <= longest
    if short and kind == "linear":
        numbers = prod(dynamics.batch_shape) * dynamics.length**2
        short = numbers <= (HOUSEHOLDER_MATRICES if erases(dynamics) else MATRICES)
    return "parallel" if short else "chunked"


def has_free_length(dynamics: CoefficientDynamics) -> bool:
    """Return whether ``torch.export`` records a graph in which the number of tokens is a symbol."""
    exporting = getattr(torch.compiler, "is_exporting", bool)  # from torch 2.7 on
    return exporting() and not isinstance(dynamics.length, int)


def check_free(dynamics: CoefficientDynamics) -> str:
    """The method of a graph for any length.

    Raises:
        ValueError: for a structure whose algorithms go through the tokens in Python.
    """
    kind, mapped = type(dynamics.evolution), isinstance(dynamics.readout, FeatureMap)
    if kind is Identity or (kind in FREE and not mapped):
        return "parallel"
    names = ", ".join(one.__name__ for one in FREE)
    name = f"{'a feature map of ' if mapped else ''}{kind.__name__}"
    raise ValueError(
        f"torch.export records one length for {name}, whose algorithms go through tokens "
        f"or chunks one by one; a free length is for {names}. Export a graph for each length that "
        "you need, without dynamic_shapes for the axis of tokens, and pad inputs to it."
    )


def accepts(check, dynamics: CoefficientDynamics) -> bool:
    """Return whether a method's check lets the design pass."""
    try:
        check(dynamics)
    except ValueError:
        return False
    return True
