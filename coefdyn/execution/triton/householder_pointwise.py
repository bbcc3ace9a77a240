r"""Pointwise readouts with A_t = exp(g_t) (I - beta_t z_t z_t^T): launches, registered operator.

O(L^2) time. Memory grows with L: heads are taken in groups of at most WORKSPACE bytes, or one by
one. A group holds some 10 n + 4 C float32 numbers per token forwards and 24 n + 8 C + n^2 / C
backwards, where the blocks are computed anew; and there WORKSPACE / 2 bytes, or 2 n numbers per
token, of carried queries and gradients.

Half-precision inputs give half-precision factors: a query that is carried is rounded at every block
it meets, which moves its scores by some 2^-8 of their size in bfloat16. The derivative of a readout
with a kink, such as relu, is then another one for scores that near to it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import torch

from coefdyn.execution.chunked.tiles import cut
from coefdyn.execution.triton import householder_pointwise_backward as kernels
from coefdyn.execution.triton.common import (
    RegisteredKernel,
    dot_types,
    padded,
    reverse_sums,
    split_sums,
)
from coefdyn.execution.triton.householder_pointwise_blocks import Blocks
from coefdyn.execution.triton.householder_pointwise_kernels import rows_forward
from coefdyn.execution.triton.pointwise import NORMS
from coefdyn.shapes import Tensor

__all__ = ["householder_rows_kernel"]

F32, F16 = torch.float32, torch.float16
#: bytes that the blocks of one group of heads may take, and twice what is carried between them
WORKSPACE = 2**31


class Tile(NamedTuple):
    """Tokens per block, warps and pipeline stages."""

    tokens: int
    warps: int
    stages: int


#: (factors, widest padded head) -> tile; "wide" is float32 on tensor cores, for float16 inputs
TILES: dict[tuple[str, int], Tile] = {
    ("half", 64): Tile(64, 4, 2),
    ("half", 128): Tile(64, 8, 1),
    ("half", 256): Tile(32, 8, 1),
    ("wide", 64): Tile(32, 8, 1),
    ("wide", 128): Tile(16, 8, 1),
    ("wide", 256): Tile(16, 8, 1),
    ("float32", 64): Tile(32, 8, 1),
    ("float32", 128): Tile(16, 8, 1),
    ("float32", 256): Tile(16, 8, 1),
}


class Options(NamedTuple):
    """What does not depend on the head: readout, norm, scale; type of factors, tile, dot types."""

    phi: str
    norm: str
    shift: bool
    scale: float
    kept: torch.dtype
    tile: Tile
    types: dict[str, object]


def _options(q: Tensor, v: Tensor, phi: str, norm: str, shift: bool, scale: float) -> Options:
    """exp without a running maximum leaves float16's range: its factors are float32."""
    wide = v.dtype == F16 and phi == "exp" and not shift
    kind = "wide" if wide else "float32" if v.dtype == F32 else "half"
    tile = TILES[kind, max(64, padded(q.shape[-1]), padded(v.shape[-1]))]
    types = dot_types(v.dtype, wide)
    return Options(phi, norm, shift, scale, F32 if wide else v.dtype, tile, types)


def _empty(q, k, z, beta, v, weight, log_decay, least) -> tuple[Tensor, ...]:
    """y, then 1/eta, d eta / d rowsum and the running maximum, ``(B, L)``, all float32.

    Gradients of gates are sums in which nearly everything cancels; y's rounding would come back
    through dy . y.
    """
    row = v.shape[:2]
    return tuple(v.new_empty(shape, dtype=F32) for shape in (v.shape, row, row, row))


def _heads(q: Tensor, tile: Tile) -> Iterator[slice]:
    """Groups of batch entries whose blocks fit the workspace on the way back."""
    n, size = q.shape[-1], tile.tokens
    token = 4 * (24 * n + 8 * size + n * n // size)
    step = max(1, WORKSPACE // (token * q.shape[1]))
    for start in range(0, q.shape[0], step):
        yield slice(start, min(start + step, q.shape[0]))


class _Launches:
    """What all passes over one group of heads share."""

    def __init__(self, inside: Blocks, z, v, weight, log_decay, options: Options) -> None:
        self.z, self.v, self.options = z, v, options
        self.batch, self.length, n = z.shape
        self.blocks = -(-self.length // options.tile.tokens)
        self.q, self.inner = inside.pulled(), inside.inner()
        self.k, self.y = (x.to(options.kept).contiguous() for x in (inside.carried(), inside.y))
        hi, lo = (v, v) if log_decay is None else split_sums(log_decay)
        self.gates = (hi, lo, v if weight is None else weight)
        self.keys = {"N": n, "PN": padded(n)}
        self.rows = {"D": v.shape[-1], "PD": padded(v.shape[-1])}
        self.rows |= {"PHI": options.phi, "SHIFT": options.shift}
        self.rows |= {"DECAY": log_decay is not None, "WEIGHT": weight is not None}

    def run(self, kernel, programs: int, *args, warps: int = 0, **flags) -> None:
        tokens, most, stages = self.options.tile
        kernel[(self.batch * programs,)](
            *args, C=tokens, num_warps=warps or most, num_stages=stages,
            **flags, **self.options.types,
        )  # fmt: skip

    def carried(self) -> tuple[int, Tensor, Tensor]:
        """Row blocks whose carried queries and gradients fit the workspace, and room for both."""
        kept = self.options.kept
        one = 2 * self.q.numel() * kept.itemsize
        count = max(1, min(self.blocks, WORKSPACE // 2 // one))
        seen, passed = (self.q.new_empty(self.q.numel() * count, dtype=kept) for _ in range(2))
        return count, seen, passed


def forward(
    q, k, z, beta, v, weight, log_decay, least, phi: str, norm: str, shift: bool, scale: float
) -> tuple[Tensor, ...]:
    """(y, 1/eta, d eta / d rowsum, running maximum); the last three only for norm != "none"."""
    inputs = (q, k, z, beta, v, weight, log_decay, least)
    found, options = _empty(*inputs), _options(q, v, phi, norm, shift, scale)
    if norm == "none":
        for x, value in zip(found[1:], (1.0, 0.0, 0.0), strict=True):
            x.fill_(value)
    for here in _heads(q, options.tile):
        _rows(options, *(cut(x, here) for x in (*inputs, *found)))
    return found


def _rows(options: Options, q, k, z, beta, v, weight, log_decay, least, y, inv, side, peak) -> None:
    """y and its side results of one group of heads."""
    inside = Blocks(q, k, z, beta, options.tile.tokens)
    on = _Launches(inside, z, v, weight, log_decay, options)
    del inside
    on.run(
        rows_forward, on.blocks, on.q, on.k, on.y, z, v, on.inner, *on.gates,
        inv if least is None else least, y, inv, side, peak, on.length, options.scale,
        NORM=NORMS.index(options.norm), **on.rows, **on.keys,
    )  # fmt: skip


def backward(
    q, k, z, beta, v, weight, log_decay, least, y, inv, side, peak, dy, phi, norm, shift, scale
) -> tuple[Tensor | None, ...]:
    """Gradients of (q, k, z, beta, v, weight, log_decay, least)."""
    inputs = (q, k, z, beta, v, weight, log_decay, dy, inv, (dy * y).sum(-1) * side, peak)
    options = _options(q, v, phi, norm, shift, scale)
    parts = [
        _gradients(options, *(cut(x, here) for x in inputs)) for here in _heads(q, options.tile)
    ]
    found = [None if part[0] is None else torch.cat(part) for part in zip(*parts, strict=True)]
    return *found, None if least is None else torch.zeros_like(least)  # a constant


def _gradients(
    options: Options, q, k, z, beta, v, weight, log_decay, dy, inv, delta, peak
) -> tuple[Tensor | None, ...]:
    """All but that of ``least``, of one group of heads."""
    inside = Blocks(q, k, z, beta, options.tile.tokens)
    on = _Launches(inside, z, v, weight, log_decay, options)
    known = (*on.gates, dy, inv, delta, peak)
    rows, columns, dv = torch.empty_like(inv), torch.empty_like(inv), torch.empty_like(dy)
    dinner = torch.empty_like(on.inner)
    on.run(
        kernels.inner_backward, on.blocks, v, on.inner, *known, dinner, dv, rows, columns,
        on.length, options.scale, warps=8, **on.rows,
    )  # fmt: skip
    found = inside.gradients(*_between(on, known, (rows, columns, dv)), dinner)
    dq, dk, dz, dbeta = (x.to(like.dtype) for x, like in zip(found, (q, k, z, beta), strict=True))
    dg = None
    if log_decay is not None:
        terms = rows - (columns if weight is None else columns * weight)
        dg = reverse_sums(terms, log_decay.dtype)
    return dq, dk, dz, dbeta, dv.to(v.dtype), None if weight is None else columns, dg


def _between(on: _Launches, known: tuple, sums: tuple) -> tuple[Tensor, Tensor, Tensor]:
    """Pairs of different blocks: gradients of Q', K' and Z^T Y; adds to (rows, columns, dv)."""
    rows, columns, dv = sums
    n, width, scale = on.keys["N"], min(64, on.keys["PN"]), on.options.scale
    dq, dk = torch.empty_like(on.q), torch.zeros_like(on.q)
    dwhole = on.q.new_zeros(on.batch, on.blocks, n, n)
    size, seen, passed = on.carried()
    for first in range(0, on.blocks, size):
        count = min(size, on.blocks - first)
        here = (on.length, first, count)
        on.run(kernels.pull_queries, count, on.q, on.y, on.z, seen, *here, **on.keys)
        on.run(
            kernels.rows_backward, count, seen, on.k, on.y, on.z, on.v, *known, passed, dq, rows,
            *here, scale, **on.rows, **on.keys,
        )  # fmt: skip
        on.run(
            kernels.columns_backward, first + count, seen, on.k, on.v, *known, dk, dv, columns,
            *here, scale, **on.rows, **on.keys,
        )  # fmt: skip
        parts = (first + count) * -(-n // width)
        on.run(kernels.block_gradients, parts, seen, passed, dwhole, *here, BN=width, **on.keys)
    return dq, dk, dwhole


householder_rows_kernel = RegisteredKernel(
    "triton_householder_rows",
    forward,
    backward,
    tensors=("q", "k", "z", "beta", "v", "weight?", "log_decay?", "least?"),
    options=("str phi", "str norm", "bool shift", "float scale"),
    shapes=_empty,
    outputs=4,
    constants=3,
)
