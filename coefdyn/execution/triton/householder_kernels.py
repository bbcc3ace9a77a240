"""Kernels that a Householder evolution adds to the scan: the triangular systems inside chunks."""

from __future__ import annotations

import triton
import triton.language as tl

from coefdyn.execution.triton.pointwise_kernels import load_tile, load_turned, store_tile
from coefdyn.execution.triton.scan_kernels import pair_decay, token_factor

__all__ = ["erase_gradients", "prepare", "store_base", "turned_product", "unit_inverse"]


@triton.jit
def unit_inverse(system, C: tl.constexpr):
    """(I + system)^-1 by forward substitution, for a strictly lower triangular system."""
    rows = tl.arange(0, C)
    t = tl.where(rows[:, None] == rows[None, :], 1.0, 0.0)
    for r in range(1, C):
        row = tl.sum(tl.where(rows[:, None] == r, system, 0.0), 0)
        solved = tl.sum(row[:, None] * t, 0)
        t = tl.where(rows[:, None] == r, t - solved[None, :], t)
    return t


@triton.jit
def store_base(
    t, V, B, BASE, i, length,
    D: tl.constexpr, BV: tl.constexpr, WEIGHT: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """BASE = T b V of one chunk."""
    for start in range(0, D, BV):
        d = start + tl.arange(0, BV)
        v = load_tile(V, i, d, length, D).to(tl.float32)
        if WEIGHT:
            v *= tl.load(B + i, mask=i < length, other=0.0)[:, None]
        store_tile(BASE, tl.dot(t, v, input_precision=PRECISION), i, d, length, D)


@triton.jit
def prepare(
    K, V, B, BETA, HI, LO, T, BASE, WZ, length,
    N: tl.constexpr, D: tl.constexpr, C: tl.constexpr, BK: tl.constexpr, BV: tl.constexpr,
    GATE: tl.constexpr, WEIGHT: tl.constexpr, DOT: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """T = (I + tril(beta (K K^T) * D, -1))^-1 by forward substitution, in float32; then
    BASE = T b V and WZ = T beta (K e^c)."""
    chunks = tl.cdiv(length, C)
    base = (tl.program_id(0) // chunks).to(tl.int64) * length
    i = (tl.program_id(0) % chunks) * C + tl.arange(0, C)
    rows = tl.arange(0, C)
    inside = i < length
    K += base * N
    beta = tl.load(BETA + base + i, mask=inside, other=0.0)
    system = tl.zeros([C, C], tl.float32)
    for start in range(0, N, BK):
        n = start + tl.arange(0, BK)
        left = load_tile(K, i, n, length, N).to(DOT)
        right = load_turned(K, i, n, length, N).to(DOT)
        system = tl.dot(left, right, system, input_precision=PRECISION)
    if GATE == 1:
        system *= pair_decay(HI + base, LO + base, i[:, None], i[None, :], length, True)
    system = tl.where(i[None, :] < i[:, None], system * beta[:, None], 0.0)
    t = unit_inverse(system, C)
    store_tile(T + base * C, t, i, rows, length, C)
    store_base(t, V + base * D, B + base, BASE + base * D, i, length, D, BV, WEIGHT, PRECISION)
    if GATE == 1:
        beta *= token_factor(HI + base, LO + base, i, 0, length, False)
    for start in range(0, N, BK):
        n = start + tl.arange(0, BK)
        k = load_tile(K, i, n, length, N).to(tl.float32) * beta[:, None]
        store_tile(WZ + base * N, tl.dot(t, k, input_precision=PRECISION), i, n, length, N)


@triton.jit
def turned_product(
    T, X, R, length, D: tl.constexpr, C: tl.constexpr, BV: tl.constexpr, PRECISION: tl.constexpr
):
    """R = T^T X of one chunk."""
    parts = tl.cdiv(D, BV)
    chunks = tl.cdiv(length, C)
    block = tl.program_id(0) // parts
    base = (block // chunks).to(tl.int64) * length
    i = (block % chunks) * C + tl.arange(0, C)
    d = (tl.program_id(0) % parts) * BV + tl.arange(0, BV)
    t = load_turned(T + base * C, i, tl.arange(0, C), length, C)
    x = load_tile(X + base * D, i, d, length, D)
    store_tile(R + base * D, tl.dot(t, x, input_precision=PRECISION), i, d, length, D)


@triton.jit
def erase_gradients(
    K, BETA, HI, LO, R, U, H, DK, DBETA, ALONG, length,
    N: tl.constexpr, D: tl.constexpr, C: tl.constexpr, BK: tl.constexpr, BV: tl.constexpr,
    GATE: tl.constexpr, DOT: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Back through (I + N) U = b V - beta (K e^c) S, given R = (I + N)^-T dU.

    dN = -tril(R U^T, -1). DK gains what k gets as reader and as eraser; ALONG is the part of the
    gradient of c.
    """
    chunks = tl.cdiv(length, C)
    block = tl.program_id(0)
    base = (block // chunks).to(tl.int64) * length
    i = (block % chunks) * C + tl.arange(0, C)
    inside = i < length
    K += base * N
    R += base * D
    U += base * D
    HI += base
    LO += base
    H += block.to(tl.int64) * N * D
    beta = tl.load(BETA + base + i, mask=inside, other=0.0)
    dn = tl.zeros([C, C], tl.float32)
    dnt = tl.zeros([C, C], tl.float32)
    for start in range(0, D, BV):
        d = start + tl.arange(0, BV)
        r = load_tile(R, i, d, length, D).to(DOT)
        ut = load_turned(U, i, d, length, D).to(DOT)
        dn = tl.dot(r, ut, dn, input_precision=PRECISION)
        u = load_tile(U, i, d, length, D).to(DOT)
        rt = load_turned(R, i, d, length, D).to(DOT)
        dnt = tl.dot(u, rt, dnt, input_precision=PRECISION)
    reach = beta * 0.0 + 1.0
    if GATE == 1:
        dn *= pair_decay(HI, LO, i[:, None], i[None, :], length, True)
        dnt *= pair_decay(HI, LO, i[:, None], i[None, :], length, False)
        reach = token_factor(HI, LO, i, 0, length, False)
    dn = tl.where(i[None, :] < i[:, None], -dn, 0.0)
    dnt = tl.where(i[:, None] < i[None, :], -dnt, 0.0)
    dbeta = beta * 0.0
    columns = beta * 0.0
    for first in range(0, N, BK):
        n = first + tl.arange(0, BK)
        k = load_tile(K, i, n, length, N)
        row = tl.zeros([C, BK], tl.float32)
        for start in range(0, D, BV):
            d = start + tl.arange(0, BV)
            r = load_tile(R, i, d, length, D).to(DOT)
            ht = load_turned(H, n, d, N, D).to(DOT)
            row = tl.dot(r, ht, row, input_precision=PRECISION)
        row *= -reach[:, None]
        row = tl.dot(dn.to(DOT), k.to(DOT), row, input_precision=PRECISION)
        k = k.to(tl.float32)
        kb = (k * beta[:, None]).to(DOT)
        write = tl.dot(dnt.to(DOT), kb, input_precision=PRECISION)
        dk = load_tile(DK + base * N, i, n, length, N) + row * beta[:, None] + write
        store_tile(DK + base * N, dk, i, n, length, N)
        dbeta += tl.sum(k * row, 1)
        columns += tl.sum(k * write, 1)
    tl.store(DBETA + base + i, dbeta, mask=inside)
    tl.store(ALONG + base + i, dbeta * beta - columns, mask=inside)
