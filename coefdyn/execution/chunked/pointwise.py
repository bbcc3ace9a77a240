"""Pointwise readouts: from the ingredients to tiled rows. O(L^2) time, O(L) memory."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch.nn import functional

from coefdyn.dynamics import readout as readouts
from coefdyn.dynamics.coefficients import CoefficientDynamics
from coefdyn.dynamics.evolution import (
    Diagonal,
    DiagonalPlusRankOne,
    Householder,
    Identity,
    ScaledHouseholder,
)
from coefdyn.dynamics.normalizer import RowSum
from coefdyn.execution.chunked.operators import Kernel, flatten_batch
from coefdyn.execution.chunked.pointwise_scores import (
    DiagonalScores,
    HouseholderScores,
    PlainScores,
    householder_tiles,
)
from coefdyn.execution.chunked.pointwise_tiles import groups, tiled_backward, tiled_forward
from coefdyn.execution.chunked.rank_one_tiles import rank_one_tiles
from coefdyn.execution.chunked.readouts import rule
from coefdyn.execution.chunked.stabilize import shifted, stabilize
from coefdyn.execution.chunked.tiles import cut
from coefdyn.execution.rows import normalize
from coefdyn.shapes import Float, Tensor

__all__ = ["apply_pointwise"]

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


def apply_pointwise(
    dynamics: CoefficientDynamics, v: Float[Tensor, "*batch L dv"], rows: int
) -> Float[Tensor, "*batch L dv"]:
    """y of a pointwise readout."""
    batch = torch.broadcast_shapes(dynamics.batch_shape, v.shape[:-2])
    if is_softmax(dynamics) and v.shape[-1] == dynamics.key_dim:
        return softmax_attention(dynamics, v, batch)
    phi, eta = dynamics.readout, dynamics.normalizer
    name: Phi = phi.fn
    for known in (readouts.identity, readouts.exp, readouts.relu, readouts.softplus):
        name = known.name if phi.same_as(known) else name
    q, k, g, offset = _inputs(dynamics)
    shift = phi.same_as(readouts.exp) and eta.cancels_scale
    tensors, structure, rows = _structured(dynamics, q, k, batch, rows)
    run = rows_kernel if isinstance(name, str) else rows_kernel.direct
    values = flatten_batch(v, batch, 2)
    g = None if g is None else flatten_batch(g, batch, 1)
    out, total, peak = run(*tensors, values, g, structure, name, rows, shift)
    out, total, peak = (x.reshape(*batch, *x.shape[1:]) for x in (out, total, peak))
    if shift:
        offset = peak
    return normalize(out, total[..., None], None if offset is None else offset[..., None], eta)


def _inputs(dynamics: CoefficientDynamics) -> tuple[Tensor, Tensor, Tensor | None, Tensor | None]:
    """q, b k, scalar log decay, offset of stabilised gates; flips are folded into q and k."""
    evolution, log_b = dynamics.evolution, dynamics.log_scaling
    q, k, g = dynamics.q, dynamics.scaled_keys(), dynamics.evolution.common_log_decay
    sign = getattr(evolution, "sign", None)
    if sign is not None:
        diagonal = isinstance(evolution, (Diagonal, DiagonalPlusRankOne))
        sign = sign.cumprod(-2) if diagonal else sign.cumprod(-1)[..., None]
        q, k = q * sign, k * sign
    tracked = dynamics.readout.is_homogeneous and dynamics.normalizer.cancels_scale
    if not tracked or (g is None and log_b is None):
        return q, k if log_b is None else k * log_b.exp()[..., None], g, None
    logs = torch.zeros_like(g) if log_b is None else log_b
    gates = stabilize(g, logs, None)
    g = shifted(g, gates.shift, dynamics.dtype)
    return q, k * gates.weight[..., None], g, gates.offset


def _structured(
    dynamics: CoefficientDynamics, q: Tensor, k: Tensor, batch: tuple[int, ...], rows: int
) -> tuple[tuple[Tensor | None, ...], str, int]:
    """The tensors that the structure's Scores object takes, its name and its rows per tile."""
    evolution = dynamics.evolution
    q, k = flatten_batch(q, batch, 2), flatten_batch(k, batch, 2)
    if isinstance(evolution, Diagonal):
        power = max(4, 1 << (rows - 1).bit_length())
        return (q, k, flatten_batch(evolution.log_decay, batch, 2), None), "diagonal", power
    if isinstance(evolution, DiagonalPlusRankOne):
        rows = max(4, 1 << (min(rows, q.shape[1]) - 1).bit_length())
        left, right = (flatten_batch(x, batch, 2) for x in _flipped(evolution))
        g = flatten_batch(evolution.log_decay, batch, 2)
        pad = (0, 0, 0, -q.shape[1] % rows)
        inputs = (functional.pad(x, pad).unflatten(1, (-1, rows)) for x in (q, k, left, right, g))
        return rank_one_tiles(*inputs), "householder", rows
    if isinstance(evolution, (Householder, ScaledHouseholder)):
        rows = min(rows, q.shape[1])
        pad = -q.shape[1] % rows
        z = flatten_batch(evolution.direction, batch, 2)
        q, k, z = (functional.pad(x, (0, 0, 0, pad)).unflatten(1, (-1, rows)) for x in (q, k, z))
        beta = functional.pad(flatten_batch(evolution.beta, batch, 1), (0, pad))
        return householder_tiles(q, k, z, beta.unflatten(1, (-1, rows))), "householder", rows
    return (q, k, None, None), "plain", rows


def _flipped(evolution: DiagonalPlusRankOne) -> tuple[Tensor, Tensor]:
    """left and right with the flips folded in; right_t reads what token t - 1 left."""
    if evolution.sign is None:
        return evolution.left, evolution.right
    sign = evolution.sign.cumprod(-2)
    before = functional.pad(sign[..., :-1, :], (0, 0, 1, 0), value=1.0)
    return evolution.left * sign, evolution.right * before


def is_softmax(dynamics: CoefficientDynamics) -> bool:
    """Whether this is plain softmax attention, which torch has a kernel for."""
    return (
        dynamics.readout.same_as(readouts.exp)
        and isinstance(dynamics.normalizer, RowSum)
        and isinstance(dynamics.evolution, Identity)
    )


def softmax_attention(
    dynamics: CoefficientDynamics, v: Tensor, batch: tuple[int, ...]
) -> Float[Tensor, "*batch L dv"]:
    """Row-normalised exp with A_t = I, by torch's own attention."""
    k, scale = dynamics.k, 1.0
    if isinstance(dynamics.scaling, Tensor):
        k = k * dynamics.scaling[..., None]
    else:
        scale = float(dynamics.scaling)
    if dynamics.log_scaling is not None:
        k = k * dynamics.log_scaling.exp()[..., None]
    heads = [x.expand(*batch, *x.shape[-2:]) for x in (dynamics.q, k, v)]
    if len(batch) != 2:
        heads = [x.reshape(-1, 1, *x.shape[-2:]) for x in heads]
    out = functional.scaled_dot_product_attention(*heads, is_causal=True, scale=scale)
    return out.reshape(*batch, *out.shape[-2:])
