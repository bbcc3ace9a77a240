"""Remaining share of a token in memory, with erasure, and the tokens that erased it.

    survival_{i,j} = |h_{i,j}| / |h_{j,j}|,   h_{i,j} = A_i ... A_{j+1} b_j k_j

A decay gate takes from every stored key alike; a delta rule also takes what lies along the key that
is being written. Gates alone therefore say too long a life wherever keys are overwritten. An outer
decay c, outside phi, is a gate: A_t stands for exp(c_t) A_t.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch

from coefdyn.dynamics.coefficients import CoefficientDynamics
from coefdyn.dynamics.evolution import (
    Dense,
    Diagonal,
    DiagonalPlusRankOne,
    Evolution,
    Householder,
    Identity,
    Scalar,
)
from coefdyn.dynamics.normalizer import One
from coefdyn.execution.reference import evolve
from coefdyn.shapes import Float, Int, Tensor

__all__ = ["Survival", "survival", "without_erasure"]

#: log decay that nothing survives; behind the sum of lower ones the others are lost in rounding
FORGOTTEN = -100.0


@dataclass(frozen=True, kw_only=True, eq=False)
class Survival:
    """Size of each stored key, relative to its size when it was written.

    Attributes:
        size: survival_{i,j}, 0 for i < j, ``(..., L, L)``; row i, column j.
        gates_only: the same with the decay alone, as a map without erasure would claim.
        half_life: tokens until ``size`` is first at most 1/2, infinite where that does not happen,
            ``(..., L)``.
        gates_half_life: the same of ``gates_only``.
        eraser: the step that erased most of token j (its decay aside), -1 where nothing was erased,
            ``(..., L)``.
        erased: how much it took, as a share of what was written, ``(..., L)``.
    """

    size: Float[Tensor, "*batch L L"]
    gates_only: Float[Tensor, "*batch L L"]
    half_life: Float[Tensor, "*batch L"]
    gates_half_life: Float[Tensor, "*batch L"]
    eraser: Int[Tensor, "*batch L"]
    erased: Float[Tensor, "*batch L"]


def without_erasure(dynamics: CoefficientDynamics) -> CoefficientDynamics:
    """The same design with the rank-one part of A_t dropped: gates and scores, nothing else.

    This is what a map from gates and scores alone shows. It is exact where A_t is diagonal.

    Raises:
        ValueError: for a dense A_t, which does not say what is gate and what is erasure.
    """
    return replace(dynamics, evolution=_gates(dynamics.evolution))


def survival(dynamics: CoefficientDynamics) -> Survival:
    """Survival of every token of one layer, computed by the equation, O(L^2 n) per head.

    Raises:
        ValueError: for a dense A_t.
    """
    bare = replace(dynamics, normalizer=One())
    size, gates = _sizes(bare), _sizes(without_erasure(bare))
    before = torch.nn.functional.pad(size[..., :-1, :], (0, 0, 1, 0))
    kept = gates / torch.nn.functional.pad(gates[..., :-1, :], (0, 0, 1, 0), value=1).clamp(1e-30)
    drop = (before * kept - size).tril(-1).clamp(min=0)
    erased, eraser = drop.max(-2)
    return Survival(
        size=size,
        gates_only=gates,
        half_life=_half_life(size),
        gates_half_life=_half_life(gates),
        eraser=torch.where(erased > 1e-6, eraser, torch.full_like(eraser, -1)),
        erased=erased,
    )


def _gates(evolution: Evolution) -> Evolution:
    match evolution:
        case Identity() | Scalar() | Diagonal():
            return evolution
        case Householder():
            if evolution.log_decay is None:
                return Identity()
            return Scalar(log_decay=evolution.log_decay, sign=evolution.sign)
        case DiagonalPlusRankOne():
            return evolution.diagonal_part()
        case Dense():
            raise ValueError(
                "a dense A_t does not say what is decay and what is erasure; "
                "use a structure such as Householder or DiagonalPlusRankOne."
            )
    raise ValueError(f"no rule for the evolution {evolution!r}; use one of coefdyn.evolution.")


def _sizes(dynamics: CoefficientDynamics) -> Float[Tensor, "*batch L L"]:
    """|h_{i,j}| / |h_{j,j}|, in the log where A_t keeps its growth there."""
    rows = []
    for i, stored in enumerate(evolve(dynamics)):
        size = torch.linalg.vector_norm(stored.vectors, dim=-1).clamp(min=1e-30).log()
        size = size if stored.log_weights is None else size + stored.log_weights.to(size.dtype)
        rows.append(torch.nn.functional.pad(size, (0, dynamics.length - 1 - i)))
    logs = torch.stack(rows, -2)
    if dynamics.outer_log_decay is not None:
        logs = logs + dynamics.outer_log_decay.clamp(min=FORGOTTEN).cumsum(-1)[..., :, None]
    return (logs - logs.diagonal(0, -2, -1)[..., None, :]).exp().tril()


def _half_life(size: Float[Tensor, "*batch L L"]) -> Float[Tensor, "*batch L"]:
    length = size.shape[-1]
    steps = torch.arange(length, device=size.device)
    age = (steps[:, None] - steps).to(size.dtype)
    gone = (size <= 0.5) & (age >= 0)
    return torch.where(gone, age, torch.full_like(age, torch.inf)).amin(-2)
