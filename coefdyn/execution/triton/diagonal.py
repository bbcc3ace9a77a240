r"""Linear readout, A_t = diag(exp(g_t)), by Triton.

The scan is that of every structure; only the scores inside a chunk differ:

    A_ij = sum_c q_ic k_jc exp(l_ic - l_jc),   l the inclusive sums of g in the chunk.

Blocks of 16 rows meet earlier keys in one product anchored at the token before the block, where
with decays no exponent is above 0; pairs inside a block are summed directly. Masks come before exp.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from coefdyn.execution.triton.common import RegisteredKernel, dot_types
from coefdyn.execution.triton.linear import Scan, ScanInputs, chunk_size, shapes
from coefdyn.execution.triton.pointwise_kernels import load_tile, load_turned, store_tile
from coefdyn.shapes import Tensor

__all__ = [
    "add_gradients",
    "add_squares",
    "diagonal_gradients",
    "diagonal_kernel",
    "diagonal_scores",
    "scan",
    "scored",
    "scores",
    "take_squares",
]

#: rows per block
BLOCK = 16
#: a channel that decays by this many nats in one token is empty in float32
RESET = -100.0


# A mask compares vectors: Triton 3.9's interpreter refuses the conjunction of one with a scalar.


@triton.jit
def anchor_sums(L, at, first, n, N: tl.constexpr):
    """l at a token, and 0 before the chunk's first."""
    return tl.load(L + at * N + n, mask=n < tl.where(at >= first, N, 0), other=0.0)


@triton.jit
def near_decay(L, sums, at, i, n, length, N: tl.constexpr, LATER: tl.constexpr):
    """exp of the sums between the block's tokens i and one token: i after it, or before (LATER)."""
    one = tl.load(L + at * N + n, mask=n < tl.where(at < length, N, 0), other=0.0)[None, :]
    if LATER:
        gap = tl.where((i[:, None] <= at) & (at < length), one - sums, -float("inf"))
    else:
        gap = tl.where((i[:, None] >= at) & (i[:, None] < length), sums - one, -float("inf"))
    return tl.exp(gap)


@triton.jit
def diagonal_scores(
    Q, K, L, A, length, N: tl.constexpr, C: tl.constexpr, R: tl.constexpr, BK: tl.constexpr,
    DOT: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """A, R rows of one chunk."""
    parts: tl.constexpr = C // R
    chunks = tl.cdiv(length, C)
    block = tl.program_id(0) // parts
    base = (block // chunks).to(tl.int64) * length
    first = (block % chunks) * C
    start = first + (tl.program_id(0) % parts) * R
    i, cols = start + tl.arange(0, R), tl.arange(0, C)
    j = first + cols
    Q += base * N
    K += base * N
    L += base * N
    out = tl.zeros([R, C], tl.float32)
    for c in range(0, N, BK):
        n = c + tl.arange(0, BK)
        q = load_tile(Q, i, n, length, N).to(tl.float32)
        sums = load_tile(L, i, n, length, N)
        anchor = anchor_sums(L, tl.minimum(start, length) - 1, first, n, N)
        reach = tl.exp(tl.where(i[:, None] < length, sums - anchor[None, :], -float("inf")))
        gap = anchor[:, None] - load_turned(L, j, n, length, N)
        kt = load_turned(K, j, n, length, N).to(tl.float32)
        kt *= tl.exp(tl.where(j[None, :] < start, gap, -float("inf")))
        out = tl.dot((q * reach).to(DOT), kt.to(DOT), out, input_precision=PRECISION)
        for s in range(0, R):
            at = start + s
            key = tl.load(K + at * N + n, mask=n < tl.where(at < length, N, 0), other=0.0)
            decay = near_decay(L, sums, at, i, n, length, N, False)
            column = tl.sum(q * key.to(tl.float32)[None, :] * decay, 1)
            out = tl.where(j[None, :] == at, out + column[:, None], out)
    store_tile(A + base * C, out, i, cols, length, C)


@triton.jit
def diagonal_gradients(
    Q, K, L, DA, DQ, DK, length, N: tl.constexpr, C: tl.constexpr, R: tl.constexpr,
    BK: tl.constexpr, DOT: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """DQ and DK gain what passes through A, for R tokens and BK channels of one chunk."""
    parts: tl.constexpr = C // R
    chunks = tl.cdiv(length, C)
    block = tl.program_id(0) // parts
    base = (block // chunks).to(tl.int64) * length
    first = (block % chunks) * C
    start = first + (tl.program_id(0) % parts) * R
    i, cols = start + tl.arange(0, R), tl.arange(0, C)
    j = first + cols
    Q += base * N
    K += base * N
    L += base * N
    DA += base * C
    end = tl.minimum(start + R, length) - 1
    for c in range(0, N, BK):
        n = c + tl.arange(0, BK)
        sums = load_tile(L, i, n, length, N)
        anchor = anchor_sums(L, tl.minimum(start, length) - 1, first, n, N)
        reach = tl.exp(tl.where(i[:, None] < length, sums - anchor[None, :], -float("inf")))
        k = load_tile(K, j, n, length, N).to(tl.float32)
        later = load_tile(L, j, n, length, N)
        k *= tl.exp(tl.where(j[:, None] < start, anchor[None, :] - later, -float("inf")))
        da = load_tile(DA, i, cols, length, C)
        dq = reach * tl.dot(da.to(DOT), k.to(DOT), input_precision=PRECISION)
        anchor = anchor_sums(L, end, first, n, N)
        fade = tl.exp(tl.where(i[:, None] < length, anchor[None, :] - sums, -float("inf")))
        q = load_tile(Q, j, n, length, N).to(tl.float32)
        after = (j[:, None] > end) & (j[:, None] < length)
        q *= tl.exp(tl.where(after, later - anchor[None, :], -float("inf")))
        # entry (t, s) is dA at row first + s, column start - first + t
        local = i - first
        inside = (j[None, :] < length) & (local[:, None] < C)
        dat = tl.load(DA + j[None, :] * C + local[:, None], mask=inside, other=0.0)
        dk = fade * tl.dot(dat.to(DOT), q.to(DOT), input_precision=PRECISION)
        for s in range(0, R):
            at = start + s
            seen = n < tl.where(at < length, N, 0)
            key = tl.load(K + at * N + n, mask=seen, other=0.0).to(tl.float32)
            query = tl.load(Q + at * N + n, mask=seen, other=0.0).to(tl.float32)
            column = tl.load(DA + i * C + (at - first), mask=i < length, other=0.0)
            row = tl.load(DA + at * C + local, mask=i < tl.where(at < length, length, 0), other=0.0)
            decay = near_decay(L, sums, at, i, n, length, N, False)
            dq += column[:, None] * key[None, :] * decay
            decay = near_decay(L, sums, at, i, n, length, N, True)
            dk += row[:, None] * query[None, :] * decay
        dq += load_tile(DQ + base * N, i, n, length, N)
        dk += load_tile(DK + base * N, i, n, length, N)
        store_tile(DQ + base * N, dq, i, n, length, N)
        store_tile(DK + base * N, dk, i, n, length, N)


def _sums(g: Tensor, chunk: int) -> Tensor:
    """l, float32."""
    length = g.shape[1]
    g = torch.nn.functional.pad(g.clamp(min=RESET), (0, 0, 0, -length % chunk))
    return g.unflatten(1, (-1, chunk)).cumsum(2).flatten(1, 2)[:, :length].contiguous()


def scored(q, k, v, weight, log_decay, scale: float) -> Scan:
    """The scan with its scores."""
    sums = _sums(log_decay.float(), chunk_size(v.dtype))
    scan = Scan(q, k, v, weight, scale, (sums, sums), 2)
    scan.scores = scores(scan, q)
    return scan


def scores(scan: Scan, q: Tensor, wide: bool = False) -> Tensor:
    """A of these queries with the keys of the scan, ``(B, L, C)``; ``wide`` as in ``dot_types``."""
    a = scan.wide(scan.batch, scan.length, scan.chunk)
    diagonal_scores[_grid(scan)](q, scan.k, scan.hi, a, scan.length, **_options(scan, wide))
    return a


def add_gradients(
    scan: Scan, q: Tensor, da: Tensor, dq: Tensor, dk: Tensor, wide: bool = False
) -> None:
    """Add the gradient that passes through ``scores`` to dq and dk."""
    diagonal_gradients[_grid(scan)](
        q, scan.k, scan.hi, da, dq, dk, scan.length, **_options(scan, wide)
    )


def take_squares(da: Tensor, size: int) -> Tensor:
    """Take the squares on the diagonal of A's gradient out of it, ``(B, L / size, size, size)``.

    Between their tokens no decay lies: their shares of its gradient cancel, and would bury what a
    strong decay leaves.
    """
    rows = da.unflatten(1, (-1, size))
    tokens = torch.arange(da.shape[1], device=da.device).remainder(da.shape[2])
    columns = tokens.view(-1, 1, size).expand(rows.shape[0], -1, size, -1)
    squares = rows.gather(3, columns)
    rows.scatter_(3, columns, 0.0)
    return squares


def add_squares(squares: Tensor, q: Tensor, k: Tensor, dq: Tensor, dk: Tensor) -> None:
    """Add the gradient that passes through the selected pairs to dq and dk."""
    q, k, dq, dk = (x.unflatten(1, (-1, squares.shape[2])) for x in (q, k, dq, dk))
    dq += squares @ k.float()
    dk += squares.mT @ q.float()


def _options(scan: Scan, wide: bool) -> dict:
    """Options of this file's kernels."""
    options = {name: scan.common[name] for name in ("N", "C", "DOT", "PRECISION")}
    options |= {"R": BLOCK, "BK": 32} | scan.launch
    return options | dot_types(scan.q.dtype, wide=True) if wide else options


def _grid(scan: Scan) -> tuple[int]:
    return (scan.batch * scan.chunks * (scan.chunk // BLOCK),)


def forward(q, k, v, weight, log_decay, start, scale: float) -> tuple[Tensor, Tensor]:
    """(O, final state)."""
    scan = scored(q, k, v, weight, log_decay, scale)
    before, final, x = scan.states(start)
    return scan.outputs(before, x), final


def backward(
    q, k, v, weight, log_decay, start, out, final, dout, dfinal, scale: float
) -> tuple[Tensor | None, ...]:
    """Gradients of (q, k, v, weight, log_decay, start)."""
    scan = scored(q, k, v, weight, log_decay, scale)
    before, _, x = scan.states(start)
    dx, after, dstart = scan.reverse(dout, dfinal)
    dq, dk, da = scan.gradients(dout, x, before, after)
    own = take_squares(da, 1)
    add_gradients(scan, q, da, dq, dk)
    dv, dweight = scan.values_gradient(dx, weight, scale)
    terms = (q.float() * dq).sub_(k.float() * dk)
    add_squares(own, q, k, dq, dk)
    dg = scan.decay_gradient(terms, scan.carried(before, final, after, dfinal))
    dstart = None if start is None else dstart
    return dq.to(q.dtype), dk.to(k.dtype), dv, dweight, dg.to(log_decay.dtype), dstart


diagonal_kernel = RegisteredKernel(
    "triton_diagonal",
    forward,
    backward,
    tensors=("q", "k", "v", "weight?", "log_decay", "start?"),
    options=("float scale",),
    shapes=shapes,
    outputs=2,
)


def scan(inputs: ScanInputs) -> tuple[Tensor, Tensor]:
    """(O, final state)."""
    return diagonal_kernel(*inputs)
