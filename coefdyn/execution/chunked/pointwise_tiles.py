r"""Any pointwise readout, tile by tile: R rows of coefficients at a time, never L x L numbers.

For rows i of one tile and the columns j that a mask lets them read (all j <= i without one), with
D_ij = exp(c_i - c_j), c the sum of a scalar log decay, and W_ij = exp(o_i - o_j + l_j) of what lies
outside phi:

    S = raw scores * D;   P = phi(S - m) * W exp(-w)
    numerator = P V,  total = row sum of P,  offset = m + w

m is the row maximum where phi is exp, w what W has to be divided by where a row would leave the
dtype's range; both are 0 where eta does not cancel them. exp takes the logs of W into S.

Where raw scores come from is the business of a ``Scores`` object, one per structure of A_t. The
backward pass recomputes each tile: dS = phi'(S) W * (dnumerator V^T + dtotal), and the gradient of
c_i is the row sum of dS * S minus the column sum.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple, Protocol, runtime_checkable

import torch

from coefdyn.dynamics.mask import Blocks, Mask
from coefdyn.execution.chunked.readouts import Rule
from coefdyn.execution.chunked.tiles import WIDE
from coefdyn.execution.rows import largest, log_size
from coefdyn.execution.stabilize import RESET
from coefdyn.shapes import Bool, Float, Int, Tensor

__all__ = ["Admitted", "Logs", "Scores", "Tile", "groups", "tiled_backward", "tiled_forward"]

#: nats after which nothing is left of float64, not even of its largest number
VANISHING = -1460.0
#: bytes of the row buffer of one tile; two or three of them are in use at a time
BUFFER_BYTES = 2 * 1024 * 1024


@runtime_checkable
class Scores(Protocol):
    """q_i^T R_i ... R_{j+1} k_j of one group of batch entries, without the scalar decay."""

    def raw(self, start: int, stop: int, first: int) -> Float[Tensor, "g R columns"]:
        """Rows start .. stop - 1 against columns first .. stop - 1; called for increasing rows, and
        ``first``, which begins a tile, never decreases.

        Entries above the diagonal are arbitrary. The result may be overwritten.
        """

    def back(self, grad: Float[Tensor, "g R columns"], start: int, stop: int, first: int) -> None:
        """Add the gradient of the rows that ``raw`` gave last (zeros for pairs that do not
        count)."""


def groups(batch: int, widest: int, rows: int, element: int) -> Iterator[tuple[slice, int]]:
    """(slice of the batch, rows per tile) such that the row buffer stays near BUFFER_BYTES, where a
    tile reads at most ``widest`` columns."""
    while rows > 32 and rows * widest * element > BUFFER_BYTES:
        rows //= 2
    step = max(1, BUFFER_BYTES // (rows * widest * element))
    for start in range(0, batch, step):
        yield slice(start, min(start + step, batch)), rows


class Pairs(NamedTuple):
    """The pairs of one tile that count: as booleans, and as whole numbers of the scores' size all
    of whose bits are set where a pair does."""

    allowed: Bool[Tensor, "*#g R columns"]
    bits: Int[Tensor, "*#g R columns"]


class Admitted(NamedTuple):
    """The pairs of some batch entries that count: causal ones, and of those what a mask says.

    ``batch`` are the leading axes that a mask's own are broadcast to, before they were flattened;
    ``entries`` are the flattened ones at hand. ``last`` holds the last tile's pairs with what they
    depend on, since most tiles of blocks are alike.
    """

    mask: Mask | None
    last: dict[tuple[int, int, int], Pairs]
    batch: tuple[int, ...] = ()
    entries: slice = slice(None)

    def first(self, start: int, rows: int) -> int:
        """The first column that a tile from row ``start`` on reads: a multiple of ``rows``."""
        first = None if self.mask is None else self.mask.first(start)
        return max(0, first or 0) // rows * rows

    def widest(self, rows: int, length: int) -> int:
        """The most columns that a tile reads."""
        return max(min(s + rows, length) - self.first(s, rows) for s in range(0, length, rows))

    def __call__(self, start: int, stop: int, first: int, v: Float[Tensor, "g L dv"]) -> Pairs:
        """Rows start .. stop - 1 against columns first .. stop - 1."""
        if type(self.mask) is not Blocks:
            return self._pairs(start, stop, first, v)
        key = ((start + self.mask.position) % self.mask.size, stop - start, start - first)
        if key not in self.last:
            self.last.clear()
            self.last[key] = self._pairs(start, stop, first, v)
        return self.last[key]

    def _pairs(self, start: int, stop: int, first: int, v: Tensor) -> Pairs:
        ones = torch.ones(stop - start, stop - first, dtype=torch.bool, device=v.device)
        allowed = ones.tril_(start - first)
        if self.mask is not None:
            found = self.mask.rows(start, stop, first, v.device)
            if found.ndim > 2:  # an axis that vmap added lies in front of these
                found = found.expand(*self.batch, *found.shape[-2:]).flatten(0, -3)
                found = found[torch.arange(self.entries.start, self.entries.stop) % found.shape[0]]
            allowed = allowed & found
        return Pairs(allowed, -allowed.to(torch.int64 if v.element_size() == 8 else torch.int32))

    def keep(
        self, x: Float[Tensor, "g R columns"], pairs: Pairs, at: int, log: bool = False
    ) -> Tensor:
        """x with 0, or with -inf, in place, where a pair does not count; the tile's own rows begin
        in column ``at``. Bits, since ``masked_fill_`` takes longer than a product of matrices."""
        own = x if self.mask is not None else x[:, :, at:]
        if self.mask is None:
            own.tril_()
        else:
            own.view(pairs.bits.dtype).bitwise_and_(pairs.bits)
        if log:
            own += pairs.allowed[..., -own.shape[2] :].to(x.dtype).log_()
        return x


class Logs:
    """c_i - c_j + l_j of one group's pairs, tile by tile, from float64 sums; and their gradient.

    Args:
        log_decay: what c sums, or None for 0.
        log_weight: l, or None for 0.
        dtype: of the pairs.
        deep: whether eta cancels the scale of a row, so that only a decay of ``RESET`` leaves
            nothing of it; else one does whose exp is 0.
    """

    def __init__(
        self,
        log_decay: Float[Tensor, "g L"] | None,
        log_weight: Float[Tensor, "g L"] | None,
        dtype: torch.dtype,
        deep: bool,
    ) -> None:
        self.sums, self.resets = None, None
        if log_decay is not None:  # in one sum, a reset would take the digits of all other decays
            reset = log_decay < (RESET if deep else VANISHING)
            self.sums = log_decay.double().masked_fill(reset, 0.0).cumsum(-1)
            self.resets = reset.cumsum(-1) if bool(reset.any()) else None
        self.weight = None if log_weight is None else log_weight.double()
        self.dtype = dtype
        self.dsums = None if log_decay is None else torch.zeros_like(log_decay)
        self.dweight = None if log_weight is None else torch.zeros_like(log_weight)

    def __bool__(self) -> bool:
        """Return whether any of them may differ from 0."""
        return self.sums is not None or self.weight is not None

    def __call__(
        self, start: int, stop: int, first: int, lift: Float[Tensor, "g R"] | None = None
    ) -> Float[Tensor, "g R columns"]:
        """Rows start .. stop - 1 against columns first .. stop - 1, less ``lift`` of their row;
        entries above the diagonal are arbitrary."""
        rows, columns = self._apart(start, stop, first)
        rows = rows if lift is None else rows - lift
        widest = float(rows.abs().amax())
        if self.weight is not None:
            widest = max(widest, float(self.weight[:, first:stop].abs().amax()))
        if widest <= WIDE:  # small numbers lose nothing in float32
            rows, columns = rows.to(self.dtype), columns.to(self.dtype)
        pairs = (rows[:, :, None] - columns[:, None, :]).to(self.dtype)
        return self._parted(pairs, start, stop, first, -torch.inf)

    def weights(
        self, start: int, stop: int, first: int, lift: Float[Tensor, "g R"] | None = None
    ) -> Float[Tensor, "g R columns"]:
        """exp of the same, as a product where neither factor leaves the range."""
        rows, columns = self._apart(start, stop, first)
        rows = rows if lift is None else rows - lift
        low, high = columns.aminmax()
        if max(float(rows.abs().amax()), -float(low), float(high) / 2) <= WIDE:
            rows, columns = rows.exp().to(self.dtype), columns.neg().exp_().to(self.dtype)
            return self._parted(rows[:, :, None] * columns[:, None, :], start, stop, first, 0.0)
        return self(start, stop, first, lift).exp_()

    def _parted(self, pairs: Tensor, start: int, stop: int, first: int, none: float) -> Tensor:
        """The pairs, with ``none``, in place, where a reset lies between the two."""
        if self.resets is None:
            return pairs
        apart = self.resets[:, start:stop, None] != self.resets[:, None, first:stop]
        return pairs.masked_fill_(apart, none)

    def _apart(self, start: int, stop: int, first: int) -> tuple[Tensor, Tensor]:
        """c_i and c_j - l_j, both counted from row ``start``."""
        if self.sums is None:
            columns = -self.weight[:, first:stop]
            return torch.zeros_like(self.weight[:, start:stop]), columns
        at = self.sums[:, start : start + 1]
        rows, columns = self.sums[:, start:stop] - at, self.sums[:, first:stop] - at
        return rows, columns if self.weight is None else columns - self.weight[:, first:stop]

    def doubtful(self, least: float) -> Bool[Tensor, "g L"]:
        """Rows some pair of which weighs less than ``least``, or more than its inverse."""
        sums = torch.zeros_like(self.weight) if self.sums is None else self.sums
        written = -sums if self.weight is None else self.weight - sums
        low, high = sums + written.cummin(-1).values, sums + written.cummax(-1).values
        return (low < math.log(least)) | (high > -math.log(least))

    def back(self, along: Float[Tensor, "g R columns"], start: int, stop: int, first: int) -> None:
        """Add the gradient of the pairs' logs, 0 for pairs that do not count; overwrites it."""
        if self.dweight is not None:
            self.dweight[:, first:stop] += along.sum(1)
        if self.dsums is not None:
            along[:, :, start - first :].tril_(-1)  # a pair (i, i) has no decay: it would cancel
            self.dsums[:, start:stop] += along.sum(2)
            self.dsums[:, first:stop] -= along.sum(1)

    def gradients(self) -> tuple[Tensor | None, Tensor | None]:
        """Of the log decays and of the log weights."""
        found = self.dsums
        if found is not None:
            found = found.double().flip(-1).cumsum(-1).flip(-1).to(found.dtype)
        return found, self.dweight


class Tile(NamedTuple):
    """Rows of the sequence with their numerator and row sum, both known up to
    exp(offset + lift)."""

    rows: slice
    numerator: Float[Tensor, "g R dv"]
    total: Float[Tensor, "g R"]
    offset: Float[Tensor, "g R"] | None
    lift: Float[Tensor, "g R"] | None


def _row_maximum(scores: Float[Tensor, "g R columns"], below: float) -> Float[Tensor, "g R"]:
    """The largest of each row where that is at most ``below``, else 0; -inf for no pair."""
    offset = scores.amax(-1)
    return offset.masked_fill_((offset > below) | (offset == -torch.inf), 0.0)


def _may_shift(scores: Tensor, allowed: Tensor, at: int, below: float) -> bool:
    """Return whether a row's largest score may be at most ``below``; its own (i, i) says if not."""
    if below == torch.inf or not bool(allowed[..., at:].diagonal(dim1=-2, dim2=-1).all()):
        return True
    return bool(scores[:, :, at:].diagonal(dim1=1, dim2=2).amin() <= below)


def tiled_forward(
    scores: Scores,
    rule: Rule,
    v: Float[Tensor, "g L dv"],
    logs: tuple[Logs, Logs],
    admitted: Admitted,
    rows: int,
    cancels: bool,
) -> Iterator[Tile]:
    """Every tile of one group; ``logs`` are those of D and W, ``cancels`` says whether eta takes a
    row's scale out."""
    inside, outside = logs
    least = torch.finfo(v.dtype).tiny ** 0.25
    track = cancels and bool(outside) and not rule.additive
    doubtful = outside.doubtful(least) if track else None
    for start in range(0, v.shape[1], rows):
        stop, first = min(start + rows, v.shape[1]), admitted.first(start, rows)
        here, tile, at = slice(start, stop), (start, stop, first), start - first
        s, pairs = scores.raw(*tile), admitted(*tile, v)
        if inside:
            s.mul_(admitted.keep(inside.weights(*tile), pairs, at))
        if outside and rule.additive:
            s.add_(outside(*tile))
        offset = lift = None
        if cancels and rule.shifts and _may_shift(s, pairs.allowed, at, rule.shift_below):
            offset = _row_maximum(admitted.keep(s, pairs, at, log=True), rule.shift_below)
            s.sub_(offset[..., None])
        faint = offset is not None and rule.shift_below < torch.inf
        p = rule.shifted(s, offset)[0] if faint else rule.value(s)
        if outside and not rule.additive:
            plain, p = p, p * outside.weights(*tile)
        total = admitted.keep(p, pairs, at).sum(-1)
        if doubtful is not None and bool((_lost(total, least) & doubtful[:, here]).any()):
            lift = largest(outside(*tile) + log_size(plain), pairs.allowed)[..., 0]
            p = admitted.keep(plain * outside.weights(*tile, lift), pairs, at)
            total = p.sum(-1)
        yield Tile(here, torch.bmm(p, v[:, first:stop]), total, offset, lift)


def _lost(total: Float[Tensor, "g R"], least: float) -> Bool[Tensor, "g R"]:
    """Row sums that are not finite, or so small that weights may have taken digits of them."""
    return ~total.isfinite() | (total.abs() < least)


def tiled_backward(
    scores: Scores,
    rule: Rule,
    v: Float[Tensor, "g L dv"],
    logs: tuple[Logs, Logs],
    admitted: Admitted,
    rows: int,
    lifts: tuple[Float[Tensor, "g L"], Float[Tensor, "g L"]] | None,
    grads: tuple[Float[Tensor, "g L dv"], Float[Tensor, "g L"]],
    dv: Float[Tensor, "g L dv"],
) -> None:
    """Run every tile of one group backwards; fills dv and the gradients of scores and logs.

    ``lifts`` are the offset and the lift of every row, None where eta takes no scale out.
    """
    inside, outside = logs
    dv.zero_()
    for start in range(0, v.shape[1], rows):
        stop, first = min(start + rows, v.shape[1]), admitted.first(start, rows)
        tile, at, grad = (start, stop, first), start - first, grads[0][:, start:stop]
        s, pairs = scores.raw(*tile), admitted(*tile, v)
        d = w = None
        if inside:
            d = admitted.keep(inside.weights(*tile), pairs, at)
            s.mul_(d)
        kept = s
        m, lift = (None, None) if lifts is None else (x[:, start:stop] for x in lifts)
        if outside and rule.additive:
            s = s + outside(*tile)
        if m is not None and rule.shifts and (rule.shift_below == torch.inf or bool((m < 0).any())):
            s = s.clone() if d is not None and s is kept else s
            admitted.keep(s, pairs, at, log=True).sub_(m[..., None])
            p, slope = rule.shifted(s, m)
        else:
            p, slope = rule.both(s)
        if outside and not rule.additive:
            w = outside.weights(*tile, lift)
            p, slope = p * w, slope * w
        admitted.keep(p, pairs, at)
        dv[:, first:stop].baddbmm_(p.transpose(1, 2), grad)
        ds = torch.bmm(grad, v[:, first:stop].transpose(1, 2))
        ds.add_(grads[1][:, start:stop, None])
        if w is not None:
            outside.back(p * ds, *tile)
        admitted.keep(ds.mul_(slope), pairs, at)
        if outside and rule.additive:
            outside.back(ds.clone(), *tile)
        if d is not None:
            inside.back(admitted.keep(kept.mul_(ds), pairs, at), *tile)
            ds.mul_(d)
        scores.back(ds, *tile)
