"""Kernels that a rank-one part adds to a diagonal scan: the triangular systems inside chunks."""

from __future__ import annotations

import triton
import triton.language as tl

from coefdyn.execution.triton.householder_kernels import store_base, unit_inverse
from coefdyn.execution.triton.pointwise_kernels import load_tile, load_turned, store_tile

__all__ = ["erase_gradients", "prepare"]


@triton.jit
def earlier_decay(L, i, n, first, length, N: tl.constexpr):
    """e^{l_{i-1}}: 1 at the chunk's first token, 0 past the end."""
    inside = (i[:, None] > first) & (i[:, None] < length) & (n[None, :] < N)
    sums = tl.load(L + (i[:, None] - 1) * N + n[None, :], mask=inside, other=0.0)
    return tl.exp(tl.where(i[:, None] < length, sums, -float("inf")))


@triton.jit
def prepare(
    RIGHT, V, B, L, M, T, BASE, WZ, length,
    N: tl.constexpr, D: tl.constexpr, C: tl.constexpr, BK: tl.constexpr, BV: tl.constexpr,
    WEIGHT: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """T = (I + N)^-1 in float32, BASE = T b V and WZ = T (Right e^{l_{i-1}}).

    Row i of N is row i - 1 of M, the scores of right one token ahead.
    """
    chunks = tl.cdiv(length, C)
    base = (tl.program_id(0) // chunks).to(tl.int64) * length
    first = (tl.program_id(0) % chunks) * C
    rows = tl.arange(0, C)
    i = first + rows
    below = (rows[None, :] < rows[:, None]) & (i[:, None] < length)
    ahead = M + base * C + (i[:, None] - 1) * C + rows[None, :]
    t = unit_inverse(tl.load(ahead, mask=below, other=0.0), C)
    store_tile(T + base * C, t, i, rows, length, C)
    store_base(t, V + base * D, B + base, BASE + base * D, i, length, D, BV, WEIGHT, PRECISION)
    for start in range(0, N, BK):
        n = start + tl.arange(0, BK)
        right = load_tile(RIGHT + base * N, i, n, length, N).to(tl.float32)
        right *= earlier_decay(L + base * N, i, n, first, length, N)
        store_tile(WZ + base * N, tl.dot(t, right, input_precision=PRECISION), i, n, length, N)


@triton.jit
def erase_gradients(
    L, R, X, H, DM, DRIGHT, length,
    N: tl.constexpr, D: tl.constexpr, C: tl.constexpr, BK: tl.constexpr, BV: tl.constexpr,
    DOT: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Back through (I + N) X = b V - (Right e^{l_{i-1}}) S, given R = (I + N)^-T dX.

    dN = -tril(R X^T, -1), kept as DM, one row earlier. DRIGHT is what passes through S.
    """
    chunks = tl.cdiv(length, C)
    block = tl.program_id(0)
    base = (block // chunks).to(tl.int64) * length
    first = (block % chunks) * C
    rows = tl.arange(0, C)
    i = first + rows
    R += base * D
    H += block.to(tl.int64) * N * D
    end = tl.minimum(first + C, length)
    dm = tl.zeros([C, C], tl.float32)
    for start in range(0, D, BV):
        d = start + tl.arange(0, BV)
        r = load_tile(R, i + 1, d, end, D).to(DOT)
        xt = load_turned(X + base * D, i, d, length, D).to(DOT)
        dm = tl.dot(r, xt, dm, input_precision=PRECISION)
    dm = tl.where(rows[None, :] <= rows[:, None], -dm, 0.0)
    store_tile(DM + base * C, dm, i, rows, length, C)
    for begin in range(0, N, BK):
        n = begin + tl.arange(0, BK)
        right = tl.zeros([C, BK], tl.float32)
        for start in range(0, D, BV):
            d = start + tl.arange(0, BV)
            r = load_tile(R, i, d, length, D).to(DOT)
            ht = load_turned(H, n, d, N, D).to(DOT)
            right = tl.dot(r, ht, right, input_precision=PRECISION)
        right *= -earlier_decay(L + base * N, i, n, first, length, N)
        store_tile(DRIGHT + base * N, right, i, n, length, N)
