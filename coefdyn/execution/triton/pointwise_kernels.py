r"""Tiles of a pointwise readout with A_t = I or exp(g_t) I.

    s_ij = scale b_j exp(c_i - c_j) q_i . k_j,   y_i = (1/eta_i) sum_{j <= i} phi(s_ij) v_j

c = HI + LO are the sums of g. With SHIFT (phi = exp under a row sum) the row's running maximum m_i
is subtracted inside exp and kept in OFFSET. Backward, with the row factors inv_i = 1/eta_i and
delta_i = (dy_i . y_i) d eta_i / d rowsum_i:

    d alpha_ij = (dy_i . v_j - delta_i) inv_i,   ds_ij = d alpha_ij phi'(s_ij)

Scores of the column pass are computed as K Q^T, never as the transpose of a product.
"""

from __future__ import annotations

import triton
import triton.language as tl

from coefdyn.execution.triton.readouts import phi, slope

__all__ = ["columns_backward", "rows_backward", "rows_forward"]


@triton.jit
def load_tile(P, rows, cols, length, WIDTH: tl.constexpr):
    """Rows of a contiguous (L, WIDTH) matrix, 0 outside."""
    inside = (rows[:, None] < length) & (cols[None, :] < WIDTH)
    return tl.load(P + rows[:, None] * WIDTH + cols[None, :], mask=inside, other=0.0)


@triton.jit
def load_turned(P, rows, cols, length, WIDTH: tl.constexpr):
    """The same tile transposed."""
    inside = (rows[None, :] < length) & (cols[:, None] < WIDTH)
    return tl.load(P + rows[None, :] * WIDTH + cols[:, None], mask=inside, other=0.0)


@triton.jit
def store_tile(P, tile, rows, cols, length, WIDTH: tl.constexpr):
    inside = (rows[:, None] < length) & (cols[None, :] < WIDTH)
    tl.store(P + rows[:, None] * WIDTH + cols[None, :], tile.to(P.dtype.element_ty), mask=inside)


@triton.jit
def meet(
    s, causal, v, acc, total, peak, PHI: tl.constexpr, SHIFT: tl.constexpr,
    MASK: tl.constexpr, DOT: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """One tile of scores into the rows' sums."""
    if SHIFT:
        if MASK:
            s = tl.where(causal, s, -float("inf"))
        new = tl.maximum(peak, tl.max(s, 1))
        fade = tl.exp(peak - new)
        a = tl.exp(s - new[:, None])
        acc *= fade[:, None]
        total *= fade
        peak = new
    else:
        a = phi(s, PHI)
        if MASK:
            a = tl.where(causal, a, 0.0)
    total += tl.sum(a, 1)
    return tl.dot(a.to(DOT), v, acc, input_precision=PRECISION), total, peak


@triton.jit
def row_step(
    q, hi, lo, acc, total, peak, i, begin, end, K, V, HI, LO, W, length, scale,
    N: tl.constexpr, D: tl.constexpr, PN: tl.constexpr, PD: tl.constexpr, BC: tl.constexpr,
    PHI: tl.constexpr, SHIFT: tl.constexpr, DECAY: tl.constexpr, WEIGHT: tl.constexpr,
    MASK: tl.constexpr, DOT: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Columns begin .. end - 1 for one block of rows."""
    n, d = tl.arange(0, PN), tl.arange(0, PD)
    for start in range(begin, end, BC):
        j = start + tl.arange(0, BC)
        kt = load_turned(K, j, n, length, N).to(DOT)
        s = tl.dot(q, kt, input_precision=PRECISION) * scale
        causal = j[None, :] <= i[:, None]
        if WEIGHT:
            s *= tl.load(W + j, mask=j < length, other=0.0)[None, :]
        if DECAY:
            gap = hi[:, None] - tl.load(HI + j, mask=j < length, other=0.0)[None, :]
            gap += lo[:, None] - tl.load(LO + j, mask=j < length, other=0.0)[None, :]
            if MASK:
                gap = tl.where(causal, gap, -float("inf"))
            s *= tl.exp(gap)
        v = load_tile(V, j, d, length, D).to(DOT)
        acc, total, peak = meet(s, causal, v, acc, total, peak, PHI, SHIFT, MASK, DOT, PRECISION)
    return acc, total, peak


@triton.jit
def divided(
    acc, total, peak, base, i, length, LEAST, INV, SIDE, OFFSET,
    SHIFT: tl.constexpr, NORM: tl.constexpr,
):  # fmt: skip
    """The rows' sums over eta. NORM: 0 none, 1 row sum, 2 the larger of |row sum| and LEAST.

    INV is 1/eta (0 for an empty row), SIDE is d eta / d rowsum, OFFSET the running maximum.
    """
    inside = i < length
    if NORM > 0:
        eta = total
        side = total * 0.0 + 1.0
        if NORM == 2:
            least = tl.load(LEAST + base + i, mask=inside, other=1.0)
            if SHIFT:
                least *= tl.exp(-peak)
            side = tl.where(tl.abs(total) > least, tl.where(total < 0.0, -1.0, 1.0), 0.0)
            eta = tl.maximum(tl.abs(total), least)
        inverse = tl.where(eta == 0.0, 0.0, 1.0 / tl.where(eta == 0.0, 1.0, eta))
        acc *= inverse[:, None]
        tl.store(INV + base + i, inverse, mask=inside)
        tl.store(SIDE + base + i, side, mask=inside)
        tl.store(OFFSET + base + i, peak, mask=inside)
    return acc


@triton.jit(do_not_specialize=["scale"])
def rows_forward(
    Q, K, V, HI, LO, W, LEAST, Y, INV, SIDE, OFFSET, length, scale,
    N: tl.constexpr, D: tl.constexpr, PN: tl.constexpr, PD: tl.constexpr,
    BR: tl.constexpr, BC: tl.constexpr, PHI: tl.constexpr, SHIFT: tl.constexpr,
    NORM: tl.constexpr, DECAY: tl.constexpr, WEIGHT: tl.constexpr,
    DOT: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """One block of rows of y, and what ``divided`` stores for the backward passes."""
    blocks = tl.cdiv(length, BR)
    base = (tl.program_id(0) // blocks).to(tl.int64) * length
    first = (blocks - 1 - tl.program_id(0) % blocks) * BR  # the longest rows first
    i = first + tl.arange(0, BR)
    n, d = tl.arange(0, PN), tl.arange(0, PD)
    K += base * N
    V += base * D
    HI += base
    LO += base
    W += base
    q = load_tile(Q + base * N, i, n, length, N).to(DOT)
    acc = tl.zeros([BR, PD], tl.float32)
    total = tl.zeros([BR], tl.float32)
    hi, lo, peak = total, total, total
    if SHIFT and NORM == 1:
        peak = peak - float("inf")
    if DECAY:
        hi = tl.load(HI + i, mask=i < length, other=0.0)
        lo = tl.load(LO + i, mask=i < length, other=0.0)
    acc, total, peak = row_step(
        q, hi, lo, acc, total, peak, i, 0, first, K, V, HI, LO, W, length, scale,
        N, D, PN, PD, BC, PHI, SHIFT, DECAY, WEIGHT, False, DOT, PRECISION,
    )  # fmt: skip
    acc, total, peak = row_step(
        q, hi, lo, acc, total, peak, i, first, tl.minimum(first + BR, length),
        K, V, HI, LO, W, length, scale,
        N, D, PN, PD, BC, PHI, SHIFT, DECAY, WEIGHT, True, DOT, PRECISION,
    )  # fmt: skip
    acc = divided(acc, total, peak, base, i, length, LEAST, INV, SIDE, OFFSET, SHIFT, NORM)
    store_tile(Y + base * D, acc, i, d, length, D)


@triton.jit
def row_back_step(
    q, dy, hi, lo, inv, delta, peak, dq, along, i, begin, end, K, V, HI, LO, W, length, scale,
    N: tl.constexpr, D: tl.constexpr, PN: tl.constexpr, PD: tl.constexpr, BC: tl.constexpr,
    PHI: tl.constexpr, SHIFT: tl.constexpr, DECAY: tl.constexpr, WEIGHT: tl.constexpr,
    MASK: tl.constexpr, DOT: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """dq and sum_j ds_ij s_ij of one block of rows from columns begin .. end - 1."""
    n, d = tl.arange(0, PN), tl.arange(0, PD)
    for start in range(begin, end, BC):
        j = start + tl.arange(0, BC)
        k = load_tile(K, j, n, length, N).to(DOT)
        vt = load_turned(V, j, d, length, D).to(DOT)
        s = tl.dot(q, tl.trans(k), input_precision=PRECISION) * scale
        da = (tl.dot(dy, vt, input_precision=PRECISION) - delta[:, None]) * inv[:, None]
        causal = j[None, :] <= i[:, None]
        factor = tl.zeros([1, BC], tl.float32) + scale
        if WEIGHT:
            b = tl.load(W + j, mask=j < length, other=0.0)[None, :]
            s *= b
            factor *= b
        if DECAY:
            gap = hi[:, None] - tl.load(HI + j, mask=j < length, other=0.0)[None, :]
            gap += lo[:, None] - tl.load(LO + j, mask=j < length, other=0.0)[None, :]
            if MASK:
                gap = tl.where(causal, gap, -float("inf"))
            w = tl.exp(gap)
            s *= w
            factor = factor * w
        seen = s
        if SHIFT:
            if MASK:
                s = tl.where(causal, s, -float("inf"))
            ds = tl.exp(s - peak[:, None]) * da
        else:
            ds = slope(s, PHI) * da
            if MASK:
                ds = tl.where(causal, ds, 0.0)
        if DECAY:
            along += tl.sum(ds * seen, 1)
        dq = tl.dot((ds * factor).to(DOT), k, dq, input_precision=PRECISION)
    return dq, along


@triton.jit(do_not_specialize=["scale"])
def rows_backward(
    Q, K, V, HI, LO, W, DY, INV, DELTA, OFFSET, DQ, ALONG, length, scale,
    N: tl.constexpr, D: tl.constexpr, PN: tl.constexpr, PD: tl.constexpr,
    BR: tl.constexpr, BC: tl.constexpr, PHI: tl.constexpr, SHIFT: tl.constexpr,
    DECAY: tl.constexpr, WEIGHT: tl.constexpr, DOT: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """dq of one block of rows, and ALONG_i = sum_j ds_ij s_ij."""
    blocks = tl.cdiv(length, BR)
    base = (tl.program_id(0) // blocks).to(tl.int64) * length
    first = (blocks - 1 - tl.program_id(0) % blocks) * BR
    i = first + tl.arange(0, BR)
    n, d = tl.arange(0, PN), tl.arange(0, PD)
    inside = i < length
    K += base * N
    V += base * D
    HI += base
    LO += base
    W += base
    q = load_tile(Q + base * N, i, n, length, N).to(DOT)
    dy = load_tile(DY + base * D, i, d, length, D).to(DOT)
    inv = tl.load(INV + base + i, mask=inside, other=0.0)
    delta = tl.load(DELTA + base + i, mask=inside, other=0.0)
    peak = tl.load(OFFSET + base + i, mask=inside, other=0.0)
    hi, lo = peak * 0.0, peak * 0.0
    if DECAY:
        hi = tl.load(HI + i, mask=inside, other=0.0)
        lo = tl.load(LO + i, mask=inside, other=0.0)
    dq, along = tl.zeros([BR, PN], tl.float32), tl.zeros([BR], tl.float32)
    dq, along = row_back_step(
        q, dy, hi, lo, inv, delta, peak, dq, along, i, 0, first, K, V, HI, LO, W, length, scale,
        N, D, PN, PD, BC, PHI, SHIFT, DECAY, WEIGHT, False, DOT, PRECISION,
    )  # fmt: skip
    dq, along = row_back_step(
        q, dy, hi, lo, inv, delta, peak, dq, along, i, first, tl.minimum(first + BR, length),
        K, V, HI, LO, W, length, scale,
        N, D, PN, PD, BC, PHI, SHIFT, DECAY, WEIGHT, True, DOT, PRECISION,
    )  # fmt: skip
    store_tile(DQ + base * N, dq, i, n, length, N)
    if DECAY:
        tl.store(ALONG + base + i, along, mask=inside)


@triton.jit
def column_step(
    k, v, b, hi, lo, dk, dv, along, j, begin, end, Q, DY, HI, LO, INV, DELTA, OFFSET, length,
    scale,
    N: tl.constexpr, D: tl.constexpr, PN: tl.constexpr, PD: tl.constexpr, BR: tl.constexpr,
    PHI: tl.constexpr, SHIFT: tl.constexpr, DECAY: tl.constexpr, WEIGHT: tl.constexpr,
    MASK: tl.constexpr, DOT: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """dk (before b_j), dv and sum_i ds_ij s_ij / b_j of one block of columns from rows begin .."""
    n, d = tl.arange(0, PN), tl.arange(0, PD)
    for start in range(begin, end, BR):
        i = start + tl.arange(0, BR)
        inside = i < length
        q = load_tile(Q, i, n, length, N).to(DOT)
        dy = load_tile(DY, i, d, length, D).to(DOT)
        inv = tl.load(INV + i, mask=inside, other=0.0)[None, :]
        delta = tl.load(DELTA + i, mask=inside, other=0.0)[None, :]
        s = tl.dot(k, tl.trans(q), input_precision=PRECISION) * scale
        da = (tl.dot(v, tl.trans(dy), input_precision=PRECISION) - delta) * inv
        causal = (j[:, None] <= i[None, :]) & inside[None, :]
        w = tl.zeros([1, BR], tl.float32) + scale
        if DECAY:
            gap = tl.load(HI + i, mask=inside, other=-float("inf"))[None, :] - hi[:, None]
            gap += tl.load(LO + i, mask=inside, other=0.0)[None, :] - lo[:, None]
            if MASK:
                gap = tl.where(causal, gap, -float("inf"))
            fade = tl.exp(gap)
            s *= fade
            w = w * fade
        raw = s
        if WEIGHT:
            s *= b[:, None]
        if SHIFT:
            if MASK:
                s = tl.where(causal, s, -float("inf"))
            a = tl.exp(s - tl.load(OFFSET + i, mask=inside, other=0.0)[None, :])
            ds = a * da
        else:
            a = phi(s, PHI)
            ds = slope(s, PHI) * da
            if MASK:
                a = tl.where(causal, a, 0.0)
                ds = tl.where(causal, ds, 0.0)
        if DECAY or WEIGHT:
            along += tl.sum(ds * raw, 1)
        dv = tl.dot((a * inv).to(DOT), dy, dv, input_precision=PRECISION)
        dk = tl.dot((ds * w).to(DOT), q, dk, input_precision=PRECISION)
    return dk, dv, along


@triton.jit(do_not_specialize=["scale"])
def columns_backward(
    Q, K, V, HI, LO, W, DY, INV, DELTA, OFFSET, DK, DV, ALONG, length, scale,
    N: tl.constexpr, D: tl.constexpr, PN: tl.constexpr, PD: tl.constexpr,
    BR: tl.constexpr, BC: tl.constexpr, PHI: tl.constexpr, SHIFT: tl.constexpr,
    DECAY: tl.constexpr, WEIGHT: tl.constexpr, DOT: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """dk and dv of one block of BC columns, and ALONG_j = sum_i ds_ij s_ij / b_j."""
    blocks = tl.cdiv(length, BC)
    base = (tl.program_id(0) // blocks).to(tl.int64) * length
    first = (tl.program_id(0) % blocks) * BC
    j = first + tl.arange(0, BC)
    n, d = tl.arange(0, PN), tl.arange(0, PD)
    inside = j < length
    Q += base * N
    DY += base * D
    HI += base
    LO += base
    INV += base
    DELTA += base
    OFFSET += base
    k = load_tile(K + base * N, j, n, length, N).to(DOT)
    v = load_tile(V + base * D, j, d, length, D).to(DOT)
    b = tl.zeros([BC], tl.float32) + 1.0
    hi, lo = b * 0.0, b * 0.0
    if WEIGHT:
        b = tl.load(W + base + j, mask=inside, other=0.0)
    if DECAY:
        hi = tl.load(HI + j, mask=inside, other=0.0)
        lo = tl.load(LO + j, mask=inside, other=0.0)
    dk = tl.zeros([BC, PN], tl.float32)
    dv = tl.zeros([BC, PD], tl.float32)
    along = tl.zeros([BC], tl.float32)
    dk, dv, along = column_step(
        k, v, b, hi, lo, dk, dv, along, j, first, tl.minimum(first + BC, length),
        Q, DY, HI, LO, INV, DELTA, OFFSET, length, scale,
        N, D, PN, PD, BR, PHI, SHIFT, DECAY, WEIGHT, True, DOT, PRECISION,
    )  # fmt: skip
    dk, dv, along = column_step(
        k, v, b, hi, lo, dk, dv, along, j, first + BC, length,
        Q, DY, HI, LO, INV, DELTA, OFFSET, length, scale,
        N, D, PN, PD, BR, PHI, SHIFT, DECAY, WEIGHT, False, DOT, PRECISION,
    )  # fmt: skip
    if DECAY or WEIGHT:
        tl.store(ALONG + base + j, along, mask=inside)
    store_tile(DK + base * N, dk * b[:, None], j, n, length, N)
    store_tile(DV + base * D, dv, j, d, length, D)
