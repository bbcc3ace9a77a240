r"""Tiles of a pointwise readout with A_t = exp(g_t) (I - beta_t z_t z_t^T).

    s_ij = scale b_j exp(c_i - c_j) q_i^T R_i ... R_{j+1} k_j,   R_t = I - beta_t z_t z_t^T

Tokens come in blocks of C. Pairs inside a block are given (INNER). For the others a row of queries,
pulled back to its block's start, walks to the left; after it has met the keys of a block, which
were carried to that block's end, it passes the block: q <- q - (q Z^T) Y, see ``Blocks``.
"""

from __future__ import annotations

import triton
import triton.language as tl

from coefdyn.execution.triton.pointwise_kernels import divided, load_tile, meet, store_tile

__all__ = ["faded", "past_block", "rows_forward", "sums_at", "whole_tile", "whole_turned"]


@triton.jit
def sums_at(HI, LO, at, length, DECAY: tl.constexpr):
    """(high, low) sums of g of the tokens ``at``; -inf past the end, so that factors vanish."""
    hi, lo = at * 0.0, at * 0.0
    if DECAY:
        hi = tl.load(HI + at, mask=at < length, other=-float("inf"))
        lo = tl.load(LO + at, mask=at < length, other=0.0)
    return hi, lo


@triton.jit
def faded(hi_i, lo_i, hi_j, lo_j, causal, scale, DECAY: tl.constexpr, MASK: tl.constexpr):
    """scale exp(c_i - c_j), 0 outside the mask; all are broadcast."""
    out = scale
    if DECAY:
        gap = (hi_i - hi_j) + (lo_i - lo_j)
        if MASK:
            gap = tl.where(causal, gap, -float("inf"))
        out = scale * tl.exp(gap)
    return out


@triton.jit
def whole_tile(P, rows, cols, WIDTH: tl.constexpr):
    """Rows of a contiguous matrix of WIDTH columns, all of which exist."""
    if cols.shape[0] == WIDTH:
        out = tl.load(P + rows[:, None] * WIDTH + cols[None, :])
    else:
        place = P + rows[:, None] * WIDTH + cols[None, :]
        out = tl.load(place, mask=cols[None, :] < WIDTH, other=0.0)
    return out


@triton.jit
def whole_turned(P, rows, cols, WIDTH: tl.constexpr):
    """The same tile transposed."""
    if cols.shape[0] == WIDTH:
        out = tl.load(P + rows[None, :] * WIDTH + cols[:, None])
    else:
        place = P + rows[None, :] * WIDTH + cols[:, None]
        out = tl.load(place, mask=cols[:, None] < WIDTH, other=0.0)
    return out


@triton.jit
def past_block(
    x, LEFT, RIGHT, local, n, N: tl.constexpr, DOT: tl.constexpr, PRECISION: tl.constexpr
):
    """x - (x LEFT^T) RIGHT, the rows of LEFT and RIGHT being those of one block."""
    left = whole_turned(LEFT, local, n, N).to(DOT)
    right = whole_tile(RIGHT, local, n, N).to(DOT)
    along = tl.dot(x.to(DOT), left, input_precision=PRECISION)
    return x - tl.dot(along.to(DOT), right, input_precision=PRECISION)


@triton.jit(do_not_specialize=["scale"])
def rows_forward(
    Q, K, Y, Z, V, INNER, HI, LO, W, LEAST, OUT, INV, SIDE, OFFSET, length, scale,
    N: tl.constexpr, D: tl.constexpr, PN: tl.constexpr, PD: tl.constexpr, C: tl.constexpr,
    PHI: tl.constexpr, SHIFT: tl.constexpr, NORM: tl.constexpr, DECAY: tl.constexpr,
    WEIGHT: tl.constexpr, DOT: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """One block of rows of y; NORM, INV, SIDE and OFFSET as in ``pointwise_kernels``."""
    blocks = tl.cdiv(length, C)
    entry = (tl.program_id(0) // blocks).to(tl.int64)
    block = blocks - 1 - tl.program_id(0) % blocks  # the longest rows first
    base, whole = entry * length, entry * blocks * C
    local, n, d = tl.arange(0, C), tl.arange(0, PN), tl.arange(0, PD)
    i = block * C + local
    HI += base
    LO += base
    W += base
    V += base * D
    q = load_tile(Q + whole * N, i, n, blocks * C, N).to(tl.float32)
    peak = tl.zeros([C], tl.float32)
    if SHIFT and NORM == 1:
        peak = peak - float("inf")
    hi, lo = sums_at(HI, LO, i, length, DECAY)
    causal = i[None, :] <= i[:, None]
    s = load_tile(INNER + whole * C, i, local, blocks * C, C)
    s *= faded(
        hi[:, None], lo[:, None], hi[None, :], lo[None, :], causal & (i < length)[:, None], scale,
        DECAY, True,
    )  # fmt: skip
    if WEIGHT:
        s *= tl.load(W + i, mask=i < length, other=0.0)[None, :]
    v = load_tile(V, i, d, length, D).to(DOT)
    acc, total = tl.zeros([C, PD], tl.float32), tl.zeros([C], tl.float32)
    acc, total, peak = meet(s, causal, v, acc, total, peak, PHI, SHIFT, True, DOT, PRECISION)
    for step in range(0, block):
        start = (block - 1 - step) * C
        j = start + local
        kt = whole_turned(K + (whole + start) * N, local, n, N).to(DOT)
        s = tl.dot(q.to(DOT), kt, input_precision=PRECISION)
        near, low = sums_at(HI, LO, j, length, DECAY)
        s *= faded(
            hi[:, None], lo[:, None], near[None, :], low[None, :], causal, scale, DECAY, False
        )
        if WEIGHT:
            s *= tl.load(W + j)[None, :]
        v = whole_tile(V + start * D, local, d, D).to(DOT)
        acc, total, peak = meet(s, causal, v, acc, total, peak, PHI, SHIFT, False, DOT, PRECISION)
        left, right = Z + (base + start) * N, Y + (whole + start) * N
        q = past_block(q, left, right, local, n, N, DOT, PRECISION)
    acc = divided(acc, total, peak, base, i, length, LEAST, INV, SIDE, OFFSET, SHIFT, NORM)
    store_tile(OUT + base * D, acc, i, d, length, D)
