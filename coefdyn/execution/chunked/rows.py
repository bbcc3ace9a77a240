"""Pointwise readouts by plain torch, tile by tile of rows: O(L^2) time, few tiles in memory.

For what the hand-written kernel cannot see from flattened scores: a readout with parameters, one
that is not the same for every head, row sums that fade below the dtype's range, and Householder
evolutions that grow. Each tile is a checkpoint: its rows are computed again in the
backward pass.
"""

from __future__ import annotations

from collections.abc import Callable

import torch

from coefdyn.dynamics.coefficients import CoefficientDynamics
from coefdyn.dynamics.evolution import Diagonal, DiagonalPlusRankOne
from coefdyn.execution import parallel
from coefdyn.execution.growth import erases
from coefdyn.execution.problem import flips
from coefdyn.execution.recurrent import checkpointed
from coefdyn.execution.restrictions import allowed
from coefdyn.execution.rows import normalize, read
from coefdyn.shapes import Float, Tensor

__all__ = ["apply_rows"]

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
    values, offset = read(
        raw(start, stop, first),
        None if log_weights is None else log_weights[..., first:],
        allowed(dynamics, start, stop, first),
        dynamics.readout,
        eta,
        None if outer is None else outer[..., first:],
        None if own is None else own[..., start:stop],
    )
    return normalize(values @ v[..., first:stop, :], values.sum(-1, keepdim=True), offset, eta)
