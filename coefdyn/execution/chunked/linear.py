"""Linear readouts: a chunked scan per structure, from the lowered problem to its o and S_L."""

from __future__ import annotations

from math import prod

from coefdyn.dynamics.coefficients import CoefficientDynamics
from coefdyn.dynamics.evolution import (
    Diagonal,
    DiagonalPlusRankOne,
    Evolution,
    Householder,
    Identity,
    Scalar,
)
from coefdyn.execution.chunked import diagonal_tokens
from coefdyn.execution.chunked.diagonal import diagonal_kernel
from coefdyn.execution.chunked.diagonal_tokens import diagonal_tokens_kernel
from coefdyn.execution.chunked.householder import householder_kernel
from coefdyn.execution.chunked.householder_general import householder_general_kernel
from coefdyn.execution.chunked.operators import Kernel, flatten_batch
from coefdyn.execution.chunked.rank_one import rank_one_kernel
from coefdyn.execution.chunked.scalar import scalar_kernel
from coefdyn.execution.growth import reflects
from coefdyn.execution.problem import (
    Problem,
    decays,
    finish,
    flipped_sides,
    flips,
    lower,
    per_channel,
)
from coefdyn.execution.state import LinearState
from coefdyn.shapes import Float, Tensor

__all__ = ["KERNELS", "linear_scan"]

#: structure -> kernel. Householder evolutions have two: erasing along the key is the cheaper case
KERNELS: dict[type[Evolution], Kernel] = {
    Identity: scalar_kernel,
    Scalar: scalar_kernel,
    Diagonal: diagonal_kernel,
    Householder: householder_general_kernel,
    DiagonalPlusRankOne: rank_one_kernel,
}
#: fewest heads of a group that have one q and k in memory; with less, tiles would be too small
SHARED = 4


def linear_scan(
    dynamics: CoefficientDynamics,
    v: Float[Tensor, "*batch L dv"],
    state: LinearState | None,
    chunk: int,
) -> tuple[Tensor, LinearState]:
    """y of these tokens and the state after them."""
    problem, sign = lower(dynamics, v, state), flips(dynamics.evolution)
    if sign is not None:
        problem = problem._replace(q=problem.q * sign, k=problem.k * sign)
    out, final = _scan(dynamics, problem, chunk)
    out, final = (x.reshape(*problem.batch, *x.shape[1:]) for x in (out, final))
    if sign is not None:  # S_L = (s_1 ... s_L) S'_L
        final = final * sign[..., -1, :, None]
    return finish(dynamics, problem, out, final)


def _scan(dynamics: CoefficientDynamics, problem: Problem, chunk: int) -> tuple[Tensor, Tensor]:
    """Flatten the leading axes and call the kernel of the structure."""
    evolution, (weight, scale, shift, _) = dynamics.evolution, problem.gates

    def flat(x: Tensor | None, trailing: int) -> Tensor | None:
        return None if x is None else flatten_batch(x, problem.batch, trailing)

    g = decays(evolution, shift, dynamics.dtype)
    axes = 2 if per_channel(evolution) else 1
    v = flatten_batch(problem.v, problem.batch, 2)
    rest = (flat(weight, 1), flat(g, axes), flat(problem.start, 2))
    groups = groups_of(problem)
    shared = [flatten_batch(x, groups, 2) for x in (problem.q, problem.k)]
    if type(evolution) is Diagonal and diagonal_tokens.pays(v):
        return diagonal_tokens_kernel(*shared, v, *rest, scale)[:2]
    if type(evolution) is Scalar and v.shape[0] >= SHARED * prod(groups) > 0:
        return scalar_kernel(*shared, v, *rest, chunk, scale)
    tensors = [flat(problem.q, 2), flat(problem.k, 2), v]
    kernel = KERNELS[type(evolution)]
    if reflects(dynamics):
        if evolution.direction is dynamics.k:
            kernel = householder_kernel
        else:
            tensors.append(flat(evolution.direction, 2))
        tensors.append(flat(evolution.beta, 1))
    if type(evolution) is DiagonalPlusRankOne:
        left, right = flipped_sides(evolution)
        right = right if shift is None else right * shift.exp()[..., None].to(right.dtype)
        tensors += [flat(left, 2), flat(right, 2)]
    return kernel(*tensors, *rest, chunk, scale)


def groups_of(problem: Problem) -> tuple[int, ...]:
    """The leading axes, 1 in place of the last one where q and k are the same along it."""
    along = [x.shape[-3] if x.ndim > 2 else 1 for x in (problem.q, problem.k)]
    return (*problem.batch[:-1], 1) if along == [1, 1] else problem.batch
