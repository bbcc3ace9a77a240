r"""Linear readout, A_t = exp(g_t) (I - beta_t z_t z_t^T), by Triton.

With z = k the pseudo-values of a chunk solve (I + N) U = b V - beta (K e^c) S, N = tril(beta
(K K^T) * D, -1), and the scan then runs with U in the place of b V (``chunked/householder.py``):
T = (I + N)^-1 is kept in float32, U = T b V - (T beta (K e^c)) S.

Any other direction is the same scan on two tokens per token: the first decays and erases along z
and writes nothing, the second writes k and erases nothing. It costs twice as much.
"""

from __future__ import annotations

import torch

from coefdyn.execution.triton import householder_kernels as kernels
from coefdyn.execution.triton.common import RegisteredKernel, split_sums
from coefdyn.execution.triton.linear import Scan, ScanInputs, along, chunk_size, shapes
from coefdyn.shapes import Tensor

__all__ = ["householder_kernel", "scan"]


def _prepared(q, k, v, beta, weight, log_decay, scale: float):
    """The scan, T, and (BASE, WZ)."""
    sums = None if log_decay is None else split_sums(log_decay, chunk_size(v.dtype))
    scan = Scan(q, k, v, weight, scale, sums, 0 if log_decay is None else 1)
    t = scan.wide(scan.batch, scan.length, scan.chunk)
    base, wz = scan.wide(*v.shape), scan.wide(*k.shape)
    kernels.prepare[(scan.batch * scan.chunks,)](
        k, v, scan.factor(), beta, scan.hi, scan.lo, t, base, wz, scan.length, BK=scan.columns,
        WEIGHT=scan.b is not None, **scan.common, **scan.launch,
    )  # fmt: skip
    return scan, t, (base, wz)


def forward(q, k, v, beta, weight, log_decay, start, scale: float) -> tuple[Tensor, Tensor]:
    """(O, final state)."""
    scan, _, house = _prepared(q, k, v, beta, weight, log_decay, scale)
    before, final, u = scan.states(start, house)
    return scan.outputs(before, u, house=True), final


def backward(
    q, k, v, beta, weight, log_decay, start, out, final, dout, dfinal, scale: float
) -> tuple[Tensor | None, ...]:
    """Gradients of (q, k, v, beta, weight, log_decay, start)."""
    scan, t, house = _prepared(q, k, v, beta, weight, log_decay, scale)
    before, _, u = scan.states(start, house)
    du, after, dstart = scan.reverse(dout, dfinal, wz=house[1])
    dq, dk, _ = scan.gradients(dout, u, before, after, house=True)
    terms = along(q, dq) - along(k, dk)
    r = torch.empty_like(du)
    sizes = {name: scan.common[name] for name in ("D", "C", "BV", "PRECISION")}
    kernels.turned_product[(scan.batch * scan.chunks * scan.parts(),)](
        t, du, r, scan.length, **sizes, **scan.launch
    )
    dbeta, erased = torch.empty_like(beta), torch.empty_like(beta)
    kernels.erase_gradients[(scan.batch * scan.chunks,)](
        k, beta, scan.hi, scan.lo, r, u, before, dk, dbeta, erased, scan.length, BK=scan.columns,
        **scan.common, **scan.launch,
    )  # fmt: skip
    dv, dweight = scan.values_gradient(r, weight, scale)
    dg = None
    if log_decay is not None:
        dg = scan.decay_gradient(terms + erased, scan.carried(before, final, after, dfinal))
        dg = dg.to(log_decay.dtype)
    dstart = None if start is None else dstart
    return dq.to(q.dtype), dk.to(k.dtype), dv, dbeta, dweight, dg, dstart


householder_kernel = RegisteredKernel(
    "triton_householder",
    forward,
    backward,
    tensors=("q", "k", "v", "beta", "weight?", "log_decay?", "start?"),
    options=("float scale",),
    shapes=shapes,
    outputs=2,
)


def scan(inputs: ScanInputs, direction: Tensor | None, beta: Tensor) -> tuple[Tensor, Tensor]:
    """(O, final state); direction None for z = k."""
    q, k, v, weight, g, start, scale = inputs
    if direction is None:
        return householder_kernel(q, k, v, beta, weight, g, start, scale)
    erase_first = {
        "q": (torch.zeros_like(q), q),
        "k": (direction, k),
        "v": (torch.zeros_like(v), v),
        "beta": (beta, torch.zeros_like(beta)),
        "weight": None if weight is None else (torch.zeros_like(weight), weight),
        "g": None if g is None else (g, torch.zeros_like(g)),
    }
    doubled = {
        name: None if pair is None else torch.stack(pair, 2).flatten(1, 2)
        for name, pair in erase_first.items()
    }
    out, final = householder_kernel(*doubled.values(), start, scale)
    return out[:, 1::2], final
