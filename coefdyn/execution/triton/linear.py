"""Linear readouts: launches of the chunked scan, and the registered operators per structure."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch.nn.functional import pad

from coefdyn.execution.triton import scan_kernels as kernels
from coefdyn.execution.triton.common import RegisteredKernel, dot_types, padded, split_sums
from coefdyn.shapes import Tensor

__all__ = [
    "Scan",
    "ScanInputs",
    "along",
    "chunk_size",
    "scan",
    "shapes",
]

#: tokens per chunk: bfloat16 factors, and float32 factors, which take twice the space
CHUNK, CHUNK_FLOAT32 = 64, 32


def chunk_size(dtype: torch.dtype) -> int:
    """Chunk size for values of this type; float16 has float32 factors, as gates leave its range."""
    return CHUNK if dtype == torch.bfloat16 else CHUNK_FLOAT32


class ScanInputs(NamedTuple):
    """Flattened inputs of a scan; b_j = scale * weight_j, gates and the first state in float32.

    v may be in float32 beside half-precision queries and keys.
    """

    q: Tensor
    k: Tensor
    v: Tensor
    weight: Tensor | None
    log_decay: Tensor | None
    start: Tensor | None
    scale: float


class Scan:
    """Launches for one problem: what all passes share, and where the intermediate tensors lie.

    Args:
        sums: (high, low) of the sums of g inside chunks, or None; gate 2 ignores low.
        gate: 0 without decay, 1 with one number per token, 2 with one per token and channel.
        scores: A for gate 2, ``(B, L, C)``.
    """

    def __init__(self, q, k, v, weight, scale, sums, gate: int, scores=None) -> None:
        self.q, self.k, self.v, self.gate = q, k, v, gate
        self.b = _factor(weight, scale, v)
        self.batch, self.length, self.n = q.shape
        self.d, self.chunk = v.shape[-1], chunk_size(v.dtype)
        self.chunks = -(-self.length // self.chunk)
        self.hi, self.lo = (q, q) if sums is None else sums
        self.scores = q if scores is None else scores
        half = v.dtype == torch.bfloat16
        self.common = {"N": self.n, "D": self.d, "C": self.chunk, "BV": 32, "GATE": gate}
        self.common |= dot_types(q.dtype, wide=not half)
        small = half and padded(self.n) <= 128
        self.launch = {"num_warps": 4 if small else 8, "num_stages": 2 if small else 1}
        self.columns = 64 if half else 32

    def wide(self, *shape: int) -> Tensor:
        """An uninitialised float32 tensor."""
        return self.q.new_empty(shape, dtype=torch.float32)

    def snapshots(self) -> Tensor:
        """Room for one state per chunk: bfloat16 values keep them in bfloat16."""
        low = torch.bfloat16 if self.v.dtype == torch.bfloat16 else torch.float32
        return self.q.new_empty((self.batch, self.chunks, self.n, self.d), dtype=low)

    def parts(self) -> int:
        return -(-self.d // self.common["BV"])

    def states(self, start, house=None) -> tuple[Tensor, Tensor, Tensor]:
        """(state before every chunk, final state, X); house is (BASE, WZ)."""
        before, final = self.snapshots(), self.wide(self.batch, self.n, self.d)
        base, wz = (self.v, self.k) if house is None else house
        x = self.v if house is None else torch.empty_like(base)
        kernels.scan_states[(self.batch * self.parts(),)](
            self.k, x, self.factor(), base, wz, self.hi, self.lo,
            final if start is None else start, before, final, self.length,
            PN=padded(self.n), WEIGHT=self.b is not None, HOUSE=house is not None,
            INITIAL=start is not None, **self.common, **self.launch,
        )  # fmt: skip
        return before, final, x

    def factor(self) -> Tensor:
        return self.q if self.b is None else self.b

    def outputs(self, before: Tensor, x: Tensor, house: bool = False) -> Tensor:
        """Output O in float32, since the division by eta comes before the rounding."""
        out = self.wide(self.batch, self.length, self.d)
        weight = self.b is not None and not house
        kernels.scan_outputs[(self.batch * self.chunks * self.parts(),)](
            self.q, self.k, x, self.factor(), self.hi, self.lo, self.scores, before, out,
            self.length, BK=self.columns, WEIGHT=weight, HOUSE=house, **self.common, **self.launch,
        )  # fmt: skip
        return out

    def reverse(self, dout, dfinal, wz=None) -> tuple[Tensor, Tensor, Tensor]:
        """(gradient of X, of the state after every chunk, of the first state)."""
        dx = self.wide(self.batch, self.length, self.d)
        kernels.local_gradients[(self.batch * self.chunks * self.parts(),)](
            self.q, self.k, self.hi, self.lo, self.scores, dout, dx, self.length,
            BK=self.columns, **self.common, **self.launch,
        )  # fmt: skip
        after, dstart = self.snapshots(), self.wide(self.batch, self.n, self.d)
        kernels.scan_reverse[(self.batch * self.parts(),)](
            self.q, self.k, self.k if wz is None else wz, self.hi, self.lo, dout, dx, dfinal,
            after, dstart, self.length, PN=padded(self.n), HOUSE=wz is not None,
            **self.common, **self.launch,
        )  # fmt: skip
        return dx, after, dstart

    def gradients(self, dout, x, before, after, house: bool = False):
        """Gradients of q and k, float32, and of A (gate 2)."""
        dq, dk = (self.wide(*self.q.shape) for _ in range(2))
        shape = (self.batch, self.length, self.chunk) if self.gate == 2 else (0,)
        da = self.wide(*shape)
        kernels.score_gradients[(self.batch * self.chunks,)](
            self.q, self.k, x, self.factor(), self.hi, self.lo, dout, before, after, dq, dk, da,
            self.length, BK=self.columns, WEIGHT=self.b is not None and not house,
            **self.common, **self.launch,
        )  # fmt: skip
        return dq, dk, da

    def carried(self, before, final, after, dfinal) -> Tensor:
        """State times its gradient after every chunk, ``(B, chunks, 1, n)`` float32."""
        carried = self.wide(self.batch, self.chunks, 1, self.n)
        kernels.carried_decay[(self.batch * self.chunks,)](
            before, final, after, dfinal, carried, self.chunks,
            N=self.n, D=self.d, BN=32, BV=64, num_warps=4, num_stages=1,
        )  # fmt: skip
        return carried

    def decay_gradient(self, terms, carried) -> Tensor:
        """Gradient of g, ``(B, L, ...)`` float32, from q . dq - k . dk, per token or per channel.

        Later chunks count through ``carried`` alone: sums over the whole sequence would gather the
        rounding of every term.
        """
        if terms.ndim == 2:
            terms, carried = terms[..., None], carried.sum(-1, keepdim=True)
        terms = pad(terms, (0, 0, 0, -self.length % self.chunk)).unflatten(1, (-1, self.chunk))
        found = terms.flip(2).cumsum(2).flip(2).add_(carried).flatten(1, 2)[:, : self.length]
        return (found if self.gate == 2 else found[..., 0]).contiguous()

    def values_gradient(self, dx: Tensor, weight: Tensor | None, scale: float):
        """Gradients of v and of the weight from that of b V."""
        dv = dx if self.b is None else dx * self.b[..., None]
        dweight = None if weight is None else (self.v.float() * dx).sum(-1) * scale
        return dv.to(self.v.dtype), dweight


def _factor(weight: Tensor | None, scale: float, v: Tensor) -> Tensor | None:
    """b_j, or None where it is 1."""
    if weight is None:
        return None if scale == 1.0 else v.new_full(v.shape[:2], scale, dtype=torch.float32)
    return weight * scale


def along(x: Tensor, dx: Tensor) -> Tensor:
    """x . dx per token."""
    return (x.float() * dx).sum(-1)


def shapes(q: Tensor, k: Tensor, v: Tensor, *rest: Tensor | None) -> tuple[Tensor, ...]:
    """O and the final state, float32."""
    out = v.new_empty(v.shape, dtype=torch.float32)
    return out, q.new_empty((q.shape[0], q.shape[2], v.shape[2]), dtype=torch.float32)


def _scalar(q, k, v, weight, log_decay, scale: float) -> Scan:
    sums = None if log_decay is None else split_sums(log_decay, chunk_size(v.dtype))
    return Scan(q, k, v, weight, scale, sums, 0 if log_decay is None else 1)


def forward(q, k, v, weight, log_decay, start, scale: float) -> tuple[Tensor, Tensor]:
    """(O, final state) of A_t = I or exp(g_t) I."""
    scan = _scalar(q, k, v, weight, log_decay, scale)
    before, final, x = scan.states(start)
    return scan.outputs(before, x), final


def backward(
    q, k, v, weight, log_decay, start, out, final, dout, dfinal, scale: float
) -> tuple[Tensor | None, ...]:
    """Gradients of (q, k, v, weight, log_decay, start); states are computed again."""
    scan = _scalar(q, k, v, weight, log_decay, scale)
    before, _, x = scan.states(start)
    dx, after, dstart = scan.reverse(dout, dfinal)
    dq, dk, _ = scan.gradients(dout, x, before, after)
    dv, dweight = scan.values_gradient(dx, weight, scale)
    dg = None
    if log_decay is not None:
        terms = along(q, dq) - along(k, dk)
        dg = scan.decay_gradient(terms, scan.carried(before, final, after, dfinal)).to(
            log_decay.dtype
        )
    dstart = None if start is None else dstart
    return dq.to(q.dtype), dk.to(k.dtype), dv, dweight, dg, dstart


scalar_kernel = RegisteredKernel(
    "triton_scalar",
    forward,
    backward,
    tensors=("q", "k", "v", "weight?", "log_decay?", "start?"),
    options=("float scale",),
    shapes=shapes,
    outputs=2,
)


def scan(inputs: ScanInputs) -> tuple[Tensor, Tensor]:
    """A_t = I or exp(g_t) I."""
    return scalar_kernel(*inputs)
