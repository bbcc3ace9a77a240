r"""Linear readouts, chunk by chunk: states, outputs and their gradients, for every structure.

With l the inclusive sum of g inside a chunk (a number per token for GATE 1, a vector for GATE 2),
T its value at the chunk's last token, A the scores inside the chunk and S its first state (n x d):

    O = A X + (Q e^l) S,    S <- e^T S + (K e^{T - l})^T X

X is b V, or, for Householder evolutions, the pseudo-values BASE - WZ S (see householder.py), which
are differences and stay in float32 as factors too.
A = tril(Q K^T) * exp(l_i - l_j) is computed here; for GATE 2 it comes from memory (diagonal.py).
No product is transposed into another product: its transpose is computed from loads.
"""

from __future__ import annotations

import triton
import triton.language as tl

from coefdyn.execution.triton.pointwise_kernels import load_tile, load_turned, store_tile

__all__ = [
    "carried_decay",
    "local_gradients",
    "scan_outputs",
    "scan_reverse",
    "scan_states",
    "score_gradients",
]


@triton.jit
def pair_decay(HI, LO, rows, cols, length, ROW_FIRST: tl.constexpr):
    """exp(c_i - c_j) for j <= i < length, else 0; entry (i, j), or (j, i) without ROW_FIRST."""
    if ROW_FIRST:
        i, j = rows, cols
    else:
        i, j = cols, rows
    gap = tl.load(HI + i, mask=i < length, other=0.0) - tl.load(HI + j, mask=j < length, other=0.0)
    gap += tl.load(LO + i, mask=i < length, other=0.0) - tl.load(LO + j, mask=j < length, other=0.0)
    return tl.exp(tl.where((j <= i) & (i < length), gap, -float("inf")))


@triton.jit
def token_factor(HI, LO, at, last, length, FADE: tl.constexpr):
    """e^{c} of the tokens ``at``, or e^{c_last - c} with FADE; 0 past the end."""
    c = tl.load(HI + at, mask=at < length, other=0.0)
    low = tl.load(LO + at, mask=at < length, other=0.0)
    if FADE:
        c, low = tl.load(HI + last) - c, tl.load(LO + last) - low
    return tl.exp(tl.where(at < length, c + low, -float("inf")))


@triton.jit
def gated(
    tile, HI, LO, at, cols, last, length,
    N: tl.constexpr, GATE: tl.constexpr, FADE: tl.constexpr, TURNED: tl.constexpr,
):  # fmt: skip
    """A tile of queries times e^l, or of keys times e^{T - l} with FADE; TURNED: (n, tokens)."""
    out = tile.to(tl.float32)
    if GATE == 1:
        factor = token_factor(HI, LO, at, last, length, FADE)
        if TURNED:
            out = out * factor[None, :]
        else:
            out = out * factor[:, None]
    if GATE == 2:
        if TURNED:
            sums = load_turned(HI, at, cols, length, N)
        else:
            sums = load_tile(HI, at, cols, length, N)
        if FADE:
            end = tl.load(HI + last * N + cols, mask=cols < N, other=0.0)
            if TURNED:
                sums = end[:, None] - sums
            else:
                sums = end[None, :] - sums
        if TURNED:
            out = tl.where(at[None, :] < length, out * tl.exp(sums), 0.0)
        else:
            out = tl.where(at[:, None] < length, out * tl.exp(sums), 0.0)
    return out


@triton.jit
def whole_decay(S, HI, LO, n, last, N: tl.constexpr, GATE: tl.constexpr):
    """e^T S."""
    if GATE == 1:
        S = S * tl.exp(tl.load(HI + last) + tl.load(LO + last))
    if GATE == 2:
        S = S * tl.exp(tl.load(HI + last * N + n, mask=n < N, other=0.0))[:, None]
    return S


@triton.jit
def scan_states(
    K, X, B, BASE, WZ, HI, LO, START, H, FINAL, length,
    N: tl.constexpr, D: tl.constexpr, PN: tl.constexpr, C: tl.constexpr, BV: tl.constexpr,
    GATE: tl.constexpr, WEIGHT: tl.constexpr, HOUSE: tl.constexpr, INITIAL: tl.constexpr,
    DOT: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """H_t, the state before every chunk, and FINAL; with HOUSE also X = BASE - WZ S."""
    parts = tl.cdiv(D, BV)
    entry = (tl.program_id(0) // parts).to(tl.int64)
    n = tl.arange(0, PN)
    d = (tl.program_id(0) % parts) * BV + tl.arange(0, BV)
    base = entry * length
    chunks = tl.cdiv(length, C)
    gates = base
    if GATE == 2:
        gates = base * N
    HI += gates
    LO += gates
    S = tl.zeros([PN, BV], tl.float32)
    if INITIAL:
        S = load_tile(START + entry * N * D, n, d, N, D).to(tl.float32)
    for t in range(0, chunks):
        j = t * C + tl.arange(0, C)
        last = tl.minimum(t * C + C, length) - 1
        store_tile(H + (entry * chunks + t) * N * D, S, n, d, N, D)
        if HOUSE:
            x = load_tile(BASE + base * D, j, d, length, D)
            wz = load_tile(WZ + base * N, j, n, length, N)
            x -= tl.dot(wz.to(DOT), S.to(DOT), input_precision=PRECISION)
            store_tile(X + base * D, x, j, d, length, D)
        else:
            x = load_tile(X + base * D, j, d, length, D).to(tl.float32)
            if WEIGHT:
                x *= tl.load(B + base + j, mask=j < length, other=0.0)[:, None]
        kt = load_turned(K + base * N, j, n, length, N)
        kt = gated(kt, HI, LO, j, n, last, length, N, GATE, True, True)
        S = whole_decay(S, HI, LO, n, last, N, GATE)
        if HOUSE:
            S = tl.dot(kt, x, S, input_precision=PRECISION)
        else:
            S = tl.dot(kt.to(DOT), x.to(DOT), S, input_precision=PRECISION)
    store_tile(FINAL + entry * N * D, S, n, d, N, D)


@triton.jit
def chunk_scores(
    Q, K, HI, LO, A, i, j, length, N: tl.constexpr, BK: tl.constexpr, C: tl.constexpr,
    GATE: tl.constexpr, ROW_FIRST: tl.constexpr, DOT: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """A of one chunk; without ROW_FIRST its transpose, from loads."""
    local = tl.arange(0, C)
    if GATE == 2:
        if ROW_FIRST:
            out = load_tile(A, i, local, length, C)
        else:
            out = load_turned(A, i, local, length, C)
    else:
        out = tl.zeros([C, C], tl.float32)
        for start in range(0, N, BK):
            n = start + tl.arange(0, BK)
            if ROW_FIRST:
                left = load_tile(Q, i, n, length, N).to(DOT)
                right = load_turned(K, j, n, length, N).to(DOT)
            else:
                left = load_tile(K, j, n, length, N).to(DOT)
                right = load_turned(Q, i, n, length, N).to(DOT)
            out = tl.dot(left, right, out, input_precision=PRECISION)
        if GATE == 1:
            if ROW_FIRST:
                out *= pair_decay(HI, LO, i[:, None], j[None, :], length, True)
            else:
                out *= pair_decay(HI, LO, j[:, None], i[None, :], length, False)
        else:
            if ROW_FIRST:
                out = tl.where(j[None, :] <= i[:, None], out, 0.0)
            else:
                out = tl.where(j[:, None] <= i[None, :], out, 0.0)
    return out


@triton.jit
def scan_outputs(
    Q, K, X, B, HI, LO, A, H, O, length,
    N: tl.constexpr, D: tl.constexpr, C: tl.constexpr, BK: tl.constexpr, BV: tl.constexpr,
    GATE: tl.constexpr, WEIGHT: tl.constexpr, HOUSE: tl.constexpr,
    DOT: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """O of one chunk and one part of the value channels."""
    parts = tl.cdiv(D, BV)
    chunks = tl.cdiv(length, C)
    block = tl.program_id(0) // parts
    entry = (block // chunks).to(tl.int64)
    base = entry * length
    i = (block % chunks) * C + tl.arange(0, C)
    d = (tl.program_id(0) % parts) * BV + tl.arange(0, BV)
    Q += base * N
    K += base * N
    A += base * C
    H += block.to(tl.int64) * N * D
    gates = base
    if GATE == 2:
        gates = base * N
    HI += gates
    LO += gates
    out = tl.zeros([C, BV], tl.float32)
    for start in range(0, N, BK):
        n = start + tl.arange(0, BK)
        q = load_tile(Q, i, n, length, N)
        q = gated(q, HI, LO, i, n, 0, length, N, GATE, False, False)
        state = load_tile(H, n, d, N, D)
        out = tl.dot(q.to(DOT), state.to(DOT), out, input_precision=PRECISION)
    a = chunk_scores(Q, K, HI, LO, A, i, i, length, N, BK, C, GATE, True, DOT, PRECISION)
    x = load_tile(X + base * D, i, d, length, D).to(tl.float32)
    if WEIGHT:
        x *= tl.load(B + base + i, mask=i < length, other=0.0)[:, None]
    if HOUSE:
        out = tl.dot(a, x, out, input_precision=PRECISION)
    else:
        out = tl.dot(a.to(DOT), x.to(DOT), out, input_precision=PRECISION)
    store_tile(O + base * D, out, i, d, length, D)


@triton.jit
def local_gradients(
    Q, K, HI, LO, A, DO, DX, length,
    N: tl.constexpr, D: tl.constexpr, C: tl.constexpr, BK: tl.constexpr, BV: tl.constexpr,
    GATE: tl.constexpr, DOT: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """DX = A^T DO of one chunk: what X gives to the outputs of its own chunk."""
    parts = tl.cdiv(D, BV)
    chunks = tl.cdiv(length, C)
    block = tl.program_id(0) // parts
    base = (block // chunks).to(tl.int64) * length
    i = (block % chunks) * C + tl.arange(0, C)
    d = (tl.program_id(0) % parts) * BV + tl.arange(0, BV)
    gates = base
    if GATE == 2:
        gates = base * N
    at = chunk_scores(
        Q + base * N, K + base * N, HI + gates, LO + gates, A + base * C, i, i, length,
        N, BK, C, GATE, False, DOT, PRECISION,
    )  # fmt: skip
    do = load_tile(DO + base * D, i, d, length, D)
    dx = tl.dot(at.to(DOT), do.to(DOT), input_precision=PRECISION)
    store_tile(DX + base * D, dx, i, d, length, D)


@triton.jit
def scan_reverse(
    Q, K, WZ, HI, LO, DO, DX, DFINAL, DH, DSTART, length,
    N: tl.constexpr, D: tl.constexpr, PN: tl.constexpr, C: tl.constexpr, BV: tl.constexpr,
    GATE: tl.constexpr, HOUSE: tl.constexpr, DOT: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """From the last chunk to the first: DH, the gradient of the state after every chunk.

    DX += (K e^{T - l}) DS;  DS <- e^T DS + (Q e^l)^T DO [- WZ^T DX].
    """
    parts = tl.cdiv(D, BV)
    entry = (tl.program_id(0) // parts).to(tl.int64)
    n = tl.arange(0, PN)
    d = (tl.program_id(0) % parts) * BV + tl.arange(0, BV)
    base = entry * length
    chunks = tl.cdiv(length, C)
    gates = base
    if GATE == 2:
        gates = base * N
    HI += gates
    LO += gates
    DX += base * D
    S = load_tile(DFINAL + entry * N * D, n, d, N, D).to(tl.float32)
    for step in range(0, chunks):
        t = chunks - 1 - step
        j = t * C + tl.arange(0, C)
        last = tl.minimum(t * C + C, length) - 1
        store_tile(DH + (entry * chunks + t) * N * D, S, n, d, N, D)
        k = load_tile(K + base * N, j, n, length, N)
        k = gated(k, HI, LO, j, n, last, length, N, GATE, True, False)
        dx = load_tile(DX, j, d, length, D)
        dx += tl.dot(k.to(DOT), S.to(DOT), input_precision=PRECISION)
        store_tile(DX, dx, j, d, length, D)
        qt = load_turned(Q + base * N, j, n, length, N)
        qt = gated(qt, HI, LO, j, n, last, length, N, GATE, False, True)
        do = load_tile(DO + base * D, j, d, length, D)
        S = whole_decay(S, HI, LO, n, last, N, GATE)
        S = tl.dot(qt.to(DOT), do.to(DOT), S, input_precision=PRECISION)
        if HOUSE:
            wt = load_turned(WZ + base * N, j, n, length, N)
            S -= tl.dot(wt.to(DOT), dx.to(DOT), input_precision=PRECISION)
    store_tile(DSTART + entry * N * D, S, n, d, N, D)


@triton.jit
def score_gradients(
    Q, K, X, B, HI, LO, DO, H, DH, DQ, DK, DA, length,
    N: tl.constexpr, D: tl.constexpr, C: tl.constexpr, BK: tl.constexpr, BV: tl.constexpr,
    GATE: tl.constexpr, WEIGHT: tl.constexpr, DOT: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """DQ and DK of one chunk; for GATE 2 without what passes through A, whose gradient is DA."""
    chunks = tl.cdiv(length, C)
    block = tl.program_id(0)
    base = (block // chunks).to(tl.int64) * length
    i = (block % chunks) * C + tl.arange(0, C)
    last = tl.minimum((block % chunks) * C + C, length) - 1
    local = tl.arange(0, C)
    gates = base
    if GATE == 2:
        gates = base * N
    HI += gates
    LO += gates
    Q += base * N
    K += base * N
    X += base * D
    DO += base * D
    H += block.to(tl.int64) * N * D
    DH += block.to(tl.int64) * N * D
    b = tl.zeros([C], tl.float32) + 1.0
    if WEIGHT:
        b = tl.load(B + base + i, mask=i < length, other=0.0)
    da = tl.zeros([C, C], tl.float32)
    dat = tl.zeros([C, C], tl.float32)
    for start in range(0, D, BV):
        d = start + tl.arange(0, BV)
        do = load_tile(DO, i, d, length, D).to(DOT)
        xt = load_turned(X, i, d, length, D).to(tl.float32) * b[None, :]
        da = tl.dot(do, xt.to(DOT), da, input_precision=PRECISION)
        if GATE != 2:
            x = load_tile(X, i, d, length, D).to(tl.float32) * b[:, None]
            dot = load_turned(DO, i, d, length, D).to(DOT)
            dat = tl.dot(x.to(DOT), dot, dat, input_precision=PRECISION)
    if GATE == 1:
        da *= pair_decay(HI, LO, i[:, None], i[None, :], length, True)
        dat *= pair_decay(HI, LO, i[:, None], i[None, :], length, False)
    else:
        da = tl.where(i[None, :] <= i[:, None], da, 0.0)
        dat = tl.where(i[:, None] <= i[None, :], dat, 0.0)
    if GATE == 2:
        store_tile(DA + base * C, da, i, local, length, C)
    for first in range(0, N, BK):
        n = first + tl.arange(0, BK)
        dq = tl.zeros([C, BK], tl.float32)
        dk = tl.zeros([C, BK], tl.float32)
        for start in range(0, D, BV):
            d = start + tl.arange(0, BV)
            do = load_tile(DO, i, d, length, D).to(DOT)
            x = load_tile(X, i, d, length, D).to(tl.float32) * b[:, None]
            ht = load_turned(H, n, d, N, D).to(DOT)
            dht = load_turned(DH, n, d, N, D).to(DOT)
            dq = tl.dot(do, ht, dq, input_precision=PRECISION)
            dk = tl.dot(x.to(DOT), dht, dk, input_precision=PRECISION)
        dq = gated(dq, HI, LO, i, n, last, length, N, GATE, False, False)
        dk = gated(dk, HI, LO, i, n, last, length, N, GATE, True, False)
        if GATE != 2:
            k = load_tile(K, i, n, length, N).to(DOT)
            q = load_tile(Q, i, n, length, N).to(DOT)
            dq = tl.dot(da.to(DOT), k, dq, input_precision=PRECISION)
            dk = tl.dot(dat.to(DOT), q, dk, input_precision=PRECISION)
        store_tile(DQ + base * N, dq, i, n, length, N)
        store_tile(DK + base * N, dk, i, n, length, N)


@triton.jit(do_not_specialize=["chunks"])
def carried_decay(
    H, FINAL, DH, DFINAL, OUT, chunks,
    N: tl.constexpr, D: tl.constexpr, BN: tl.constexpr, BV: tl.constexpr,
):  # fmt: skip
    """OUT_n = sum_d S_nd dS_nd after one chunk: the gradient of its whole decay, per channel."""
    t = tl.program_id(0) % chunks
    entry = (tl.program_id(0) // chunks).to(tl.int64)
    after = (entry * chunks + t) * N * D
    for first in range(0, N, BN):
        n = first + tl.arange(0, BN)
        total = tl.zeros([BN], tl.float32)
        for start in range(0, D, BV):
            d = start + tl.arange(0, BV)
            if t == chunks - 1:
                state = load_tile(FINAL + entry * N * D, n, d, N, D).to(tl.float32)
                ds = load_tile(DFINAL + entry * N * D, n, d, N, D).to(tl.float32)
            else:
                state = load_tile(H + after + N * D, n, d, N, D).to(tl.float32)
                ds = load_tile(DH + after, n, d, N, D).to(tl.float32)
            total += tl.sum(state * ds, 1)
        tl.store(OUT + (entry * chunks + t) * N + n, total, mask=n < N)
