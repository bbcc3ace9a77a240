r"""Linear readout, A_t = diag(exp(g_t)) - left_t right_t^T, by Triton.

Every token becomes two. The first decays, and writes left_t with minus what right_t reads of the
state before it; the second writes k_t and neither decays nor erases. With K the keys of both, l the
inclusive sums of g inside a chunk and 0 before its first token, what a chunk writes solves

    (I + N) X = b V - (Right e^{l_{i-1}}) S
    N_ij = sum_c right_ic k_jc exp(l_{i-1,c} - l_jc) for j < i

and the scan is that of diagonal.py with X in the place of b V. Row i of N is row i - 1 of that
file's scores if their queries are right one token ahead; they are factors of an inverse, and wide.
"""

from __future__ import annotations

import torch
from torch.nn.functional import pad

from coefdyn.execution.triton import householder_kernels
from coefdyn.execution.triton import rank_one_kernels as kernels
from coefdyn.execution.triton.common import RegisteredKernel
from coefdyn.execution.triton.diagonal import (
    add_gradients,
    add_squares,
    scored,
    scores,
    take_squares,
)
from coefdyn.execution.triton.linear import Scan, ScanInputs, shapes
from coefdyn.shapes import Tensor

__all__ = ["rank_one_kernel", "scan"]


def _prepared(q, k, v, right, weight, log_decay, scale: float):
    """The scan, right one token ahead, T, and (BASE, WZ)."""
    scan = scored(q, k, v, weight, log_decay, scale)
    scan.launch |= {"num_stages": 1}  # two stages of gates and erasing need more than sm_80 has
    ahead = pad(right[:, 1:], (0, 0, 0, 1))
    rows = scores(scan, ahead, wide=True)
    t = scan.wide(scan.batch, scan.length, scan.chunk)
    base, wz = scan.wide(*v.shape), scan.wide(*k.shape)
    sizes = {name: scan.common[name] for name in ("N", "D", "C", "BV", "PRECISION")}
    kernels.prepare[(scan.batch * scan.chunks,)](
        right, v, scan.factor(), scan.hi, rows, t, base, wz, scan.length, BK=scan.columns,
        WEIGHT=scan.b is not None, **sizes, **scan.launch,
    )  # fmt: skip
    return scan, ahead, t, (base, wz)


def forward(q, k, v, right, weight, log_decay, start, scale: float) -> tuple[Tensor, Tensor]:
    """(O, final state)."""
    scan, _, _, house = _prepared(q, k, v, right, weight, log_decay, scale)
    before, final, x = scan.states(start, house)
    return scan.outputs(before, x, house=True), final


def backward(
    q, k, v, right, weight, log_decay, start, out, final, dout, dfinal, scale: float
) -> tuple[Tensor | None, ...]:
    """Gradients of (q, k, v, right, weight, log_decay, start)."""
    scan, ahead, t, house = _prepared(q, k, v, right, weight, log_decay, scale)
    before, _, x = scan.states(start, house)
    dx, after, dstart = scan.reverse(dout, dfinal, wz=house[1])
    dq, dk, da = scan.gradients(dout, x, before, after, house=True)
    own = take_squares(da, 2)
    add_gradients(scan, q, da, dq, dk)
    r = torch.empty_like(dx)
    sizes = {name: scan.common[name] for name in ("D", "C", "BV", "PRECISION")}
    householder_kernels.turned_product[(scan.batch * scan.chunks * scan.parts(),)](
        t, dx, r, scan.length, **sizes, **scan.launch
    )
    drows, dright = torch.empty_like(t), scan.wide(*right.shape)
    sizes |= {"N": scan.n, "BK": scan.columns, "DOT": scan.common["DOT"]}
    kernels.erase_gradients[(scan.batch * scan.chunks,)](
        scan.hi, r, x, before, drows, dright, scan.length, **sizes, **scan.launch
    )
    next_to, dahead = take_squares(drows, 2), torch.zeros_like(dright)
    add_gradients(scan, ahead, drows, dahead, dk, wide=True)
    written = k.float() * dk
    last = _last_tokens(scan)
    written[:, last] = 0.0
    terms = (q.float() * dq).sub_(written).add_(ahead.float() * dahead)
    reads = right.float() * dright
    reads[:, :: scan.chunk] = 0.0  # no decay of a chunk precedes its first token
    terms[:, :-1] += reads[:, 1:]
    add_squares(own, q, k, dq, dk)
    add_squares(next_to, ahead, k, dahead, dk)
    dright[:, 1:] += dahead[:, :-1]
    dv, dweight = scan.values_gradient(r, weight, scale)
    dg = scan.decay_gradient(terms, _carried(scan, x, last, before, after, dfinal))
    dstart = None if start is None else dstart
    return (
        dq.to(q.dtype),
        dk.to(k.dtype),
        dv,
        dright.to(right.dtype),
        dweight,
        dg.to(log_decay.dtype),
        dstart,
    )


def _last_tokens(scan: Scan) -> Tensor:
    """The two tokens that end each chunk.

    Between them and the state at that end no decay lies, and the next chunk's first token reads it
    without one: their shares of a decay's gradient cancel, and would bury what it leaves.
    """
    ends = torch.arange(scan.chunk, scan.length + scan.chunk, scan.chunk, device=scan.q.device)
    ends.clamp_(max=scan.length)
    return torch.stack([ends - 2, ends - 1], 1).flatten()


def _carried(scan: Scan, x: Tensor, last: Tensor, before, after, dfinal) -> Tensor:
    """As ``Scan.carried``, of states without what their chunk's last tokens wrote."""

    def chunks(y: Tensor) -> Tensor:
        return pad(y, (0, 0, 0, -scan.length % scan.chunk)).unflatten(1, (-1, scan.chunk))

    end = scan.hi[:, last[1::2]].unsqueeze(2)
    keys = chunks(scan.k.float().index_fill(1, last, 0.0)) * (end - chunks(scan.hi)).exp()
    state = torch.einsum("bcjn,bcjd->bcnd", keys, chunks(x.float()))
    state.addcmul_(before.float(), end.exp().mT)
    ds = torch.cat([after[:, :-1].float(), dfinal[:, None].float()], 1)
    return (state * ds).sum(-1).unsqueeze(2)


rank_one_kernel = RegisteredKernel(
    "triton_rank_one",
    forward,
    backward,
    tensors=("q", "k", "v", "right", "weight?", "log_decay", "start?"),
    options=("float scale",),
    shapes=shapes,
    outputs=2,
)


def scan(inputs: ScanInputs, left: Tensor, right: Tensor) -> tuple[Tensor, Tensor]:
    """(O, final state)."""
    q, k, v, weight, g, start, scale = inputs
    erase_first = {
        "q": (torch.zeros_like(q), q),
        "k": (left.to(k.dtype), k),
        "v": (torch.zeros_like(v), v),
        "right": (right, torch.zeros_like(right)),
        "weight": None if weight is None else (torch.zeros_like(weight), weight),
        "g": (g, torch.zeros_like(g)),
    }
    doubled = {
        name: None if pair is None else torch.stack(pair, 2).flatten(1, 2)
        for name, pair in erase_first.items()
    }
    out, final = rank_one_kernel(*doubled.values(), start, scale)
    return out[:, 1::2], final
