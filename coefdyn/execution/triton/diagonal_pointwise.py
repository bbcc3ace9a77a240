r"""Pointwise readouts with A_t = diag(exp(g_t)): anchors, launches and the registered operator.

Blocks of C tokens. Let B_r be the sum of g before block r, per channel. It is split as

    B_r = M_r ln 2 + e_r,   M_r an integer, 0 <= e_r < ln 2,

and the block keeps its queries as q exp(l - B_r + e_r), its keys as k exp(B_{r+1} - l - e_{r+1}).
With decays no exponent exceeds ln 2, and each is a sum of the block's own gates. A query of block r
and a key of block c still lack 2^{M_r - M_{c+1}}, which rounds nothing. So all passes see the same
scores, also in bfloat16, and errors cancel in the gradient of g, a small rest of large sums:

    dg_t = sum_{i >= t} q_i dq_i - k_i dk_i,   per channel.

Pairs inside a block go through the kernels of the linear readout (diagonal.py), in float32.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
import triton.language as tl
from torch.nn import functional

from coefdyn.execution.triton import diagonal_pointwise_kernels as kernels
from coefdyn.execution.triton.common import RegisteredKernel, dot_types, padded
from coefdyn.execution.triton.diagonal import BLOCK, RESET, diagonal_gradients, diagonal_scores
from coefdyn.execution.triton.pointwise import NORMS
from coefdyn.shapes import Tensor

__all__ = ["SIZES", "Size", "diagonal_rows_kernel"]

#: channels that the scores' products take at a time
CHANNELS = 32


class Size(NamedTuple):
    """Tokens per block, warps of the three passes, pipeline stages."""

    block: int
    forward: int
    rows: int
    columns: int
    stages: int


#: (bfloat16, widest padded head) -> size, each verified against float64 before it is used
SIZES: dict[tuple[bool, int], Size] = {
    (True, 64): Size(64, 4, 4, 8, 2),
    (True, 128): Size(64, 4, 8, 8, 2),
    (True, 256): Size(32, 4, 8, 8, 1),
    # float32 factors take twice the space and full-precision products many registers
    (False, 64): Size(32, 4, 4, 4, 1),
    (False, 128): Size(32, 4, 4, 8, 1),
    (False, 256): Size(16, 4, 4, 4, 1),
}


def later_sums(x: Tensor) -> Tensor:
    """x_{t+1} + ... + x_C along the second last axis, added up from the end."""
    return functional.pad(x[..., 1:, :], (0, 0, 0, 1)).flip(-2).cumsum(-2).flip(-2)


def blocks_of(x: Tensor, size: int) -> Tensor:
    """(B, T, C, n), filled with zeros."""
    return functional.pad(x, (0, 0, 0, -x.shape[1] % size)).unflatten(1, (-1, size))


class Tiles:
    """What all passes of one problem share.

    Attributes:
        q, k: queries at their block's start and keys at their block's end, in the products' type.
        reach, fade: by what queries and keys were multiplied to come there.
        keys: b_j k_j, float32 where it is not k itself.
        marks: M, int32 ``(B, T + 1, n)``.
        inner: scores of a block's own pairs, float32 ``(B, L, C)``.
    """

    def __init__(self, q, k, v, weight, log_decay, scale: float) -> None:
        self.queries, self.v = q, v
        self.batch, self.length, n = q.shape
        pn, pd = padded(n), padded(v.shape[-1])
        self.size = SIZES[v.dtype == torch.bfloat16, max(64, pn, pd)]
        self.heads = {"N": n, "D": v.shape[-1], "PN": pn, "PD": pd}
        self.heads |= {"C": self.size.block, "BK": CHANNELS}
        # products of gated factors leave float16's range
        self.heads |= dot_types(v.dtype, wide=v.dtype == torch.float16)
        self.factor = _factor(weight, scale)
        self.keys = k if self.factor is None else k.float() * self.factor
        self._anchor(log_decay.float().clamp(min=RESET))
        kept = torch.bfloat16 if self.heads["DOT"] is tl.bfloat16 else torch.float32
        self.q, self.k = (q * self.reach).to(kept), (self.keys * self.fade).to(kept)
        self.inner = self.square()
        diagonal_scores[self._parts()](q, self.keys, self.sums, self.inner, **self._near())

    def _anchor(self, g: Tensor) -> None:
        blocks = blocks_of(g, self.size.block)
        sums = blocks.cumsum(2)
        before = functional.pad(sums[:, :, -1].double().cumsum(1), (0, 0, 1, 0))
        marks = (before / math.log(2)).floor()
        rest = (before - marks * math.log(2)).float()[:, :, None]
        self.marks = marks.to(torch.int32)
        self.sums = self._flat(sums)
        self.reach = self._flat((sums + rest[:, :-1]).exp_())
        self.fade = self._flat((later_sums(blocks) - rest[:, 1:]).exp_())

    def _flat(self, x: Tensor) -> Tensor:
        return x.flatten(1, 2)[:, : self.length].contiguous()

    def square(self) -> Tensor:
        """Room for one number per pair inside the blocks."""
        shape = (self.batch, self.length, self.size.block)
        return self.v.new_empty(shape, dtype=torch.float32)

    def grid(self) -> tuple[int]:
        return (self.batch * -(-self.length // self.size.block),)

    def _parts(self) -> tuple[int]:
        return (self.grid()[0] * (self.size.block // BLOCK),)

    def _near(self) -> dict[str, object]:
        """Options of the kernels of a block's own pairs: full float32."""
        return {
            "length": self.length, "N": self.heads["N"], "C": self.size.block, "R": BLOCK,
            "BK": CHANNELS, "DOT": tl.float32, "PRECISION": "ieee",
            "num_warps": 4, "num_stages": 1,
        }  # fmt: skip

    def launch(self, kernel, *args, warps: int, **flags) -> None:
        inputs = (self.q, self.k, self.v, self.marks, self.inner)
        kernel[self.grid()](
            *inputs, *args, self.length, **self.heads, **flags,
            num_warps=warps, num_stages=self.size.stages,
        )  # fmt: skip

    def gradients(self, dq: Tensor, dk: Tensor, dinner: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Of q, of b k and of g, all float32, from those of the anchored q and k and of inner."""
        terms = self.q * dq - self.k * dk
        dq.mul_(self.reach)
        dk.mul_(self.fade)
        near_q, near_k = torch.zeros_like(dq), torch.zeros_like(dk)
        diagonal_gradients[self._parts()](
            self.queries, self.keys, self.sums, dinner, near_q, near_k, **self._near()
        )
        terms += self.queries * near_q - self.keys * near_k
        return dq.add_(near_q), dk.add_(near_k), self._reverse(terms)

    def _reverse(self, terms: Tensor) -> Tensor:
        """sum_{i >= t} terms_i: inside blocks in float32, of whole blocks in float64."""
        blocks = blocks_of(terms, self.size.block)
        inside = blocks.flip(2).cumsum(2).flip(2)
        later = later_sums(inside[:, :, 0].double()).float()
        return self._flat(inside + later[:, :, None])


def _factor(weight: Tensor | None, scale: float) -> Tensor | float | None:
    """b_j as a column, as a number, or None where it is 1."""
    if weight is None:
        return None if scale == 1.0 else scale
    return weight[..., None] * scale


def _empty(q, k, v, weight, log_decay, least) -> tuple[Tensor, ...]:
    """y in float32 (its rounding would come back through dy . y), then the rows' factors."""
    y = v.new_empty(v.shape, dtype=torch.float32)
    return (y, *(v.new_empty(v.shape[:2], dtype=torch.float32) for _ in range(3)))


def forward(
    q, k, v, weight, log_decay, least, phi: str, norm: str, shift: bool, scale: float
) -> tuple[Tensor, ...]:
    """(y, 1/eta, d eta / d rowsum, running maximum)."""
    tiles = Tiles(q, k, v, weight, log_decay, scale)
    y, inv, side, peak = _empty(q, k, v, weight, log_decay, least)
    if norm == "none":
        inv.fill_(1.0)
        side.zero_()
        peak.zero_()
    args = (inv if least is None else least, y, inv, side, peak)
    flags = {"PHI": phi, "SHIFT": shift, "NORM": NORMS.index(norm)}
    tiles.launch(kernels.rows_forward, *args, warps=tiles.size.forward, **flags)
    return y, inv, side, peak


def backward(
    q, k, v, weight, log_decay, least, y, inv, side, peak, dy, phi, norm, shift, scale
) -> tuple[Tensor | None, ...]:
    """Gradients of (q, k, v, weight, log_decay, least); the anchors are computed again."""
    tiles = Tiles(q, k, v, weight, log_decay, scale)
    dq, dk = (torch.empty_like(x, dtype=torch.float32) for x in (q, k))
    dv, dinner = torch.empty_like(v), tiles.square()
    rows = (dy, inv, (dy * y).sum(-1) * side, peak)
    flags, warps = {"PHI": phi, "SHIFT": shift}, tiles.size
    tiles.launch(kernels.rows_backward, *rows, dq, dinner, warps=warps.rows, **flags)
    tiles.launch(kernels.columns_backward, *rows, dk, dv, warps=warps.columns, **flags)
    dq, dk, dg = tiles.gradients(dq, dk, dinner)
    dweight = None if weight is None else (k * dk).sum(-1) * scale
    if tiles.factor is not None:
        dk = dk * tiles.factor
    dleast = None if least is None else torch.zeros_like(least)  # constant, or detached
    return dq.to(q.dtype), dk.to(k.dtype), dv, dweight, dg.to(log_decay.dtype), dleast


diagonal_rows_kernel = RegisteredKernel(
    "triton_diagonal_rows",
    forward,
    backward,
    tensors=("q", "k", "v", "weight?", "log_decay", "least?"),
    options=("str phi", "str norm", "bool shift", "float scale"),
    shapes=_empty,
    outputs=4,
    constants=3,
)
