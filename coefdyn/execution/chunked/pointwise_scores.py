"""Raw scores q_i^T A_i ... A_{j+1} k_j for the tiled readouts, one class per structure of A_t."""

from __future__ import annotations

import torch
from torch.nn import functional

from coefdyn.execution.chunked.diagonal import (
    anchored_sums,
    pair_decays,
    pair_scores,
    pair_scores_backward,
)
from coefdyn.execution.stabilize import RESET
from coefdyn.shapes import Float, Tensor

__all__ = ["DiagonalScores", "HouseholderScores", "PlainScores"]

#: blocks of this many tokens sum their pairs directly when decays are too strong for an anchor
LEAF = 4


class PlainScores:
    """A_t = I, or the scalar decay that the caller multiplies in."""

    def __init__(self, q: Float[Tensor, "g L n"], k: Float[Tensor, "g L n"], rows: int) -> None:
        self.q, self.k = q, k
        self.dq: Tensor | None = None

    def raw(self, start: int, stop: int, first: int) -> Tensor:
        return torch.bmm(self.q[:, start:stop], self.k[:, first:stop].transpose(1, 2))

    def back(self, grad: Tensor, start: int, stop: int, first: int) -> None:
        if self.dq is None:
            self.dq, self.dk = torch.empty_like(self.q), torch.zeros_like(self.k)
        self.dq[:, start:stop] = torch.bmm(grad, self.k[:, first:stop])
        self.dk[:, first:stop].baddbmm_(grad.transpose(1, 2), self.q[:, start:stop])


def sums_after(g: Float[Tensor, "*b C n"]) -> Float[Tensor, "*b C n"]:
    """g_{j+1} + ... + g_C at j, added up from the end: no difference of two long sums."""
    return functional.pad(g[..., 1:, :], (0, 0, 0, 1)).flip(-2).cumsum(-2).flip(-2)


def _split(x: Float[Tensor, "N C n"]) -> Tensor:
    """Both halves of every block as blocks of their own, ``(2 N, C / 2, n)``."""
    return x.unflatten(1, (2, -1)).flatten(0, 1)


def _halves(q: Tensor, k: Tensor, g: Tensor) -> tuple[Tensor, Tensor]:
    """Second-half queries back at, and first-half keys carried to, the middle of the block."""
    half = q.shape[1] // 2
    return g[:, half:].cumsum(1).exp(), sums_after(g[:, :half]).exp_()


def lower_scores(q: Tensor, k: Tensor, g: Tensor) -> Float[Tensor, "N C C"]:
    """sum_c q_ic k_jc exp(g_{j+1,c} + ... + g_{i,c}) for j <= i; C a power of two, at least LEAF.

    One anchored product where all exponents are safe, else the block is halved.
    """
    sums, _, safe = anchored_sums(g)
    if safe:
        reach = sums.exp_()
        return torch.bmm(q * reach, (k / reach).transpose(1, 2)).tril_()
    if q.shape[1] <= LEAF:
        return pair_scores(q, k, pair_decays(g.double().clamp(min=RESET).cumsum(1), q.dtype))
    half = q.shape[1] // 2
    reach, fade = _halves(q, k, g)
    out = q.new_zeros(q.shape[0], q.shape[1], q.shape[1])
    out[:, half:, :half] = torch.bmm(q[:, half:] * reach, (k[:, :half] * fade).transpose(1, 2))
    near = lower_scores(_split(q), _split(k), _split(g)).unflatten(0, (-1, 2))
    out[:, :half, :half], out[:, half:, half:] = near[:, 0], near[:, 1]
    return out


def lower_scores_backward(q: Tensor, k: Tensor, g: Tensor, grad: Tensor) -> tuple[Tensor, Tensor]:
    """Gradients of q and k; that of g follows from them (see diagonal.py)."""
    sums, _, safe = anchored_sums(g)
    if safe:
        reach = sums.exp_()
        grad = grad.tril()
        dq = torch.bmm(grad, k / reach).mul_(reach)
        return dq, torch.bmm(grad.transpose(1, 2), q * reach).div_(reach)
    if q.shape[1] <= LEAF:
        wide = g.double().clamp(min=RESET).cumsum(1)
        return pair_scores_backward(q, k, pair_decays(wide, q.dtype), grad)
    half = q.shape[1] // 2
    reach, fade = _halves(q, k, g)
    far = grad[:, half:, :half]
    near = torch.stack([grad[:, :half, :half], grad[:, half:, half:]], 1).flatten(0, 1)
    dq, dk = lower_scores_backward(_split(q), _split(k), _split(g), near)
    dq, dk = dq.reshape(q.shape), dk.reshape(k.shape)
    dq[:, half:] += torch.bmm(far, k[:, :half] * fade).mul_(reach)
    dk[:, :half] += torch.bmm(far.transpose(1, 2), q[:, half:] * reach).mul_(fade)
    return dq, dk


class DiagonalScores:
    """A_t = diag(exp(g_t)): tiles are joined by queries and keys brought to the tile boundary.

    ``fade`` holds, for every earlier key, its decay up to the current tile; it is multiplied by one
    tile's decay at a time, so no long sum is ever subtracted from another.
    """

    def __init__(self, q: Tensor, k: Tensor, g: Float[Tensor, "g L n"], rows: int) -> None:
        self.length, self.rows = q.shape[1], rows
        pad = (0, 0, 0, -q.shape[1] % rows)
        self.q, self.k, self.g = (functional.pad(x, pad) for x in (q, k, g.clamp(min=RESET)))
        tiles = self.g.unflatten(1, (-1, rows))
        sums = tiles.cumsum(2)
        self.reach = sums.exp().flatten(1, 2)
        self.own_fade = sums_after(tiles).exp_().flatten(1, 2)
        self.whole = sums[:, :, -1:].exp()
        self.fade = torch.empty_like(self.k)
        self.inner = self._tiled(lower_scores(*self._blocks())).contiguous()
        self.dq: Tensor | None = None

    def _blocks(self) -> tuple[Tensor, Tensor, Tensor]:
        q, k, g = (x.unflatten(1, (-1, self.rows)).flatten(0, 1) for x in (self.q, self.k, self.g))
        return q, k, g

    def _tiled(self, x: Tensor) -> Tensor:
        return x.unflatten(0, (self.q.shape[0], -1))

    def _advance(self, start: int, first: int) -> None:
        """Bring every earlier key from ``first`` on up to the tile that starts here."""
        if start:
            last = start - self.rows
            self.fade[:, first:last] *= self.whole[:, last // self.rows]
            self.fade[:, last:start] = self.own_fade[:, last:start]

    def raw(self, start: int, stop: int, first: int) -> Tensor:
        self._advance(start, first)
        inner = self.inner[:, start // self.rows, : stop - start, : stop - start]
        self.reached = self.q[:, start:stop] * self.reach[:, start:stop]
        self.faded = self.k[:, first:start] * self.fade[:, first:start]
        return torch.cat([torch.bmm(self.reached, self.faded.transpose(1, 2)), inner], 2)

    def back(self, grad: Tensor, start: int, stop: int, first: int) -> None:
        if self.dq is None:
            self.dq, self.dk = torch.zeros_like(self.q), torch.zeros_like(self.k)
            self.dinner = torch.zeros_like(self.inner)
        far, near = grad.split([start - first, stop - start], 2)
        self.dinner[:, start // self.rows, : stop - start, : stop - start] = near
        self.dq[:, start:stop] = torch.bmm(far, self.faded).mul_(self.reach[:, start:stop])
        dk = torch.bmm(far.transpose(1, 2), self.reached)
        self.dk[:, first:start].addcmul_(dk, self.fade[:, first:start])

    def finish(self) -> tuple[Tensor, Tensor, Tensor]:
        """Gradients of q, k and g; pairs (i, i) have no decay and would cancel in that of g."""
        diagonal = self.dinner.diagonal(dim1=2, dim2=3)
        own = diagonal.flatten(1, 2)[:, : self.length, None].clone()
        diagonal.zero_()
        near = lower_scores_backward(*self._blocks(), self.dinner.flatten(0, 1))
        dq, dk = (
            (far + x.reshape(far.shape))[:, : self.length]
            for far, x in zip((self.dq, self.dk), near, strict=True)
        )
        q, k = self.q[:, : self.length], self.k[:, : self.length]
        sums = (q * dq).sub_(k * dk).double().flip(1).cumsum(1).flip(1).to(dq.dtype)
        return dq.addcmul_(own, k), dk.addcmul_(own, q), sums


class HouseholderScores:
    """A_t = I - beta_t z_t z_t^T: queries are pulled back through whole tiles (PaTH attention).

    Takes, per tile of R tokens, what ``householder_tiles`` computes: queries pulled back to the
    tile's start, keys carried to its end, the tile's whole transition M and its inner scores. Then
    the query of tile t meets the keys of tile c as (q M_{t-1} ... M_{c+1}) . k.
    """

    def __init__(
        self,
        q: Float[Tensor, "g T R n"],
        k: Float[Tensor, "g T R n"],
        whole: Float[Tensor, "g T n n"],
        inner: Float[Tensor, "g T R R"],
    ) -> None:
        self.q, self.k, self.whole, self.inner = q, k, whole, inner
        self.rows = q.shape[2]
        self.dq: Tensor | None = None

    def raw(self, start: int, stop: int, first: int) -> Tensor:
        t, begin, size = start // self.rows, first // self.rows, stop - start
        inner = self.inner[:, t, :size, :size]
        if t == begin:
            return inner.clone()
        pulled = [self.q[:, t, :size]]
        for c in range(t - 1, begin, -1):
            pulled.append(torch.bmm(pulled[-1], self.whole[:, c]))
        self.pulled = torch.stack(pulled[::-1], 1)
        far = torch.matmul(self.pulled, self.k[:, begin:t].transpose(2, 3))
        return torch.cat([far.transpose(1, 2).flatten(2), inner], 2)

    def back(self, grad: Tensor, start: int, stop: int, first: int) -> None:
        if self.dq is None:
            self.dq, self.dk = torch.zeros_like(self.q), torch.zeros_like(self.k)
            self.dwhole, self.dinner = torch.zeros_like(self.whole), torch.zeros_like(self.inner)
        t, begin, size = start // self.rows, first // self.rows, stop - start
        self.dinner[:, t, :size, :size] = grad[:, :, start - first :]
        if t == begin:
            return
        far = grad[:, :, : start - first].unflatten(2, (t - begin, self.rows)).transpose(1, 2)
        self.dk[:, begin:t] += torch.matmul(far.transpose(2, 3), self.pulled)
        direct = torch.matmul(far, self.k[:, begin:t])
        total = direct[:, 0]
        for c in range(begin + 1, t):
            self.dwhole[:, c] += torch.bmm(self.pulled[:, c - begin].transpose(1, 2), total)
            total = torch.baddbmm(direct[:, c - begin], total, self.whole[:, c].transpose(1, 2))
        self.dq[:, t, :size] = total


def householder_tiles(
    q: Float[Tensor, "*b R n"],
    k: Float[Tensor, "*b R n"],
    z: Float[Tensor, "*b R n"],
    beta: Float[Tensor, "*b R"],
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """(pulled queries, carried keys, whole transition, inner scores) of tiles of R tokens.

    With N = tril(beta Z Z^T, -1) and X = (I + N)^-1 [beta Z, tril(beta Z K^T, -1)] = [Y, E]:

        q' = Q - tril(Q Z^T) Y,   k' = K - E^T Z,   M = I - Z^T Y,   inner = Q K^T - tril(Q Z^T) E
    """
    n = q.shape[-1]
    zb = z * beta[..., None]
    overlap = (zb @ z.transpose(-1, -2)).tril(-1)
    right = torch.cat([zb, (zb @ k.transpose(-1, -2)).tril(-1)], -1)
    y, e = torch.linalg.solve_triangular(overlap, right, upper=False, unitriangular=True).split(
        [n, right.shape[-1] - n], -1
    )
    read = (q @ z.transpose(-1, -2)).tril()
    eye = torch.eye(n, dtype=q.dtype, device=q.device)
    return (
        q - read @ y,
        k - e.transpose(-1, -2) @ z,
        eye - z.transpose(-1, -2) @ y,
        q @ k.transpose(-1, -2) - read @ e,
    )
