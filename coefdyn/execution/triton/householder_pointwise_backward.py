r"""Gradients of ``householder_pointwise_kernels``, with ds_ij = d alpha_ij phi'(s_ij).

``inner_backward`` is for pairs inside blocks; then, for a group of row blocks at a time,
``pull_queries`` writes what every block of columns meets; ``rows_backward`` walks to the right and
carries the gradient G of the row, which passes a block as G <- G - (G Y^T) Z, and writes what it
was; ``columns_backward`` sums over the rows of the group for keys and values, ``block_gradients``
for Z^T Y, whose gradient is the sum of -Q^T G.

Scores of the column pass are computed as K Q^T, never as the transpose of a product.
"""

from __future__ import annotations

import triton
import triton.language as tl

from coefdyn.execution.triton.householder_pointwise_kernels import (
    faded,
    past_block,
    sums_at,
    whole_tile,
    whole_turned,
)
from coefdyn.execution.triton.pointwise_kernels import load_tile, load_turned, store_tile
from coefdyn.execution.triton.readouts import phi, slope

__all__ = [
    "block_gradients",
    "columns_backward",
    "inner_backward",
    "pull_queries",
    "rows_backward",
]


@triton.jit(do_not_specialize=["first", "count"])
def pull_queries(
    Q, Y, Z, SEEN, length, first, count,
    N: tl.constexpr, PN: tl.constexpr, C: tl.constexpr,
    DOT: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """SEEN[c, r], the queries of row block first + r as block c < first + r of keys sees them."""
    blocks = tl.cdiv(length, C)
    entry = (tl.program_id(0) // count).to(tl.int64)
    row = tl.program_id(0) % count
    base, whole = entry * length, entry * blocks * C
    local, n = tl.arange(0, C), tl.arange(0, PN)
    q = load_tile(Q + whole * N, (first + row) * C + local, n, blocks * C, N).to(tl.float32)
    for step in range(0, first + row):
        c = first + row - 1 - step
        store_tile(SEEN + ((entry * blocks + c) * count + row) * C * N, q, local, n, C, N)
        left, right = Z + (base + c * C) * N, Y + (whole + c * C) * N
        q = past_block(q, left, right, local, n, N, DOT, PRECISION)


@triton.jit
def rate(s, causal, peak, PHI: tl.constexpr, SHIFT: tl.constexpr, MASK: tl.constexpr):
    """d alpha_ij / d s_ij, 0 outside the mask; peak is broadcast."""
    if SHIFT:
        if MASK:
            s = tl.where(causal, s, -float("inf"))
        out = tl.exp(s - peak)
    else:
        out = slope(s, PHI)
        if MASK:
            out = tl.where(causal, out, 0.0)
    return out


@triton.jit(do_not_specialize=["scale"])
def inner_backward(
    V, INNER, HI, LO, W, DY, INV, DELTA, OFFSET, DINNER, DV, ROW_ALONG, ALONG, length, scale,
    D: tl.constexpr, PD: tl.constexpr, C: tl.constexpr,
    PHI: tl.constexpr, SHIFT: tl.constexpr, DECAY: tl.constexpr, WEIGHT: tl.constexpr,
    DOT: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Pairs of one block: DINNER, and the first part of DV and of both sums ALONG."""
    blocks = tl.cdiv(length, C)
    entry = (tl.program_id(0) // blocks).to(tl.int64)
    base, whole = entry * length, entry * blocks * C
    local, d = tl.arange(0, C), tl.arange(0, PD)
    i = (tl.program_id(0) % blocks) * C + local
    inside = i < length
    hi, lo = sums_at(HI + base, LO + base, i, length, DECAY)
    b = tl.zeros([C], tl.float32) + 1.0
    if WEIGHT:
        b = tl.load(W + base + i, mask=inside, other=0.0)
    inv = tl.load(INV + base + i, mask=inside, other=0.0)
    delta = tl.load(DELTA + base + i, mask=inside, other=0.0)
    peak = tl.load(OFFSET + base + i, mask=inside, other=0.0)
    dy = load_tile(DY + base * D, i, d, length, D).to(DOT)
    vt = load_turned(V + base * D, i, d, length, D).to(DOT)
    causal = (i[None, :] <= i[:, None]) & inside[:, None]
    factor = faded(hi[:, None], lo[:, None], hi[None, :], lo[None, :], causal, scale, DECAY, True)
    raw = load_tile(INNER + whole * C, i, local, blocks * C, C) * factor
    ds = rate(raw * b[None, :], causal, peak[:, None], PHI, SHIFT, True)
    ds *= (tl.dot(dy, vt, input_precision=PRECISION) - delta[:, None]) * inv[:, None]
    store_tile(DINNER + whole * C, ds * factor * b[None, :], i, local, blocks * C, C)
    tl.store(ROW_ALONG + base + i, tl.sum(ds * raw * b[None, :], 1), mask=inside)
    tl.store(ALONG + base + i, tl.sum(ds * raw, 0), mask=inside)
    causal = (i[:, None] <= i[None, :]) & inside[None, :]
    factor = faded(hi[None, :], lo[None, :], hi[:, None], lo[:, None], causal, scale, DECAY, True)
    s = load_turned(INNER + whole * C, i, local, blocks * C, C) * factor * b[:, None]
    if SHIFT:
        a = tl.exp(tl.where(causal, s, -float("inf")) - peak[None, :])
    else:
        a = tl.where(causal, phi(s, PHI), 0.0)
    dv = tl.dot((a * inv[None, :]).to(DOT), dy, input_precision=PRECISION)
    store_tile(DV + base * D, dv, i, d, length, D)


@triton.jit(do_not_specialize=["scale", "first", "count"])
def rows_backward(
    SEEN, K, Y, Z, V, HI, LO, W, DY, INV, DELTA, OFFSET, PASSED, DQ, ALONG,
    length, first, count, scale,
    N: tl.constexpr, D: tl.constexpr, PN: tl.constexpr, PD: tl.constexpr, C: tl.constexpr,
    PHI: tl.constexpr, SHIFT: tl.constexpr, DECAY: tl.constexpr, WEIGHT: tl.constexpr,
    DOT: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """DQ of one block of rows, and PASSED[c, r], its part from the blocks left of c.

    Adds to ALONG_i = sum_j ds_ij s_ij.
    """
    blocks = tl.cdiv(length, C)
    entry = (tl.program_id(0) // count).to(tl.int64)
    row = tl.program_id(0) % count
    base, whole = entry * length, entry * blocks * C
    local, n, d = tl.arange(0, C), tl.arange(0, PN), tl.arange(0, PD)
    i = (first + row) * C + local
    inside = i < length
    HI += base
    LO += base
    W += base
    V += base * D
    dy = load_tile(DY + base * D, i, d, length, D).to(DOT)
    inv = tl.load(INV + base + i, mask=inside, other=0.0)
    delta = tl.load(DELTA + base + i, mask=inside, other=0.0)
    peak = tl.load(OFFSET + base + i, mask=inside, other=0.0)
    hi, lo = sums_at(HI, LO, i, length, DECAY)
    dq = tl.zeros([C, PN], tl.float32)
    along = tl.zeros([C], tl.float32)
    for c in range(0, first + row):
        j = c * C + local
        place = ((entry * blocks + c) * count + row) * C * N
        store_tile(PASSED + place, dq, local, n, C, N)
        left, right = Y + (whole + c * C) * N, Z + (base + c * C) * N
        dq = past_block(dq, left, right, local, n, N, DOT, PRECISION)
        near, low = sums_at(HI, LO, j, length, DECAY)
        factor = faded(
            hi[:, None], lo[:, None], near[None, :], low[None, :], True, scale, DECAY, False
        )
        if WEIGHT:
            factor *= tl.load(W + j)[None, :]
        q = whole_tile(SEEN + place, local, n, N).to(DOT)
        k = whole_tile(K + (whole + c * C) * N, local, n, N).to(DOT)
        s = tl.dot(q, tl.trans(k), input_precision=PRECISION) * factor
        ds = rate(s, True, peak[:, None], PHI, SHIFT, False)
        vt = whole_turned(V + c * C * D, local, d, D).to(DOT)
        ds *= (tl.dot(dy, vt, input_precision=PRECISION) - delta[:, None]) * inv[:, None]
        along += tl.sum(ds * s, 1)
        dq = tl.dot((ds * factor).to(DOT), k, dq, input_precision=PRECISION)
    store_tile(DQ + whole * N, dq, i, n, blocks * C, N)
    along += tl.load(ALONG + base + i, mask=inside, other=0.0)
    tl.store(ALONG + base + i, along, mask=inside)


@triton.jit(do_not_specialize=["scale", "first", "count"])
def columns_backward(
    SEEN, K, V, HI, LO, W, DY, INV, DELTA, OFFSET, DK, DV, ALONG,
    length, first, count, scale,
    N: tl.constexpr, D: tl.constexpr, PN: tl.constexpr, PD: tl.constexpr, C: tl.constexpr,
    PHI: tl.constexpr, SHIFT: tl.constexpr, DECAY: tl.constexpr, WEIGHT: tl.constexpr,
    DOT: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Adds what one group of rows gives to DK, DV, and ALONG_j = sum_i ds_ij s_ij / b_j."""
    blocks = tl.cdiv(length, C)
    entry = (tl.program_id(0) // (first + count)).to(tl.int64)
    c = tl.program_id(0) % (first + count)
    base, whole = entry * length, entry * blocks * C
    local, n, d = tl.arange(0, C), tl.arange(0, PN), tl.arange(0, PD)
    j = c * C + local
    inside = j < length
    HI += base
    LO += base
    INV += base
    DELTA += base
    OFFSET += base
    DY += base * D
    SEEN += (entry * blocks + c) * count * C * N
    k = load_tile(K + whole * N, j, n, blocks * C, N).to(DOT)
    v = load_tile(V + base * D, j, d, length, D).to(DOT)
    b = tl.zeros([C], tl.float32) + 1.0
    if WEIGHT:
        b = tl.load(W + base + j, mask=inside, other=0.0)
    hi, lo = sums_at(HI, LO, j, length, DECAY)
    along = tl.zeros([C], tl.float32)
    dk = tl.zeros([C, PN], tl.float32)
    dv = tl.zeros([C, PD], tl.float32)
    for row in range(tl.maximum(c + 1 - first, 0), count):
        i = (first + row) * C + local
        q = whole_tile(SEEN + row * C * N, local, n, N).to(DOT)
        dy = load_tile(DY, i, d, length, D).to(DOT)
        near, low = sums_at(HI, LO, i, length, DECAY)
        factor = faded(
            near[None, :], low[None, :], hi[:, None], lo[:, None], True, scale, DECAY, False
        )
        raw = tl.dot(k, tl.trans(q), input_precision=PRECISION) * factor
        s = raw * b[:, None]
        inv = tl.load(INV + i, mask=i < length, other=0.0)[None, :]
        peak = tl.load(OFFSET + i, mask=i < length, other=0.0)[None, :]
        ds = rate(s, True, peak, PHI, SHIFT, False)
        a = ds
        if not SHIFT:
            a = phi(s, PHI)
        dv = tl.dot((a * inv).to(DOT), dy, dv, input_precision=PRECISION)
        delta = tl.load(DELTA + i, mask=i < length, other=0.0)[None, :]
        ds *= (tl.dot(v, tl.trans(dy), input_precision=PRECISION) - delta) * inv
        along += tl.sum(ds * raw, 1)
        dk = tl.dot((ds * factor).to(DOT), q, dk, input_precision=PRECISION)
    dk = dk * b[:, None] + load_tile(DK + whole * N, j, n, blocks * C, N)
    store_tile(DK + whole * N, dk, j, n, blocks * C, N)
    dv += load_tile(DV + base * D, j, d, length, D)
    store_tile(DV + base * D, dv, j, d, length, D)
    along += tl.load(ALONG + base + j, mask=inside, other=0.0)
    tl.store(ALONG + base + j, along, mask=inside)


@triton.jit(do_not_specialize=["first", "count"])
def block_gradients(
    SEEN, PASSED, DWHOLE, length, first, count,
    N: tl.constexpr, PN: tl.constexpr, BN: tl.constexpr, C: tl.constexpr,
    DOT: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Adds to the gradient of Z^T Y of one block, BN columns: minus the sum of SEEN^T PASSED."""
    blocks = tl.cdiv(length, C)
    parts = tl.cdiv(N, BN)
    block = tl.program_id(0) // parts
    entry = (block // (first + count)).to(tl.int64)
    c = block % (first + count)
    local, n = tl.arange(0, C), tl.arange(0, PN)
    m = (tl.program_id(0) % parts) * BN + tl.arange(0, BN)
    place = (entry * blocks + c) * count * C * N
    DWHOLE += (entry * blocks + c) * N * N
    total = tl.zeros([PN, BN], tl.float32)
    for row in range(tl.maximum(c + 1 - first, 0), count):
        qt = load_turned(SEEN + place + row * C * N, local, n, C, N).to(DOT)
        passed = load_tile(PASSED + place + row * C * N, local, m, C, N).to(DOT)
        total = tl.dot(qt, passed, total, input_precision=PRECISION)
    store_tile(DWHOLE, load_tile(DWHOLE, n, m, N, N) - total, n, m, N, N)
