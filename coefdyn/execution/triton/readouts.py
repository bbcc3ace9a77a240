"""Pointwise readouts inside a kernel: phi and its derivative.

To add one: a branch in ``phi``, a branch in ``slope``, its name in ``NAMES``.
"""

from __future__ import annotations

import triton
import triton.language as tl

__all__ = ["NAMES", "phi", "slope"]

NAMES = ("identity", "exp", "relu", "softplus")


@triton.jit
def phi(s, PHI: tl.constexpr):
    """phi(s), elementwise in float32."""
    out = s
    if PHI == "exp":
        out = tl.exp(s)
    if PHI == "relu":
        out = tl.maximum(s, 0.0)
    if PHI == "softplus":
        # max(s, 0) + log1p(e^-|s|); the quotient restores what 1 + x has rounded away
        x = tl.exp(-tl.abs(s))
        u = 1.0 + x
        tail = tl.where(u == 1.0, x, tl.log(u) * x / tl.where(u == 1.0, 1.0, u - 1.0))
        out = tl.maximum(s, 0.0) + tail
    return out


@triton.jit
def slope(s, PHI: tl.constexpr):
    """phi'(s)."""
    out = s * 0.0 + 1.0
    if PHI == "exp":
        out = tl.exp(s)
    if PHI == "relu":
        out = tl.where(s > 0.0, 1.0, 0.0)
    if PHI == "softplus":
        out = 1.0 / (1.0 + tl.exp(-s))
    return out
