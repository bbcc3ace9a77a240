"""Pointwise readouts: from the ingredients to tiled rows. O(L^2) time, O(L) memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import NamedTuple

import torch
from torch.nn import functional

from coefdyn.dynamics import readout as readouts
from coefdyn.dynamics.coefficients import CoefficientDynamics
from coefdyn.dynamics.evolution import Diagonal, DiagonalPlusRankOne, Identity
from coefdyn.dynamics.mask import Blocks, Mask, Window
from coefdyn.dynamics.normalizer import One, RowSum
from coefdyn.execution.chunked.fused import fused, fused_attention
from coefdyn.execution.chunked.operators import Kernel, flatten_batch, once
from coefdyn.execution.chunked.pointwise_scores import (
    DiagonalScores,
    PlainScores,
    RankOneScores,
)
from coefdyn.execution.chunked.pointwise_tiles import (
    Admitted,
    Logs,
    groups,
    tiled_backward,
    tiled_forward,
)
from coefdyn.execution.chunked.rank_one_tiles import rank_one_tiles
from coefdyn.execution.chunked.readouts import rule
from coefdyn.execution.chunked.rows import apply_rows, starts_concentrated
from coefdyn.execution.chunked.tiles import cut
from coefdyn.execution.growth import erases, grows
from coefdyn.execution.inputs import can_read
from coefdyn.execution.problem import flipped_sides, flips, gates
from coefdyn.execution.recurrent import step_cache
from coefdyn.execution.restrictions import with_own
from coefdyn.execution.rows import normalize
from coefdyn.shapes import Float, Tensor, broadcast_shapes

__all__ = ["apply_pointwise"]

BUILT_IN = (readouts.identity, readouts.exp, readouts.relu, readouts.softplus)

Phi = str | Callable[[Tensor], Tensor]
#: a mask as the kernel takes it: nothing, the three numbers of ``Blocks``, or any
Only = list[int] | Admitted
#: the tensors that a structure's Scores object takes, its name and its rows per tile
Structured = tuple[tuple[Tensor | None, ...], str, int]


def _shapes(*tensors: Tensor | None) -> tuple:
    """Numerator like v (the fifth tensor), row sum, offset and lift (B, L)."""
    v = tensors[4]
    return v.shape, v.shape[:2], v.shape[:2], v.shape[:2]


def _scores(structure: str, rows: int, group: slice, a, b, c, d):
    """The Scores object of one group; what a, b, c, d are depends on the structure."""
    if structure == "plain":
        return PlainScores(a[group], b[group], rows)
    if structure == "diagonal":
        return DiagonalScores(a[group], b[group], c[group], rows)
    return RankOneScores(a[group], b[group], c[group], d[group])


def _gradients(structure: str, scores) -> tuple[Tensor, ...]:
    if structure == "plain":
        return scores.dq, scores.dk
    if structure == "diagonal":
        return scores.finish()
    return scores.dq, scores.dk, scores.dwhole, scores.dinner


def _groups(
    structure: str, a: Tensor, v: Tensor, rows: int, only: Only
) -> Iterator[tuple[slice, int, Admitted]]:
    """Groups of batch entries with their rows per tile and the pairs that count; tiles of rank one
    come with their size."""
    batch, length, element = v.shape[0], v.shape[1], v.element_size()
    admitted = only if isinstance(only, Admitted) else Admitted(Blocks(*only) if only else None, {})
    if structure == "rank_one":
        rows = a.shape[2]
        step = max(1, 4 * 2**20 // (rows * admitted.widest(rows, length) * element))
        sized = ((slice(s, min(s + step, batch)), rows) for s in range(0, batch, step))
    else:
        sized = groups(batch, admitted.widest(rows, length), rows, element)
    for group, size in sized:
        yield group, size, admitted._replace(entries=group)


def _logs(group: slice, v: Tensor, inside, outside, weight, deep: bool) -> tuple[Logs, Logs]:
    """Of what multiplies scores, and of what multiplies their phi."""
    inner = Logs(cut(inside, group), None, v.dtype, deep)
    return inner, Logs(cut(outside, group), cut(weight, group), v.dtype, deep)


def forward(
    a, b, c, d, v, inside, outside, weight, structure: str, phi: Phi, rows: int, cancels: bool, only
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """(numerator, row sum, offset, lift); the last two are 0 unless eta ``cancels`` the scale."""
    numerator = torch.empty_like(v)
    total = v.new_empty(v.shape[:2])
    offset, lift = v.new_zeros(v.shape[:2]), v.new_zeros(v.shape[:2])
    for group, size, admitted in _groups(structure, a, v, rows, only):
        scores, logs = (
            _scores(structure, size, group, a, b, c, d),
            _logs(group, v, inside, outside, weight, cancels),
        )
        for tile in tiled_forward(scores, rule(phi), v[group], logs, admitted, size, cancels):
            here = (group, tile.rows)
            numerator[here], total[here] = tile.numerator, tile.total
            if tile.offset is not None:
                offset[here] = tile.offset
            if tile.lift is not None:
                lift[here] = tile.lift
    return numerator, total, offset, lift


def backward(
    a,
    b,
    c,
    d,
    v,
    inside,
    outside,
    weight,
    out,
    total,
    offset,
    lift,
    dout,
    dtotal,
    structure,
    phi,
    rows,
    cancels,
    only,
) -> tuple[Tensor | None, ...]:
    """Gradients of (a, b, c, d, v, inside, outside, weight)."""
    inputs = [None if x is None else torch.empty_like(x) for x in (a, b, c, d)]
    sums = [None if x is None else torch.empty_like(x) for x in (inside, outside, weight)]
    dv = torch.empty_like(v)
    for group, size, admitted in _groups(structure, a, v, rows, only):
        scores, logs = (
            _scores(structure, size, group, a, b, c, d),
            _logs(group, v, inside, outside, weight, cancels),
        )
        lifts = (offset[group], lift[group]) if cancels else None
        grads = (dout[group], dtotal[group])
        tiled_backward(scores, rule(phi), v[group], logs, admitted, size, lifts, grads, dv[group])
        parts = [logs[0].gradients()[0], *logs[1].gradients()]
        for whole, found in zip(inputs, _gradients(structure, scores), strict=False):
            whole[group] = found
        for whole, found in zip(sums, parts, strict=True):
            if whole is not None:
                whole[group] = found
    return *inputs, dv, *sums


rows_kernel = Kernel(
    "chunked_rows",
    forward,
    backward,
    tensors=("a", "b", "c?", "d?", "v", "inside?", "outside?", "weight?"),
    options=("str structure", "str phi", "int rows", "bool cancels", "int[] only"),
    shapes=_shapes,
    outputs=4,
    constants=2,
)


def apply_pointwise(
    dynamics: CoefficientDynamics, v: Float[Tensor, "*batch L dv"], rows: int
) -> Float[Tensor, "*batch L dv"]:
    """y of a pointwise readout, by the first of ``PATHS`` that takes the design."""
    for path in PATHS:
        if path.takes(dynamics, v):
            return path.run(dynamics, v, rows)
    raise AssertionError("the last path takes every design")


def apply_tiles(
    dynamics: CoefficientDynamics, v: Float[Tensor, "*batch L dv"], rows: int
) -> Float[Tensor, "*batch L dv"]:
    """y by the kernel that knows the structure of A_t, tile by tile of ``rows`` rows."""
    batch = broadcast_shapes(dynamics.batch_shape, v.shape[:-2])
    phi, eta = dynamics.readout, dynamics.normalizer
    name: Phi = next((known.name for known in BUILT_IN if phi.same_as(known)), phi.fn)
    inside, outside, log_b = _log_weights(dynamics)
    plain = dynamics if log_b is None else replace(dynamics, log_scaling=None)
    weight, scale, _, _ = gates(replace(plain, normalizer=One()))
    q, k = dynamics.q, dynamics.k if scale == 1.0 else dynamics.k * scale
    k, sign = k if weight is None else k * weight[..., None], flips(dynamics.evolution)
    q, k = (q, k) if sign is None else (q * sign, k * sign)
    tensors, structure, rows = _structured(dynamics, q, k, batch, rows)
    logs = (None if x is None else flatten_batch(x, batch, 1) for x in (inside, outside, log_b))
    only = _only(dynamics.mask, batch)
    built_in = isinstance(name, str) and not isinstance(only, Admitted)
    run = rows_kernel if built_in else rows_kernel.direct
    values = flatten_batch(v, batch, 2)
    found = run(*tensors, values, *logs, structure, name, rows, eta.cancels_scale, only)
    out, total, offset, lift = (x.reshape(*batch, *x.shape[1:]) for x in found)
    moved = name in ("exp", "softplus") or outside is not None or log_b is not None
    offset = (offset + lift)[..., None] if eta.cancels_scale and moved else None
    if dynamics.own is not None:
        sums = torch.cat([out, total[..., None]], -1)
        ones = torch.ones_like(v[..., :1])
        sums, offset = with_own(sums, offset, _own(dynamics, rows), torch.cat([v, ones], -1))
        out, total = sums[..., :-1], sums[..., -1]
    return normalize(out, total[..., None], offset, eta)


def _log_weights(
    dynamics: CoefficientDynamics,
) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
    """Log decays that multiply scores, and those that multiply their phi, each (..., L); and log b,
    where it is kept apart from the keys.

    phi(c s) = c phi(s) of a homogeneous readout takes all of them out, and eta may then follow a
    row that leaves the range.
    """
    g, c = dynamics.evolution.common_log_decay, dynamics.outer_log_decay
    if not dynamics.readout.is_homogeneous:
        return g, c, None
    both = c if g is None else g if c is None else g + c
    return None, both, dynamics.log_scaling if dynamics.normalizer.cancels_scale else None


def _own(dynamics: CoefficientDynamics, rows: int) -> Float[Tensor, "*#batch L"]:
    """The own terms of the tokens that a mask lets read themselves, 0 for all others."""
    own, mask, length = dynamics.own, dynamics.mask, dynamics.length
    if mask is None or type(mask) in (Window, Blocks):
        return own
    tiles = ((start, min(start + rows, length)) for start in range(0, length, rows))
    found = [mask.rows(*tile, tile[0], own.device).diagonal(dim1=-2, dim2=-1) for tile in tiles]
    return own * torch.cat(found, -1)


def _only(mask: Mask | None, batch: tuple[int, ...]) -> Only:
    """A mask as the kernel takes it: three numbers for a window or blocks, else itself."""
    match mask:
        case None:
            return []
        case Window(size=size) if type(mask) is Window:
            return [1, size - 1, 0]
        case Blocks() if type(mask) is Blocks:
            return [mask.size, mask.before, mask.position]
    return Admitted(mask, {}, batch)


def needs_rows(dynamics: CoefficientDynamics, v: Tensor) -> bool:
    """Return whether plain rows must do it (see rows.py): a readout of one's own with parameters or
    one value per head, a mask that cannot be read while a graph is recorded."""
    phi, mask = dynamics.readout, dynamics.mask
    if mask is not None and not all(can_read(x) for x in mask.tensors().values()):
        return True
    if any(phi.same_as(known) for known in BUILT_IN):
        return False
    probe = phi(dynamics.q.detach().new_zeros(1, 1))
    return probe.requires_grad or probe.shape != (1, 1)


def _structured(
    dynamics: CoefficientDynamics, q: Tensor, k: Tensor, batch: tuple[int, ...], rows: int
) -> Structured:
    evolution = dynamics.evolution
    q, k = flatten_batch(q, batch, 2), flatten_batch(k, batch, 2)
    if type(evolution) is Diagonal:
        power = max(4, 1 << (rows - 1).bit_length())
        return (q, k, flatten_batch(evolution.log_decay, batch, 2), None), "diagonal", power
    if erases(dynamics):
        decayed = type(evolution) is DiagonalPlusRankOne
        rows = min(rows, q.shape[1])
        rows = max(4, 1 << (rows - 1).bit_length()) if decayed else rows
        if decayed:
            sides = (*flipped_sides(evolution), evolution.log_decay)
        else:
            sides = (evolution.direction, evolution.beta[..., None] * evolution.direction)
        inputs = (q, k, *(flatten_batch(x, batch, 2) for x in sides))
        pad = (0, 0, 0, -q.shape[1] % rows)
        tiles = [functional.pad(x, pad).unflatten(1, (-1, rows)) for x in inputs]
        return rank_one_tiles(*tiles), "rank_one", rows
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


def is_attention(dynamics: CoefficientDynamics, v: Tensor) -> bool:
    """Return whether torch's kernel computes all of it."""
    return is_softmax(dynamics) and dynamics.own is None and v.shape[-1] == dynamics.key_dim


def softmax_attention(dynamics: CoefficientDynamics, v: Tensor) -> Float[Tensor, "*batch L dv"]:
    """Row-normalised exp with A_t = I, by torch's own attention."""
    batch = broadcast_shapes(dynamics.batch_shape, v.shape[:-2])
    k = dynamics.scaled_keys()  # a scale of 0 or below would meet the mask's -inf in the kernel
    if dynamics.log_scaling is not None:
        k = k * dynamics.log_scaling.exp()[..., None]
    heads = once(*(x.expand(*batch, *x.shape[-2:]) for x in (dynamics.q, k, v)))
    if len(batch) != 2:
        heads = tuple(x.reshape(-1, 1, *x.shape[-2:]) for x in heads)
    out = functional.scaled_dot_product_attention(*heads, is_causal=True, scale=1.0)
    return out.reshape(*batch, *out.shape[-2:])


class Route(NamedTuple):
    """One way to compute a pointwise readout: which designs it takes, and how it runs them."""

    name: str
    takes: Callable[[CoefficientDynamics, Tensor], bool]
    run: Callable[[CoefficientDynamics, Tensor, int], Tensor]


#: tried in order; the first that takes a design computes it, and no other
PATHS = (
    Route(
        "rows by autograd, where one pair may hold a row",
        lambda d, v: starts_concentrated(d, v) and not grows(d),
        apply_rows,
    ),
    Route("torch's own attention", is_attention, lambda d, v, rows: softmax_attention(d, v)),
    Route("tiles of torch's attention", fused, lambda d, v, rows: fused_attention(d, v)),
    Route(
        "token by token, which loses nothing where A_t grows",
        lambda d, v: grows(d),
        lambda d, v, rows: step_cache(d, v, None, rows)[0],
    ),
    Route("rows by autograd", needs_rows, apply_rows),
    Route("tiles of the structure", lambda d, v: True, apply_tiles),
)
