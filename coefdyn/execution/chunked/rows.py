"""Pointwise readouts by plain torch, tile by tile of rows: O(L^2) time, few tiles in memory.

For what the hand-written kernel cannot see from flattened scores: a readout with parameters, one
that is not the same for every head, row sums that fade below the dtype's range, and Householder
evolutions that grow. Each tile is a checkpoint: its rows are computed again in the
backward pass.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch

from coefdyn.dynamics import readout as readouts
from coefdyn.dynamics.coefficients import CoefficientDynamics
from coefdyn.dynamics.evolution import Diagonal, DiagonalPlusRankOne
from coefdyn.execution import parallel
from coefdyn.execution.growth import erases
from coefdyn.execution.inputs import can_read, tensors_of
from coefdyn.execution.problem import flips
from coefdyn.execution.recurrent import checkpointed
from coefdyn.execution.restrictions import allowed
from coefdyn.execution.rows import averaged, loud, read, rest
from coefdyn.shapes import Float, Tensor

__all__ = ["apply_rows", "starts_concentrated"]

#: rows that tell whether all may be concentrated
FIRST = 16

RawRows = Callable[[int, int, int], Tensor]


def apply_rows(
    dynamics: CoefficientDynamics, v: Float[Tensor, "*batch L dv"], rows: int
) -> Float[Tensor, "*batch L dv"]:
    """y, the rows of each tile by ``rows.read`` like those of every other method."""
    raw = _raw(dynamics)
    tiles = [
        (start, min(start + rows, dynamics.length)) for start in range(0, dynamics.length, rows)
    ]
    return torch.cat([checkpointed(_tile, dynamics, v, raw, *tile) for tile in tiles], -2)


def starts_concentrated(dynamics: CoefficientDynamics, v: Tensor) -> bool:
    """Return whether rows of an exp whose scale eta cancels may be ``concentrated``.

    They may where the first ones are, or where some score may be above LOUD.

    Kernels do not round alike what cancels in the gradients of such a row, which matters if there
    are no others. Most designs are answered by the two scores of the second row.
    """
    if not dynamics.readout.same_as(readouts.exp) or not dynamics.normalizer.cancels_scale:
        return False
    length = min(dynamics.length, FIRST)
    if not torch.is_grad_enabled() or length < 2 or v.device.type != "cpu":
        return False
    held = [*tensors_of(dynamics), v]
    if not any(x.requires_grad for x in held) or not all(can_read(x) and x.numel() for x in held):
        return False
    with torch.no_grad():
        if not _loudest(dynamics) <= loud(v.dtype):
            return True
        if dynamics.log_scaling is None and not _apart(dynamics) >= -math.log(rest(v.dtype)):
            return False
        found = parallel.rows_of(dynamics.narrow(0, length), dynamics.normalizer.narrow(0, length))
        return float(found.values.sum(-1).amax()) - 1 <= rest(v.dtype)


def _loudest(dynamics: CoefficientDynamics) -> float:
    """At least every score, where no erasure grows: |q| |b k| times the growth of A_t."""
    b, sizes = dynamics.scaling, torch.linalg.vector_norm(dynamics.k, dim=-1)
    sizes = sizes * b
    most = float(torch.linalg.vector_norm(dynamics.q, dim=-1).amax()) * float(sizes.abs().amax())
    g, nats = getattr(dynamics.evolution, "log_decay", None), 0.0
    if g is not None:
        nats = max(0.0, float(g.amax()) * dynamics.length)
    if dynamics.log_scaling is not None:
        nats += float(dynamics.log_scaling.amax())
    return most * math.exp(min(nats, 700.0))


def _apart(dynamics: CoefficientDynamics) -> float:
    """The least difference, over all heads, of the two scores of the second row."""
    b, c, g = dynamics.scaling, dynamics.outer_log_decay, dynamics.evolution.common_log_decay
    k = dynamics.k[..., :2, :]
    k = k * b[..., :2, None] if isinstance(b, torch.Tensor) else k
    first = dynamics.evolution.rotate(k[..., :1, :], 1)
    first = first if g is None else first * g[..., 1, None, None].exp()
    gap = ((k[..., 1:, :] - first) * dynamics.q[..., 1:2, :]).sum(-1)
    gap = gap if isinstance(b, torch.Tensor) else gap * b
    return float((gap if c is None else gap - c[..., 1:2]).abs().amin())


def _raw(dynamics: CoefficientDynamics) -> RawRows:
    """Scores of rows start .. stop - 1 with columns first .. stop - 1, without log weights.

    ``first`` is what a mask says; keys before it cost nothing where A_t is a number.
    """
    evolution, sign = dynamics.evolution, flips(dynamics.evolution)
    q, k = dynamics.q, dynamics.scaled_keys()
    q, k = (q, k) if sign is None else (q * sign, k * sign)
    if type(evolution) in (Diagonal, DiagonalPlusRankOne):
        sums = parallel.split_resets(evolution.log_decay, -2)

        def written(start: int, stop: int, first: int) -> Tensor:
            return parallel.diagonal_rows(q, k, sums, start, stop)[..., first:]
    else:

        def written(start: int, stop: int, first: int) -> Tensor:
            return q[..., start:stop, :] @ k[..., first:stop, :].mT

    if not erases(dynamics):
        return written
    amounts = parallel.erased_amounts
    if type(evolution) is DiagonalPlusRankOne:
        amounts = parallel.rank_one_amounts
    read, erased = amounts(q, k, evolution)
    return lambda start, stop, first: (
        written(start, stop, first)
        - read[..., start:stop, :stop].tril(start) @ erased[..., :stop, first:stop]
    )


def _tile(
    dynamics: CoefficientDynamics, v: Tensor, raw: RawRows, start: int, stop: int
) -> Float[Tensor, "*batch rows dv"]:
    first = 0 if dynamics.mask is None else max(0, dynamics.mask.first(start) or 0)
    log_weights = parallel.pair_log_weights(dynamics, start, stop)
    outer = parallel.outer_sums(dynamics, start, stop)
    eta, own = dynamics.normalizer.narrow(start, stop - start), dynamics.own
    rows = read(
        raw(start, stop, first),
        None if log_weights is None else log_weights[..., first:],
        allowed(dynamics, start, stop, first),
        dynamics.readout,
        eta,
        None if outer is None else outer[..., first:],
        None if own is None else own[..., start:stop],
    )
    return averaged(rows, v[..., first:stop, :], eta)
