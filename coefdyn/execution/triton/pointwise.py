"""Pointwise readouts with A_t = I or exp(g_t) I: launches and the registered operator."""

from __future__ import annotations

from typing import NamedTuple

import torch

from coefdyn.execution.triton.common import (
    RegisteredKernel,
    dot_types,
    padded,
    reverse_sums,
    split_sums,
)
from coefdyn.execution.triton.pointwise_kernels import (
    columns_backward,
    rows_backward,
    rows_forward,
)
from coefdyn.shapes import Tensor

__all__ = ["BLOCKS", "NORMS", "Tile", "rows_kernel", "tiles_for"]

NORMS = ("none", "row_sum", "floored")
#: readouts no larger than their score; exp, and what a reader writes, may be
MODEST = ("identity", "relu", "softplus")


class Tile(NamedTuple):
    """Rows and columns of one tile, warps and pipeline stages."""

    rows: int
    cols: int
    warps: int
    stages: int


#: (pass, widest padded head) -> tile, each verified against float64 before it is used
BLOCKS: dict[tuple[str, int], Tile] = {
    ("forward", 64): Tile(128, 64, 4, 3),
    ("forward", 128): Tile(128, 64, 8, 2),
    ("forward", 256): Tile(64, 32, 4, 2),
    ("rows", 64): Tile(64, 64, 4, 2),
    ("rows", 128): Tile(64, 64, 4, 2),
    ("rows", 256): Tile(32, 32, 4, 1),
    ("columns", 64): Tile(64, 64, 4, 2),
    ("columns", 128): Tile(32, 64, 4, 2),
    ("columns", 256): Tile(32, 32, 8, 1),
    # float32 factors take twice the space and full-precision products many registers
    ("float32", 64): Tile(32, 32, 4, 1),
    ("float32", 128): Tile(32, 32, 8, 1),
    ("float32", 256): Tile(16, 16, 4, 1),
}


def tiles_for(kind: str, width: int, dtype: torch.dtype) -> Tile:
    """The tile of one pass ("forward", "rows" or "columns") for heads padded to ``width``."""
    size = 64 if width <= 64 else width
    return BLOCKS["float32" if dtype == torch.float32 else kind, size]


def _empty(q, k, v, weight, log_decay, least) -> tuple[Tensor, ...]:
    """y, then 1/eta, d eta / d rowsum and the running maximum, ``(B, L)``.

    The gradients of b and g are sums in which nearly everything cancels: with either, y is kept in
    float32, since its rounding would come back through dy . y.
    """
    exact = weight is not None or log_decay is not None
    y = v.new_empty(v.shape, dtype=torch.float32 if exact else v.dtype)
    return (y, *(v.new_empty(v.shape[:2], dtype=torch.float32) for _ in range(3)))


def _sums(g: Tensor | None, stand_in: Tensor) -> tuple[Tensor, Tensor]:
    return (stand_in, stand_in) if g is None else split_sums(g)


def _launch(kernel, kind: str, q, v, args: tuple, cut: str, **flags) -> None:
    n, d = q.shape[-1], v.shape[-1]
    # exp without its running maximum leaves float16's range: its products take float32 factors
    wide = v.dtype == torch.float16 and not flags["SHIFT"] and flags["PHI"] not in MODEST
    tile = tiles_for(kind, max(padded(n), padded(d)), torch.float32 if wide else v.dtype)
    size = tile.rows if cut == "rows" else tile.cols
    grid = (q.shape[0] * -(-q.shape[1] // size),)
    kernel[grid](
        *args,
        N=n,
        D=d,
        PN=padded(n),
        PD=padded(d),
        BR=tile.rows,
        BC=tile.cols,
        num_warps=tile.warps,
        num_stages=tile.stages,
        **flags,
        **dot_types(v.dtype, wide),
    )


def forward(
    q, k, v, weight, log_decay, least, phi: str, norm: str, shift: bool, scale: float
) -> tuple[Tensor, ...]:
    """(y, 1/eta, d eta / d rowsum, running maximum); the last three only for norm != "none"."""
    y, inv, side, peak = _empty(q, k, v, weight, log_decay, least)
    if norm == "none":
        inv.fill_(1.0)
        side.zero_()
        peak.zero_()
    hi, lo = _sums(log_decay, inv)
    b, floor = (inv if x is None else x for x in (weight, least))
    args = (q, k, v, hi, lo, b, floor, y, inv, side, peak, q.shape[1], scale)
    flags = {"PHI": phi, "SHIFT": shift, "NORM": NORMS.index(norm)}
    flags |= {"DECAY": log_decay is not None, "WEIGHT": weight is not None}
    _launch(rows_forward, "forward", q, v, args, "rows", **flags)
    return y, inv, side, peak


def backward(
    q, k, v, weight, log_decay, least, y, inv, side, peak, dy, phi, norm, shift, scale
) -> tuple[Tensor | None, ...]:
    """Gradients of (q, k, v, weight, log_decay, least)."""
    dq, dk, dv = (torch.empty_like(x) for x in (q, k, v))
    row_along, along = torch.empty_like(inv), torch.empty_like(inv)
    hi, lo = _sums(log_decay, inv)
    b = inv if weight is None else weight
    reach = (dy.float() * y.float()).sum(-1)
    rows = (dy, inv, reach * side, peak)
    inputs = (q, k, v, hi, lo, b, *rows)
    flags = {"PHI": phi, "SHIFT": shift}
    flags |= {"DECAY": log_decay is not None, "WEIGHT": weight is not None}
    length = q.shape[1]
    _launch(rows_backward, "rows", q, v, (*inputs, dq, row_along, length, scale), "rows", **flags)
    _launch(
        columns_backward, "columns", q, v, (*inputs, dk, dv, along, length, scale), "cols", **flags
    )
    dg = dleast = None
    if log_decay is not None:
        columns = along if weight is None else along * weight
        dg = reverse_sums(row_along - columns, log_decay.dtype)
    if least is not None:
        dleast = torch.zeros_like(least)  # a constant, or a detached stabiliser
    return dq, dk, dv, None if weight is None else along, dg, dleast


rows_kernel = RegisteredKernel(
    "triton_rows",
    forward,
    backward,
    tensors=("q", "k", "v", "weight?", "log_decay?", "least?"),
    options=("str phi", "str norm", "bool shift", "float scale"),
    shapes=_empty,
    outputs=4,
    constants=3,
)
