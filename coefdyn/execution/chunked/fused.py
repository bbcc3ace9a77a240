r"""Softmax attention with an outer decay, a window or blocks, through torch's fused attention.

A tile of rows i >= a reads a range of keys. An outer decay is one more channel of the keys,

    q_i^T k_j + C_i - C_j = (q_i, 1)^T (k_j, C_a - C_j) + (C_i - C_a),    C_i = c_1 + ... + c_i

whose last term cancels in the row sum. Anchored at the tile, C_a - C_j is no larger than what the
decay between them is, so that a long sequence loses no digits; tiles are short enough for C to
change little within one. The keys before the tile and those inside it are two calls, so that the
causal one knows its triangle; they are joined by their log row sums.

Keys that a mask shuts out for the whole tile are not touched, nor are those that have faded: a row
sums to at least exp(q_i^T k_i) >= exp(-|q| |k|), next to which exp(|q| |k| + C_i - C_j) is lost in
rounding as soon as C_i - C_j is low enough.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
from torch.nn import functional

from coefdyn.dynamics import readout as readouts
from coefdyn.dynamics.coefficients import CoefficientDynamics
from coefdyn.dynamics.evolution import Identity
from coefdyn.dynamics.mask import Mask
from coefdyn.dynamics.normalizer import RowSum
from coefdyn.execution.chunked.operators import first_derivative_only, once
from coefdyn.execution.inputs import can_read_all
from coefdyn.shapes import Float, Int, Tensor, broadcast_shapes

__all__ = ["fused", "fused_attention", "fused_rows"]

#: what a score may lose to the channel of its decay, as a relative error of its coefficient
LOSS = {torch.float32: 8e-6, torch.float64: 4e-12}
#: nats by which a decay may change within a tile, if the tile can be shorter: exponents that lie
#: further down are subnormal numbers, which are slow
CALM = 16.0
#: rows per tile: at least so many, or plain rows are as good; at most so many under a mask
LEAST, MASKED = 64, 256
#: an exponent whose exp is 0 in every dtype, and which is finite in every dtype
FADED = -1e30
#: a faded row may hold this share of the rounding error of its sum
SHARE = 1e-3

forward_part = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
backward_part = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward


def fused_rows(
    dynamics: CoefficientDynamics, v: Float[Tensor, "*#batch L dv"]
) -> Int[Tensor, "*#batch"] | None:
    """Rows per tile of every head if this computes the design, or None.

    It takes exp with A_t = I and a row sum, on a CPU, with d_v = n and no own term or sink, where
    the outer decay changes little within a tile and the mask knows its first column.
    """
    c, mask = dynamics.outer_log_decay, dynamics.mask
    if c is None and mask is None:
        return None  # softmax_attention
    plain = (
        dynamics.readout.same_as(readouts.exp)
        and isinstance(dynamics.normalizer, RowSum)
        and dynamics.normalizer.sink is None
        and type(dynamics.evolution) is Identity
        and dynamics.own is None
        and v.shape[-1] == dynamics.key_dim
        and dynamics.device.type == "cpu"
        and can_read_all(dynamics, v)
    )
    if not plain or (mask is not None and mask.first(0) is None):
        return None
    most = dynamics.length
    if mask is not None:
        before = -(mask.first(0) or 0)
        most = min(most, MASKED, max(LEAST, 1 << (before // 2).bit_length()))
    if c is None:
        return torch.tensor(most)
    return tile_rows(c.detach().double().cumsum(-1), most, dynamics.dtype)


def tile_rows(
    sums: Float[Tensor, "*batch L"], rows: int, dtype: torch.dtype
) -> Int[Tensor, "*batch"] | None:
    """The rows of each head, halved until C changes by no more than CALM within a tile; None where
    it changes too much even in tiles of LEAST rows."""
    found, widest = torch.full(sums.shape[:-1], rows), 2 * LOSS[dtype] / torch.finfo(dtype).eps
    if bool((sums.abs() > LOSS[dtype] / torch.finfo(sums.dtype).eps).any()):
        return None  # a reset takes the digits of every later difference of the sums
    limit = min(CALM, widest)
    while True:
        last = sums[..., -1:].expand(*sums.shape[:-1], -sums.shape[-1] % rows)
        apart = torch.cat([sums, last], -1).unflatten(-1, (-1, rows))
        change = (apart.amax(-1) - apart.amin(-1)).amax(-1)
        if rows < 2 * LEAST:
            calm = bool((change <= widest).all())
            return found if calm else None
        if bool((change <= limit).all()):
            return found
        rows //= 2
        found = torch.where(change > limit, rows, found)


class Decay(NamedTuple):
    """C (B, 1, L) in float64, and how much of it makes every key of a head fade (B, 1, 1)."""

    sums: Float[Tensor, "B 1 L"]
    horizon: Float[Tensor, "B 1 1"]

    def of_tile(self, start: int, stop: int) -> tuple[Tensor, int]:
        """(C_a - C_j for j < stop, FADED where that is what it is; the first column that is not
        faded in every head)."""
        at = self.sums[..., start : start + 1]
        reach = (self.sums[..., start:stop] - at).amax(-1, keepdim=True)
        gap = at - self.sums[..., :stop]
        faded = gap + reach < -self.horizon
        first = int((~faded).flatten(0, -2).any(0).to(torch.int8).argmax())
        return gap.masked_fill_(faded, FADED), min(first, start)


def decay_of(q: Tensor, k: Tensor, sums: Tensor | None) -> Decay | None:
    """The decay of all tiles; the size of scores is bounded by that of queries and keys."""
    if sums is None:
        return None
    most = (q.detach().norm(dim=-1).amax(-1) * k.detach().norm(dim=-1).amax(-1)).double()
    least = SHARE * torch.finfo(q.dtype).eps / q.shape[-2]
    return Decay(sums, (2 * most - math.log(least))[..., None])


class Part(NamedTuple):
    """One call: rows against columns, causal on the diagonal or with a mask of -inf."""

    rows: slice
    columns: slice
    causal: bool
    mask: Tensor | None


def parts_of(
    mask: Mask | None, start: int, stop: int, first: int, like: Float[Tensor, "*any"]
) -> Iterator[Part]:
    """The keys inside the tile, and those from ``first`` on that a row of it may read."""
    here = slice(start, stop)
    if mask is None:
        yield Part(here, here, True, None)
        if start > first:
            yield Part(here, slice(first, start), False, None)
        return
    first = max(first, mask.first(start) or 0)
    allowed = mask.rows(start, stop, first, like.device)
    allowed = allowed & torch.ones_like(allowed).tril(start - first)
    bias = torch.zeros(allowed.shape, dtype=like.dtype).masked_fill_(~allowed, -torch.inf)
    yield Part(here, slice(first, stop), False, bias)


def tiles(
    k: Tensor, decay: Decay | None, mask: Mask | None, rows: int
) -> Iterator[tuple[slice, list[Part]]]:
    """The rows of every tile and its parts; the last channel of k is set to the tile's decay."""
    for start in range(0, k.shape[-2], rows):
        stop, first = min(start + rows, k.shape[-2]), 0
        if decay is not None:
            gap, first = decay.of_tile(start, stop)
            k[..., :stop, -1] = gap
        yield slice(start, stop), list(parts_of(mask, start, stop, first, k))


def fused(dynamics: CoefficientDynamics, v: Float[Tensor, "*#batch L dv"]) -> bool:
    """Return whether ``fused_attention`` takes the design."""
    return fused_rows(dynamics, v) is not None


def fused_attention(
    dynamics: CoefficientDynamics, v: Float[Tensor, "*batch L n"]
) -> Float[Tensor, "*batch L n"]:
    """y, tile by tile of as many rows as ``fused_rows`` says: O(L) memory.

    Heads with tiles of one size are run together.
    """
    rows = fused_rows(dynamics, v)
    assert rows is not None, "a design that torch's attention cannot compute"
    batch = broadcast_shapes(dynamics.batch_shape, v.shape[:-2])
    k, c = dynamics.scaled_keys(), dynamics.outer_log_decay
    if dynamics.log_scaling is not None:
        k = k * dynamics.log_scaling.exp()[..., None]
    heads = once(*(x.expand(*batch, *x.shape[-2:]) for x in (dynamics.q, k, v)))
    q, k, v = (x.reshape(-1, 1, *x.shape[-2:]) for x in heads)
    sums = None
    if c is not None:
        sums = c.double().cumsum(-1).expand(*batch, -1).reshape(-1, 1, c.shape[-1])
        q, k, v = (
            functional.pad(x, (0, 1), value=fill) for x, fill in ((q, 1.0), (k, 0.0), (v, 0.0))
        )
    sizes = rows.expand(batch).flatten()
    groups = [(size, (sizes == size).nonzero()[:, 0]) for size in sizes.unique().tolist()]
    if len(groups) == 1:
        out = _Fused.apply(q, k, v, sums, dynamics.mask, groups[0][0])
    else:
        parts = [
            _Fused.apply(*(None if x is None else x[i] for x in (q, k, v, sums)), dynamics.mask, n)
            for n, i in groups
        ]
        out = torch.cat(parts)[torch.cat([i for _, i in groups]).argsort()]
    return out[..., : dynamics.key_dim].reshape(*batch, *out.shape[-2:-1], -1)


class _Fused(torch.autograd.Function):
    """y of (B, 1, L, n) heads; with a decay, C (B, 1, L), the last channel is (1, C_a - C, 0)."""

    @staticmethod
    def forward(
        ctx: Any, q: Tensor, k: Tensor, v: Tensor, sums: Tensor | None, mask: Mask | None, rows: int
    ) -> Tensor:
        decay = decay_of(q[..., :-1], k[..., :-1], sums)
        out, total = torch.empty_like(v), q.new_empty(q.shape[:-1])
        for here, parts in tiles(k, decay, mask, rows):
            found = [
                forward_part(
                    *(cut(q, here), cut(k, part.columns), cut(v, part.columns)),
                    *(0.0, part.causal),
                    attn_mask=part.mask,
                    scale=1.0,
                )
                for part in parts
            ]
            out[..., here, :], total[..., here] = joined(found)
        ctx.save_for_backward(q, k, v, sums, out, total)
        ctx.mask, ctx.rows, ctx.decay = mask, rows, decay
        ctx.set_materialize_grads(False)
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor | None) -> tuple[Tensor | None, ...]:
        if grad is None:  # "auto" took the plain matrix (twice.py)
            return (None,) * 6
        found = _backward.apply(*ctx.saved_tensors, grad, ctx.decay, ctx.mask, ctx.rows)
        dq, dk, dv = found
        dsums = None if ctx.decay is None else -dk[..., -1].double()
        return dq, dk, dv, dsums, None, None


def fused_backward(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    sums: Tensor | None,
    out: Tensor,
    total: Tensor,
    grad: Tensor,
    decay: Decay | None,
    mask: Mask | None,
    rows: int,
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of q, k and v, that of the decay in the last channel of k."""
    grad = grad.contiguous()
    dq, dk, dv = torch.zeros_like(q), torch.zeros_like(k), torch.zeros_like(v)
    k = k if sums is None else k.clone()
    for here, parts in tiles(k, decay, mask, rows):
        for part in parts:
            there = part.columns
            slopes = backward_part(
                *(cut(grad, here), cut(q, here), cut(k, there), cut(v, there), cut(out, here)),
                *(total[..., here], 0.0, part.causal),
                attn_mask=part.mask,
                scale=1.0,
            )
            cut(dq, here).add_(slopes[0])
            cut(dk, there).add_(slopes[1])
            cut(dv, there).add_(slopes[2])
    return dq, dk, dv


_backward = first_derivative_only(fused_backward)


def cut(x: Tensor, here: slice) -> Tensor:
    return x[..., here, :]


def joined(found: list[tuple[Tensor, Tensor]]) -> tuple[Tensor, Tensor]:
    """y and log row sums from those of parts of each row."""
    if len(found) == 1:
        return found[0]
    total = torch.stack([log for _, log in found]).logsumexp(0)
    shares = [(log - total).exp()[..., None] * y for y, log in found]
    return sum(shares[1:], shares[0]), total
