"""The tokens of a sequence that cut heads hold, and those that the next tokens may read.

Cut heads hold two blocks of rows: the first s tokens of each sequence, once they have left the
second block, and the last w tokens. Before anything is dropped the second block has all of them.
Padding is none of the first tokens, so a row of a padded batch may have fewer in its first block;
such a place is held, and hidden.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import torch
from torch.nn import functional

from coefdyn.lens.adapters.base import Refused
from coefdyn.lens.documents import admitted
from coefdyn.shapes import Bool, Float, Int, Tensor

__all__ = ["Part", "Places"]

#: new tokens whose cut heads attend together: a mask takes BLOCK (BLOCK + s + w) pairs
BLOCK = 512


@dataclass(frozen=True, kw_only=True, eq=False)
class Part:
    """Some new tokens of a pass.

    Attributes:
        rows: which of the new tokens.
        mask: of these queries on the rows that are held and the new ones, as the attention function
            takes it; None where they may read all.
        keep: the rows that are held afterwards, of those before and the new ones.
        first: whether rows are dropped before the queries read, which none of them may.
    """

    rows: slice
    mask: Tensor | None
    keep: Callable[[Tensor], Tensor]
    first: bool


@dataclass(frozen=True, kw_only=True, eq=False)
class Places:
    """Places of the tokens that cut heads hold. Layers with equal places share one object.

    Attributes:
        sink, window: s and w; a window of None where no head is cut.
        own: window of the model's own mask in these layers, None for the whole past.
        tokens: read so far, padding among them.
        start: place of the first token of the second block.
        block: rows of the first block, 0 before anything is dropped.
        early: places of the first block, -1 where there is no such token yet; None for the places
            0 to ``block`` - 1.
        real: False for padding; None where there is none.
    """

    sink: int
    window: int | None
    own: int | None = None
    tokens: int = 0
    start: int = 0
    block: int = 0
    early: Int[Tensor, "B block"] | None = None
    real: Bool[Tensor, "B tokens"] | None = None

    @cached_property
    def _asked(self) -> dict[str, tuple[tuple[Any, ...], Any]]:
        return {}

    def _once(self, what: str, given: tuple[Any, ...], make: Callable[[], Any]) -> Any:
        """The answer to a question that each layer asks, made for the first of them."""
        asked = self._asked.get(what)
        if asked is None or not all(map(_is_same, asked[0], given)):
            asked = self._asked[what] = (given, make())
        return asked[1]

    def __deepcopy__(self, _: Any) -> Places:
        return self

    @property
    def rooms(self) -> tuple[int, int]:
        """Most rows of the first block and of the second."""
        if self.window is None:
            return 0, self.tokens if self.own is None else self.own
        if self.own is not None and self.sink + self.window >= self.own:
            return 0, self.own
        return self.sink, self.window

    def columns(self, new: int) -> int:
        """Columns of the model's own mask: the tokens that the own window admits, and new ones."""
        return new + (self.tokens if self.own is None else min(self.tokens, self.own - 1))

    def step(
        self, query: Float[Tensor, "B H new n"], mask: Tensor | None, recording: bool
    ) -> tuple[list[Part], Places]:
        """Return what the new tokens of a pass read, and the places after them.

        Args:
            query: of the new tokens.
            mask: the model's own, ``(B, 1, new, columns)``, as transformers makes it.
            recording: drop nothing until the cache is cropped.

        Raises:
            ValueError: for a mask that hides anything but padding, tokens to come, and what lies
                behind the own window; and one that has forgotten the padding of an earlier pass.
        """
        given = (mask, recording, query.shape[2], query.device, query.dtype)
        return self._once("step", given, lambda: self._step(query, mask, recording))

    def _step(
        self, query: Tensor, mask: Tensor | None, recording: bool
    ) -> tuple[list[Part], Places]:
        new = query.shape[2]
        real = self._real(mask, query.shape[0], new)
        parts, at = [], self
        for begin in range(0, new, BLOCK):
            rows = slice(begin, min(begin + BLOCK, new))
            tokens = self.tokens + rows.stop
            said = None if real is None else real[:, :tokens]
            given = None if mask is None else mask[:, :, rows]
            here = replace(at, tokens=tokens, real=said)
            if given is not None:
                here.check_mask(given, self.tokens + new)
            after, keep = (here, _all) if recording else here.dropped()
            first = rows.stop - begin == 1
            held = after if first else here
            own = held.own_columns(given, self.tokens + new)
            may = held.mask(query[:, :, rows], own)
            parts.append(Part(rows=rows, mask=may, keep=keep, first=first))
            at = after
        return parts, at

    def _real(self, mask: Tensor | None, batch: int, new: int) -> Tensor | None:
        """False for padding among all tokens; a token that may not read itself is padding."""
        if mask is None:
            if new > 1 and self.tokens:
                raise Refused(f"{new} tokens behind {self.tokens} came without a mask.")
            if self.real is not None:
                raise Refused(OTHER_MASK)
            return None
        columns = self.columns(new)
        if mask.ndim != 4 or mask.shape[1] != 1 or mask.shape[-2:] != (new, columns):
            raise Refused(
                f"a mask of shape {tuple(mask.shape)} is not one for all heads of {new} tokens "
                f"that read {columns}, (B, 1, {new}, {columns})."
            )
        own = admitted(mask)[:, 0].diagonal(columns - new, -2, -1).expand(batch, -1)
        if self.real is None and bool(own.all()):
            return None
        before = self.real
        if before is None:
            before = own.new_ones(batch, self.tokens)
        return torch.cat([before, own], -1)

    def check_mask(self, mask: Tensor, tokens: int) -> None:
        """Raise where a mask hides something from the last rows that these places do not know.

        Args:
            mask: rows of these last tokens, ``(B, 1, rows, columns)``.
            tokens: of which the last column is the last.
        """
        rows, columns = mask.shape[-2:]
        place = torch.arange(tokens - columns, self.tokens, device=mask.device)
        query = torch.arange(self.tokens - rows, self.tokens, device=mask.device)[:, None]
        expected = (place <= query)[None]
        if self.own is not None:
            expected = expected & (query - place < self.own)
        said = admitted(mask)[:, 0]
        if self.real is not None:  # a row of padding may hide or show anything
            expected = expected & self.real[:, None, tokens - columns :]
            said = said & self.real[:, -rows:, None]
            expected = expected & self.real[:, -rows:, None]
        expected = functional.pad(expected, (0, columns - len(place)))
        if bool((said != expected).any()):
            raise Refused(OTHER_MASK)

    def own_columns(self, mask: Tensor | None, tokens: int) -> Tensor | None:
        """The model's own mask on the rows that are held."""
        if mask is None:
            return None
        place = (self._held(mask.device) - (tokens - mask.shape[-1])).clamp(min=0)
        return torch.take_along_dim(mask, place[:, None, None, :], -1)

    def _held(self, device: torch.device) -> Int[Tensor, "#B held"]:
        """Places of the rows that are held, -1 for none."""
        early, late = self._early(device), torch.arange(self.start, self.tokens, device=device)
        return torch.cat([early, late.expand(len(early), -1)], -1)

    def _early(self, device: torch.device) -> Int[Tensor, "#B block"]:
        return torch.arange(self.block, device=device)[None] if self.early is None else self.early

    def mask(self, query: Tensor, own: Tensor | None) -> Tensor | None:
        """Return the held rows that the last tokens may read, these among them; None for all."""
        new, device = query.shape[2], query.device
        if self.window is None:
            return None
        held = self.block + self.tokens - self.start
        if own is None and new == 1 and self.own is None and held <= self.sink + self.window:
            return None
        place = self._held(device)[:, None]
        at = torch.arange(self.tokens - new, self.tokens, device=device)[:, None]
        may = (place >= 0) & (place <= at)
        if self.own is not None:
            may &= at - place < self.own
        is_early = place < self.sink
        if self.real is not None:
            rank = self.real & (self.real.cumsum(-1) <= self.sink)
            is_early = rank.gather(-1, place[:, 0].clamp(min=0).expand(len(rank), -1))[:, None]
        may = (may & ((at - place < self.window) | is_early))[:, None]
        if own is not None and own.dtype == torch.bool:
            return own & may
        own = query.new_zeros(()) if own is None else own
        return torch.where(may, own, torch.finfo(own.dtype).min)

    def dropped(self) -> tuple[Places, Callable[[Tensor], Tensor]]:
        """The places without the rows that no later token reads, and the rows that stay."""
        return self._once("dropped", (), self._dropped)

    def _dropped(self) -> tuple[Places, Callable[[Tensor], Tensor]]:
        first, last = self.rooms
        if self.block + self.tokens - self.start <= first + last:
            return self, _all
        start = self.tokens - last
        gone = self.block + start - self.start
        early = order = None
        if self.real is not None and first:
            device = self.real.device
            place = self._held(device)[:, :gone].expand(len(self.real), -1)
            there = (place >= 0) & self.real.gather(-1, place.clamp(min=0))
            order = there.int().argsort(dim=-1, descending=True, stable=True)[:, :first]
            early = place.gather(-1, order).masked_fill(~there.gather(-1, order), -1)

        def keep(rows: Tensor) -> Tensor:
            late = rows[:, :, gone:]
            if not first:
                return late.clone()
            if order is None:
                return torch.cat([rows[:, :, :first], late], 2)
            chosen = order[:, None, :, None].expand(-1, rows.shape[1], -1, rows.shape[-1])
            return torch.cat([rows.gather(2, chosen), late], 2)

        return replace(self, start=start, block=first, early=early), keep

    def cropped(self, count: int) -> Places:
        """The places without the last ``count`` tokens.

        Raises:
            ValueError: where a token to come would read what has been dropped.
        """
        tokens, most = self.tokens - count, self.tokens
        if self.start:
            most = max(0, self.tokens + 1 - self.start - self.rooms[1])
        if count > most:
            raise Refused(
                f"{count} of {self.tokens} tokens cannot be taken back: at most {most} can, as cut "
                "heads have let go of what would be read then. Call activate_past_recording() "
                "before the tokens that may be taken back, or copy the cache there (copy.deepcopy)."
            )
        real = None if self.real is None else self.real[:, :tokens]
        return self._once("cropped", (count,), lambda: replace(self, tokens=tokens, real=real))

    def picked(self, index: Int[Tensor, " rows"]) -> Places:
        """Those of some rows of the batch."""
        if self.real is None and self.early is None:
            return self
        return self._once("picked", (index,), lambda: self._picked(index))

    def _picked(self, index: Tensor) -> Places:
        real, early = (x if x is None else x[index.to(x.device)] for x in (self.real, self.early))
        return replace(self, real=real, early=early)


OTHER_MASK = (
    "the mask is not that of one sequence per row: it hides more than padding and tokens to come, "
    "as packed documents and blocks do, or shows other padding among earlier tokens than when they "
    "came. Hand over attention_mask of all tokens so far in every pass."
)


def _all(rows: Tensor) -> Tensor:
    return rows


def _is_same(mine: Any, other: Any) -> bool:
    return mine is other if isinstance(mine, Tensor) else mine == other
