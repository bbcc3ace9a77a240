r"""Tiles of a pointwise readout with A_t = diag(exp(g_t)), between blocks of C tokens.

    s_ij = sum_c q_ic k_jc exp(l_ic - l_jc),   y_i = (1/eta_i) sum_{j <= i} phi(s_ij) v_j

with l the sums of g, and b_j in the keys. Queries Q come back to the start of their block, keys K
forward to the end of theirs; MARKS says by how many powers of two each channel has changed between
the starts of two blocks (see diagonal_pointwise.py). A query of block r meets a key of block c < r
as q . k 2^{M_r - M_{c+1}}: a product with a power of two rounds nothing, so all three passes see
the same scores whichever factor carries it, and a sum over blocks may be multiplied from one block
to the next. INNER holds the scores of a block's own pairs; their gradient goes to DINNER. Row
factors and their names are those of pointwise_kernels.py.
"""

from __future__ import annotations

import triton
import triton.language as tl

from coefdyn.execution.triton.pointwise_kernels import (
    divided,
    load_tile,
    load_turned,
    meet,
    store_tile,
)
from coefdyn.execution.triton.readouts import phi, slope

__all__ = ["columns_backward", "rows_backward", "rows_forward"]


@triton.jit
def change(MARKS, to, since, n, N: tl.constexpr):
    """2^{M_to - M_since} per channel, written into the exponent's bits; 0 below normal numbers."""
    m = tl.load(MARKS + to * N + n, mask=n < N, other=0)
    m -= tl.load(MARKS + since * N + n, mask=n < N, other=0)
    bits = (tl.minimum(tl.maximum(m, -127), 128) + 127) << 23
    return bits.to(tl.float32, bitcast=True)


@triton.jit
def product(
    LEFT, RIGHT, MARKS, rows, cols, to, since, length, N: tl.constexpr, C: tl.constexpr,
    BK: tl.constexpr, MARKED: tl.constexpr, DOT: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """LEFT RIGHT^T of two blocks, BK channels at a time; MARKED: LEFT times 2^{M_to - M_since}.

    LEFT is loaded anew for every tile: held in registers, wide heads would spill.
    """
    s = tl.zeros([C, C], tl.float32)
    for start in range(0, N, BK):
        n = start + tl.arange(0, BK)
        left = load_tile(LEFT, rows, n, length, N)
        if MARKED:
            left = left.to(tl.float32) * change(MARKS, to, since, n, N)[None, :]
        right = load_turned(RIGHT, cols, n, length, N).to(DOT)
        s = tl.dot(left.to(DOT), right, s, input_precision=PRECISION)
    return s


@triton.jit
def rows_forward(
    Q, K, V, MARKS, INNER, LEAST, Y, INV, SIDE, OFFSET, length,
    N: tl.constexpr, D: tl.constexpr, PN: tl.constexpr, PD: tl.constexpr, C: tl.constexpr,
    BK: tl.constexpr, PHI: tl.constexpr, SHIFT: tl.constexpr, NORM: tl.constexpr,
    DOT: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """One block of rows of y. NORM: 0 none, 1 row sum, 2 the larger of |row sum| and LEAST."""
    blocks = tl.cdiv(length, C)
    entry = (tl.program_id(0) // blocks).to(tl.int64)
    base = entry * length
    r = blocks - 1 - tl.program_id(0) % blocks  # the longest rows first
    local = tl.arange(0, C)
    i = r * C + local
    d = tl.arange(0, PD)
    Q += base * N
    K += base * N
    V += base * D
    MARKS += entry * (blocks + 1) * N
    acc = tl.zeros([C, PD], tl.float32)
    total = tl.zeros([C], tl.float32)
    peak = total
    if SHIFT and NORM == 1:
        peak = peak - float("inf")
    s = load_tile(INNER + base * C, i, local, length, C)
    causal = local[None, :] <= local[:, None]
    v = load_tile(V, i, d, length, D).to(DOT)
    acc, total, peak = meet(s, causal, v, acc, total, peak, PHI, SHIFT, True, DOT, PRECISION)
    for c in range(0, r):
        j = c * C + local
        s = product(Q, K, MARKS, i, j, r, c + 1, length, N, C, BK, True, DOT, PRECISION)
        v = load_tile(V, j, d, length, D).to(DOT)
        acc, total, peak = meet(s, causal, v, acc, total, peak, PHI, SHIFT, False, DOT, PRECISION)
    acc = divided(acc, total, peak, base, i, length, LEAST, INV, SIDE, OFFSET, SHIFT, NORM)
    store_tile(Y + base * D, acc, i, d, length, D)


@triton.jit
def rows_backward(
    Q, K, V, MARKS, INNER, DY, INV, DELTA, OFFSET, DQ, DINNER, length,
    N: tl.constexpr, D: tl.constexpr, PN: tl.constexpr, PD: tl.constexpr, C: tl.constexpr,
    BK: tl.constexpr, PHI: tl.constexpr, SHIFT: tl.constexpr,
    DOT: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """DQ, of the query at its block's start, from earlier blocks; DINNER, of the own pairs."""
    blocks = tl.cdiv(length, C)
    entry = (tl.program_id(0) // blocks).to(tl.int64)
    base = entry * length
    r = blocks - 1 - tl.program_id(0) % blocks
    local = tl.arange(0, C)
    i = r * C + local
    n = tl.arange(0, PN)
    inside = i < length
    Q += base * N
    K += base * N
    V += base * D
    MARKS += entry * (blocks + 1) * N
    DY += base * D
    inv = tl.load(INV + base + i, mask=inside, other=0.0)[:, None]
    delta = tl.load(DELTA + base + i, mask=inside, other=0.0)[:, None]
    peak = tl.load(OFFSET + base + i, mask=inside, other=0.0)[:, None]
    causal = local[None, :] <= local[:, None]
    s = load_tile(INNER + base * C, i, local, length, C)
    da = product(DY, V, MARKS, i, i, 0, 0, length, D, C, BK, False, DOT, PRECISION)
    da = (da - delta) * inv
    if SHIFT:
        ds = tl.exp(tl.where(causal, s - peak, -float("inf"))) * da
    else:
        ds = tl.where(causal, slope(s, PHI) * da, 0.0)
    store_tile(DINNER + base * C, ds, i, local, length, C)
    dq = tl.zeros([C, PN], tl.float32)
    for c in range(0, r):
        j = c * C + local
        s = product(Q, K, MARKS, i, j, r, c + 1, length, N, C, BK, True, DOT, PRECISION)
        da = product(DY, V, MARKS, i, j, 0, 0, length, D, C, BK, False, DOT, PRECISION)
        da = (da - delta) * inv
        if SHIFT:
            ds = tl.exp(s - peak) * da
        else:
            ds = slope(s, PHI) * da
        k = load_tile(K, j, n, length, N).to(DOT)
        dq *= change(MARKS, c + 1, c, n, N)[None, :]
        dq = tl.dot(ds.to(DOT), k, dq, input_precision=PRECISION)
    store_tile(DQ + base * N, dq, i, n, length, N)


@triton.jit
def columns_backward(
    Q, K, V, MARKS, INNER, DY, INV, DELTA, OFFSET, DK, DV, length,
    N: tl.constexpr, D: tl.constexpr, PN: tl.constexpr, PD: tl.constexpr, C: tl.constexpr,
    BK: tl.constexpr, PHI: tl.constexpr, SHIFT: tl.constexpr,
    DOT: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """DV of one block of keys, and DK, of the key at its block's end, from later blocks."""
    blocks = tl.cdiv(length, C)
    entry = (tl.program_id(0) // blocks).to(tl.int64)
    base = entry * length
    c = tl.program_id(0) % blocks
    local = tl.arange(0, C)
    j = c * C + local
    n, d = tl.arange(0, PN), tl.arange(0, PD)
    Q += base * N
    K += base * N
    DY += base * D
    INV += base
    DELTA += base
    OFFSET += base
    MARKS += entry * (blocks + 1) * N
    inside = j < length
    s = load_turned(INNER + base * C, j, local, length, C)
    if SHIFT:
        s -= tl.load(OFFSET + j, mask=inside, other=0.0)[None, :]
        a = tl.exp(tl.where(local[:, None] <= local[None, :], s, -float("inf")))
    else:
        a = tl.where(local[:, None] <= local[None, :], phi(s, PHI), 0.0)
    a *= tl.load(INV + j, mask=inside, other=0.0)[None, :]
    dy = load_tile(DY, j, d, length, D).to(DOT)
    dv = tl.dot(a.to(DOT), dy, input_precision=PRECISION)
    dk = tl.zeros([C, PN], tl.float32)
    v = load_tile(V + base * D, j, d, length, D).to(DOT)
    for step in range(c + 1, blocks):
        r = blocks + c - step
        i = r * C + local
        inside = i < length
        s = product(K, Q, MARKS, j, i, r, c + 1, length, N, C, BK, True, DOT, PRECISION)
        dy = load_tile(DY, i, d, length, D).to(DOT)
        inv = tl.load(INV + i, mask=inside, other=0.0)[None, :]
        delta = tl.load(DELTA + i, mask=inside, other=0.0)[None, :]
        da = (tl.dot(v, tl.trans(dy), input_precision=PRECISION) - delta) * inv
        if SHIFT:
            a = tl.exp(s - tl.load(OFFSET + i, mask=inside, other=0.0)[None, :])
            ds = a * da
        else:
            a = phi(s, PHI)
            ds = slope(s, PHI) * da
        dv = tl.dot((a * inv).to(DOT), dy, dv, input_precision=PRECISION)
        q = load_tile(Q, i, n, length, N).to(DOT)
        dk *= change(MARKS, r + 1, r, n, N)[None, :]
        dk = tl.dot(ds.to(DOT), q, dk, input_precision=PRECISION)
    store_tile(DK + base * N, dk, j, n, length, N)
    store_tile(DV + base * D, dv, j, d, length, D)
