r"""A_t = I - beta_t z_t z_t^T inside blocks of C tokens, and the chain rule through them.

With N = tril(beta Z Z^T, -1), F = tril(beta Z K^T, -1) and R = tril(Q Z^T) of one block,

    [Y, E] = (I + N)^-1 [beta Z, F],   P = I - Z^T Y,
    Q' = Q - R Y,   K' = K - E^T Z,   inner = Q K^T - R E:

rows q'_i are queries pulled back to the block's start (the row vector q_i^T A_i ... A_first), rows
k'_j keys carried to its end, P is the whole block, and inner holds the scores of the block's own
pairs. A query of block I meets a key of block J < I as q' P_{I-1} ... P_{J+1} . k'. The systems are
solved by forward substitution, in float32.
"""

from __future__ import annotations

import torch
from torch.nn import functional

from coefdyn.shapes import Float, Tensor

__all__ = ["Blocks"]


def solved(system: Tensor, right: Tensor, turned: bool = False) -> Tensor:
    """(I + tril(system, -1))^-1 right; ``turned``: with the transposed matrix."""
    if turned:
        system = system.mT
    return torch.linalg.solve_triangular(system, right, upper=turned, unitriangular=True)


class Blocks:
    """Q', K', Y and inner of every block, ``(B, T, C, .)`` in float32, and their derivatives.

    Args:
        q, k, z: queries, keys and directions.
        beta: strengths.
        size: C; the last block is filled with zeros, which erase nothing.
    """

    def __init__(
        self,
        q: Float[Tensor, "B L n"],
        k: Float[Tensor, "B L n"],
        z: Float[Tensor, "B L n"],
        beta: Float[Tensor, "B L"],
        size: int,
    ) -> None:
        self.length = q.shape[1]
        self.q, self.k, self.z, strength = (
            functional.pad(x.float(), (0, 0, 0, -self.length % size)).unflatten(1, (-1, size))
            for x in (q, k, z, beta[..., None])
        )
        self.zb = self.z * strength
        self.system = (self.zb @ self.z.mT).tril_(-1)
        right = torch.cat([self.zb, (self.zb @ self.k.mT).tril_(-1)], -1)
        self.y, self.e = solved(self.system, right).split([q.shape[-1], size], -1)
        self.read = (self.q @ self.z.mT).tril_()
        self.strength = strength

    def pulled(self) -> Tensor:
        """Q'."""
        return self.q - self.read @ self.y

    def carried(self) -> Tensor:
        """K'."""
        return self.k - self.e.mT @ self.z

    def inner(self) -> Float[Tensor, "B T C C"]:
        """Scores inside blocks; entries above the diagonal are arbitrary."""
        return self.q @ self.k.mT - self.read @ self.e

    def gradients(
        self, dpulled: Tensor, dcarried: Tensor, dwhole: Tensor, dinner: Tensor
    ) -> tuple[Tensor, ...]:
        """Gradients of (q, k, z, beta) from those of Q', K', Z^T Y and inner."""
        dread = (dpulled @ self.y.mT + dinner @ self.e.mT).neg_().tril_()
        dy = self.z @ dwhole - self.read.mT @ dpulled
        de = -(self.read.mT @ dinner) - self.z @ dcarried.mT
        right = solved(self.system, torch.cat([dy, de], -1), turned=True)
        dzb, dfar = right.split([dy.shape[-1], de.shape[-1]], -1)
        dsystem = (dzb @ self.y.mT + dfar @ self.e.mT).neg_().tril_(-1)
        dfar = dfar.tril(-1)
        dzb = dzb + dsystem @ self.z + dfar @ self.k
        dq = dpulled + dinner @ self.k + dread @ self.z
        dk = dcarried + dinner.mT @ self.q + dfar.mT @ self.zb
        dz = dread.mT @ self.q - self.e @ dcarried + self.y @ dwhole.mT + dsystem.mT @ self.zb
        dz = dz + dzb * self.strength
        dbeta = (dzb * self.z).sum(-1, keepdim=True)
        dq, dk, dz, dbeta = (x.flatten(1, 2)[:, : self.length] for x in (dq, dk, dz, dbeta))
        return dq, dk, dz, dbeta[..., 0]
