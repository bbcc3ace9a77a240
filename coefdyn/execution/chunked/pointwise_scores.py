"""Raw scores q_i^T A_i ... A_{j+1} k_j for the tiled readouts, one class per structure of A_t."""

from __future__ import annotations

import torch
from torch.nn import functional

from coefdyn.execution.chunked.diagonal import anchored_sums
from coefdyn.execution.stabilize import RESET
from coefdyn.shapes import Float, Tensor

__all__ = ["DiagonalScores", "PlainScores", "RankOneScores"]


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
    """sum_c q_ic k_jc exp(g_{j+1,c} + ... + g_{i,c}) for j <= i; C a power of two.

    One anchored product where all exponents are safe, else the block is halved.
    """
    sums, _, safe = anchored_sums(g)
    if safe:
        reach = sums.exp_()
        return torch.bmm(q * reach, (k / reach).transpose(1, 2)).tril_()
    if q.shape[1] == 1:
        return torch.bmm(q, k.transpose(1, 2))
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
    if q.shape[1] == 1:
        return grad * k, grad * q
    half = q.shape[1] // 2
    reach, fade = _halves(q, k, g)
    far = grad[:, half:, :half]
    near = torch.stack([grad[:, :half, :half], grad[:, half:, half:]], 1).flatten(0, 1)
    dq, dk = lower_scores_backward(_split(q), _split(k), _split(g), near)
    dq, dk = dq.reshape(q.shape), dk.reshape(k.shape)
    dq[:, half:] += torch.bmm(far, k[:, :half] * fade).mul_(reach)
    dk[:, :half] += torch.bmm(far.transpose(1, 2), q[:, half:] * reach).mul_(fade)
    return dq, dk


def _blocks(x: Float[Tensor, "g L n"], rows: int) -> Float[Tensor, "g T R n"]:
    """Tiles of R tokens, the last one filled up with zeros."""
    short = -x.shape[1] % rows
    x = functional.pad(x, (0, 0, 0, short)) if short else x
    return x.unflatten(1, (-1, rows))


class DiagonalScores:
    """A_t = diag(exp(g_t)): queries meet keys at the tile of the queries.

    With l the inclusive sum of g in a tile, T its total and an anchor a, queries are kept as
    q e^{l - a} and keys as k e^{a - l}. Where all exponents are safe (see diagonal.py) a = T / 2,
    and the scores inside a tile are their product too; else a is 0 for queries and T for keys, and
    those scores are summed apart. ``carried`` brings every earlier tile's keys to the current one;
    it is multiplied by one tile's decay at a time, so no long sum is ever subtracted from another.
    """

    def __init__(self, q: Tensor, k: Tensor, g: Float[Tensor, "g L n"], rows: int) -> None:
        self.length, self.rows = q.shape[1], rows
        self.blocks = q, k, g = tuple(_blocks(x, rows) for x in (q, k, g))
        sums, half, safe = anchored_sums(g.flatten(0, 1))
        sums, half = sums.view_as(g), half.unflatten(0, g.shape[:2])
        self.inner: Tensor | None = None
        if safe:
            self.whole, self.half = (2 * half).exp_(), half.exp_()
            self.reach = sums.exp_()
            self.fade = self.reach.reciprocal()
        else:
            g = g.clamp(min=RESET)
            self.blocks, sums = (q, k, g), g.cumsum(2)
            self.whole, self.half = sums[:, :, -1:].exp(), torch.ones_like(half)
            self.reach, self.fade = sums.exp_(), sums_after(g).exp_()
            self.inner = lower_scores(*self._flat()).unflatten(0, g.shape[:2])
        self.q, self.k = q * self.reach, k * self.fade
        self.carried = torch.empty_like(half)
        self.dq: Tensor | None = None

    def _flat(self) -> tuple[Tensor, ...]:
        return tuple(x.flatten(0, 1) for x in self.blocks)

    def raw(self, start: int, stop: int, first: int) -> Tensor:
        t, begin, size = start // self.rows, first // self.rows, stop - start
        if t:
            self.carried[:, begin : t - 1] *= self.whole[:, t - 1 : t]
            self.carried[:, t - 1] = self.half[:, t - 1]
        self.factor = self.carried[:, begin : t + 1] * self.half[:, t : t + 1]
        self.factor[:, -1] = 1.0
        self.keys = (self.k[:, begin : t + 1] * self.factor).flatten(1, 2)[:, : stop - first]
        scores = torch.bmm(self.q[:, t, :size], self.keys.transpose(1, 2))
        if self.inner is not None:
            scores[:, :, start - first :] = self.inner[:, t, :size, :size]
        return scores

    def back(self, grad: Tensor, start: int, stop: int, first: int) -> None:
        t, begin, size = start // self.rows, first // self.rows, stop - start
        if self.dq is None:
            self.dq, self.dk = torch.zeros_like(self.q), torch.zeros_like(self.k)
            self.own = torch.zeros_like(self.q[..., :1])
            self.dinner = None if self.inner is None else torch.zeros_like(self.inner)
        near = grad[:, :, start - first :]
        own = near.diagonal(dim1=1, dim2=2)
        self.own[:, t, :size, 0] = own
        own.zero_()
        if self.dinner is not None:
            self.dinner[:, t, :size, :size] = near
            near.zero_()
        self.dq[:, t, :size] = torch.bmm(grad, self.keys)
        dk = torch.bmm(grad.transpose(1, 2), self.q[:, t, :size])
        dk = functional.pad(dk, (0, 0, 0, self.rows - size)).unflatten(1, (-1, self.rows))
        self.dk[:, begin : t + 1].addcmul_(dk, self.factor)

    def finish(self) -> tuple[Tensor, Tensor, Tensor]:
        """Gradients of q, k and g; pairs (i, i) have no decay and would cancel in that of g."""
        q, k, _ = self.blocks
        dq, dk = self.dq.mul_(self.reach), self.dk.mul_(self.fade)
        if self.dinner is not None:
            near = lower_scores_backward(*self._flat(), self.dinner.flatten(0, 1))
            dq, dk = (x.add_(y.view_as(x)) for x, y in zip((dq, dk), near, strict=True))
        terms = (q * dq).addcmul_(k, dk, value=-1)
        later = sums_after(terms.sum(2, dtype=torch.float64)).to(dq.dtype)
        dg = terms.flip(2).cumsum_(2).flip(2).add_(later[:, :, None])
        dq, dk = dq.addcmul_(self.own, k), dk.addcmul_(self.own, q)
        return tuple(x.flatten(1, 2)[:, : self.length] for x in (dq, dk, dg))


class RankOneScores:
    """An A_t that erases: queries are pulled back through whole tiles (PaTH attention).

    Takes, per tile of R tokens, what ``rank_one_tiles`` computes: queries pulled back to the
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
        self.pulled = [self.q[:, t, :size]] if t > begin else []
        for c in range(t - 1, begin, -1):
            self.pulled.append(torch.bmm(self.pulled[-1], self.whole[:, c]))
        self.pulled.reverse()
        far = (torch.bmm(q, self.k[:, begin + i].mT) for i, q in enumerate(self.pulled))
        return torch.cat([*far, self.inner[:, t, :size, :size]], 2)

    def back(self, grad: Tensor, start: int, stop: int, first: int) -> None:
        if self.dq is None:
            self.dq, self.dk = torch.zeros_like(self.q), torch.zeros_like(self.k)
            self.dwhole, self.dinner = torch.zeros_like(self.whole), torch.zeros_like(self.inner)
        t, begin, size = start // self.rows, first // self.rows, stop - start
        self.dinner[:, t, :size, :size] = grad[:, :, start - first :]
        total = None
        for c in range(begin, t):
            far = grad[:, :, (c - begin) * self.rows : (c - begin + 1) * self.rows]
            q = self.pulled[c - begin]
            self.dk[:, c] += torch.bmm(far.mT, q)
            direct = torch.bmm(far, self.k[:, c])
            if total is not None:
                self.dwhole[:, c] += torch.bmm(q.mT, total)
                direct.baddbmm_(total, self.whole[:, c].mT)
            total = direct
        if total is not None:
            self.dq[:, t, :size] = total
