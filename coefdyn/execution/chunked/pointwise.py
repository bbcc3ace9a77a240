"""Pointwise readouts: from the ingredients to tiled rows. O(L^2) time, O(L) memory."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import torch
from torch.nn import functional

from coefdyn.dynamics import readout as readouts
from coefdyn.dynamics.coefficients import CoefficientDynamics
from coefdyn.dynamics.evolution import Diagonal, DiagonalPlusRankOne, Identity
from coefdyn.dynamics.normalizer import One, RowSum
from coefdyn.execution.chunked.fused import fused_attention, fused_rows
from coefdyn.execution.chunked.operators import Kernel, flatten_batch, once
from coefdyn.execution.chunked.pointwise_scores import (
    DiagonalScores,
    HouseholderScores,
    PlainScores,
    householder_tiles,
)
from coefdyn.execution.chunked.pointwise_tiles import groups, tiled_backward, tiled_forward
from coefdyn.execution.chunked.rank_one_tiles import rank_one_tiles
from coefdyn.execution.chunked.readouts import rule
from coefdyn.execution.chunked.rows import apply_rows
from coefdyn.execution.chunked.tiles import cut
from coefdyn.execution.growth import grows, reflects
from coefdyn.execution.inputs import can_read_all
from coefdyn.execution.problem import flipped_sides, flips, gates
from coefdyn.execution.restrictions import with_own
from coefdyn.execution.rows import normalize
from coefdyn.execution.stabilize import RESET
from coefdyn.shapes import Float, Tensor, broadcast_shapes

__all__ = ["apply_pointwise"]

BUILT_IN = (readouts.identity, readouts.exp, readouts.relu, readouts.softplus)

Phi = str | Callable[[Tensor], Tensor]


def _shapes(*tensors: Tensor | None) -> tuple:
    """Numerator like v (the fifth tensor), row sum and offset (B, L)."""
    v = tensors[4]
    return v.shape, v.shape[:2], v.shape[:2]


def _scores(structure: str, rows: int, group: slice, a, b, c, d):
    """The Scores object of one group; what a, b, c, d are depends on the structure."""
    if structure == "plain":
        return PlainScores(a[group], b[group], rows)
    if structure == "diagonal":
        return DiagonalScores(a[group], b[group], c[group], rows)
    return HouseholderScores(a[group], b[group], c[group], d[group])


def _gradients(structure: str, scores) -> tuple[Tensor, ...]:
    if structure == "plain":
        return scores.dq, scores.dk
    if structure == "diagonal":
        return scores.finish()
    return scores.dq, scores.dk, scores.dwhole, scores.dinner


def _groups(structure: str, a: Tensor, v: Tensor, rows: int):
    """Groups of batch entries with their rows per tile; Householder tiles come with their size."""
    element = v.element_size()
    if structure == "householder":
        rows = a.shape[2]
        step = max(1, 4 * 2**20 // (rows * v.shape[1] * element))
        return [(slice(s, min(s + step, a.shape[0])), rows) for s in range(0, a.shape[0], step)]
    return list(groups(v.shape[0], v.shape[1], rows, element))


def forward(
    a, b, c, d, v, log_decay, structure: str, phi: Phi, rows: int, shift: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """(numerator, row sum, offset); offset is 0 without shift."""
    numerator = torch.empty_like(v)
    total = v.new_empty(v.shape[:2])
    offset = v.new_zeros(v.shape[:2])
    for group, size in _groups(structure, a, v, rows):
        scores = _scores(structure, size, group, a, b, c, d)
        tiles = tiled_forward(scores, rule(phi), v[group], cut(log_decay, group), size, shift)
        for here, out, row_sum, peak in tiles:
            numerator[group, here], total[group, here] = out, row_sum
            if peak is not None:
                offset[group, here] = peak
    return numerator, total, offset


def backward(
    a, b, c, d, v, log_decay, out, total, offset, dout, dtotal, structure, phi, rows, shift
) -> tuple[Tensor | None, ...]:
    """Gradients of (a, b, c, d, v, log_decay)."""
    inputs = [torch.empty_like(x) if x is not None else None for x in (a, b, c, d)]
    dv, dg = torch.empty_like(v), None if log_decay is None else torch.empty_like(log_decay)
    for group, size in _groups(structure, a, v, rows):
        scores = _scores(structure, size, group, a, b, c, d)
        shifts = offset[group] if shift else None
        grads = (dout[group], dtotal[group])
        g = cut(log_decay, group)
        part = tiled_backward(scores, rule(phi), v[group], g, size, shifts, grads, dv[group])
        if dg is not None:
            dg[group] = part
        for whole, found in zip(inputs, _gradients(structure, scores), strict=False):
            whole[group] = found
    return *inputs, dv, dg


rows_kernel = Kernel(
    "chunked_rows",
    forward,
    backward,
    tensors=("a", "b", "c?", "d?", "v", "log_decay?"),
    options=("str structure", "str phi", "int rows", "bool shift"),
    shapes=_shapes,
    outputs=3,
    constants=1,
)


#: structure -> the tensors that its Scores object takes, its name and its rows per tile
Structured = tuple[tuple[Tensor | None, ...], str, int]


def apply_pointwise(
    dynamics: CoefficientDynamics, v: Float[Tensor, "*batch L dv"], rows: int
) -> Float[Tensor, "*batch L dv"]:
    """y of a pointwise readout."""
    batch = broadcast_shapes(dynamics.batch_shape, v.shape[:-2])
    if is_softmax(dynamics) and dynamics.own is None and v.shape[-1] == dynamics.key_dim:
        return softmax_attention(dynamics, v, batch)
    tiles = fused_rows(dynamics, v)
    if tiles is not None:
        return fused_attention(dynamics, v, tiles)
    if needs_rows(dynamics) or grows(dynamics):
        return apply_rows(dynamics, v, rows)
    phi, eta, weighted = dynamics.readout, dynamics.normalizer, weighs_row_sums(dynamics)
    if weighted and not can_read_all(dynamics, v):
        return apply_rows(dynamics, v, rows)
    name: Phi = next((known.name for known in BUILT_IN if phi.same_as(known)), phi.fn)
    shift = name in ("exp", "softplus") and eta.cancels_scale
    weight, scale, _, _ = gates(replace(dynamics, normalizer=One()) if weighted else dynamics)
    q, k = dynamics.q, dynamics.k if scale == 1.0 else dynamics.k * scale
    k, sign = k if weight is None else k * weight[..., None], flips(dynamics.evolution)
    q, k = (q, k) if sign is None else (q * sign, k * sign)
    tensors, structure, rows = _structured(dynamics, q, k, batch, rows)
    g = dynamics.evolution.common_log_decay
    g = None if g is None else flatten_batch(g, batch, 1)
    run = rows_kernel if isinstance(name, str) else rows_kernel.direct
    out, total, offset = run(*tensors, flatten_batch(v, batch, 2), g, structure, name, rows, shift)
    out, total, offset = (x.reshape(*batch, *x.shape[1:]) for x in (out, total, offset))
    if weighted and fades(dynamics, total):
        return apply_rows(dynamics, v, rows)
    offset = offset[..., None] if shift else None
    if dynamics.own is not None:
        sums = torch.cat([out, total[..., None]], -1)
        ones = torch.ones_like(v[..., :1])
        sums, offset = with_own(sums, offset, dynamics.own, torch.cat([v, ones], -1))
        out, total = sums[..., :-1], sums[..., -1]
    return normalize(out, total[..., None], offset, eta)


def needs_rows(dynamics: CoefficientDynamics) -> bool:
    """Return whether the design needs plain rows (see rows.py).

    It does for a mask, an outer decay, or a custom readout with parameters or one value per head.
    """
    phi = dynamics.readout
    if dynamics.mask is not None or dynamics.outer_log_decay is not None:
        return True
    if any(phi.same_as(known) for known in BUILT_IN):
        return False
    probe = phi(dynamics.q.detach().new_zeros(1, 1))
    return probe.requires_grad or probe.shape != (1, 1)


def weighs_row_sums(dynamics: CoefficientDynamics) -> bool:
    """Return whether a log weight multiplies whole coefficients whose scale eta cancels.

    A row may then fade below the dtype's range and yet have a quotient.
    """
    weighted = dynamics.evolution.common_log_decay is not None or dynamics.log_scaling is not None
    return weighted and dynamics.normalizer.cancels_scale and dynamics.readout.is_homogeneous


def fades(dynamics: CoefficientDynamics, total: Float[Tensor, "*batch L"]) -> bool:
    """Return whether the weights have put a row sum out of range.

    It is not finite, or it is small and some pair of its row weighs as little.
    """
    total, g, log_b = total.detach(), dynamics.evolution.common_log_decay, dynamics.log_scaling
    least = torch.finfo(total.dtype).tiny ** 0.25
    if not bool(total.isfinite().all()):
        return True
    low = total.abs() < least
    if not bool(low.any()):
        return False
    sums = total.new_zeros(total.shape, dtype=torch.float64)
    sums = sums if g is None else sums + g.detach().double().clamp(min=RESET).cumsum(-1)
    written = -sums if log_b is None else log_b.detach().double() - sums
    faintest = sums + written.cummin(-1).values
    return bool((low & (faintest < math.log(least))).any())


def _structured(
    dynamics: CoefficientDynamics, q: Tensor, k: Tensor, batch: tuple[int, ...], rows: int
) -> Structured:
    evolution = dynamics.evolution
    q, k = flatten_batch(q, batch, 2), flatten_batch(k, batch, 2)
    if type(evolution) is Diagonal:
        power = max(4, 1 << (rows - 1).bit_length())
        return (q, k, flatten_batch(evolution.log_decay, batch, 2), None), "diagonal", power
    if type(evolution) is DiagonalPlusRankOne:
        rows = max(4, 1 << (min(rows, q.shape[1]) - 1).bit_length())
        sides = (*flipped_sides(evolution), evolution.log_decay)
        pad = (0, 0, 0, -q.shape[1] % rows)
        inputs = (q, k, *(flatten_batch(x, batch, 2) for x in sides))
        tiles = (functional.pad(x, pad).unflatten(1, (-1, rows)) for x in inputs)
        return rank_one_tiles(*tiles), "householder", rows
    if reflects(dynamics):
        rows = min(rows, q.shape[1])
        pad = -q.shape[1] % rows
        z = flatten_batch(evolution.direction, batch, 2)
        q, k, z = (functional.pad(x, (0, 0, 0, pad)).unflatten(1, (-1, rows)) for x in (q, k, z))
        beta = functional.pad(flatten_batch(evolution.beta, batch, 1), (0, pad))
        return householder_tiles(q, k, z, beta.unflatten(1, (-1, rows))), "householder", rows
    return (q, k, None, None), "plain", rows


def is_softmax(dynamics: CoefficientDynamics) -> bool:
    """Return whether this is plain softmax attention, for which torch has a kernel."""
    return (
        dynamics.readout.same_as(readouts.exp)
        and isinstance(dynamics.normalizer, RowSum)
        and dynamics.normalizer.sink is None
        and dynamics.outer_log_decay is None
        and dynamics.mask is None
        and type(dynamics.evolution) is Identity
    )


def softmax_attention(
    dynamics: CoefficientDynamics, v: Tensor, batch: tuple[int, ...]
) -> Float[Tensor, "*batch L dv"]:
    """Row-normalised exp with A_t = I, by torch's own attention."""
    k = dynamics.scaled_keys()  # a scale of 0 or below would meet the mask's -inf in the kernel
    if dynamics.log_scaling is not None:
        k = k * dynamics.log_scaling.exp()[..., None]
    heads = [once(x.expand(*batch, *x.shape[-2:])) for x in (dynamics.q, k, v)]
    if len(batch) != 2:
        heads = [x.reshape(-1, 1, *x.shape[-2:]) for x in heads]
    out = functional.scaled_dot_product_attention(*heads, is_causal=True, scale=1.0)
    return out.reshape(*batch, *out.shape[-2:])
