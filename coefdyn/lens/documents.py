"""Real tokens of a batch, and each of its sequences alone.

A batch of prompts is padded, and several documents may be packed into one row. What a head does is
a property of one sequence, so the reading instruments look at each alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from coefdyn.dynamics.coefficients import CoefficientDynamics, with_tensors
from coefdyn.dynamics.mask import Given
from coefdyn.shapes import Bool, Int, Tensor

__all__ = [
    "Document",
    "admitted",
    "alone",
    "blocks_of",
    "documents_of",
    "read_segments",
    "refuse_padding",
    "shows_padding",
    "some_heads",
    "tokens_so_far",
]

#: a score with this or less added has no weight beside any other: exp of it is 0
HIDDEN = -1e8


@dataclass(frozen=True)
class Document:
    """One sequence of a batch: tokens ``start`` to ``stop - 1`` of a row."""

    row: int
    start: int
    stop: int

    @property
    def tokens(self) -> slice:
        """Its places in the row."""
        return slice(self.start, self.stop)


def documents_of(segments: Int[Tensor, "B L"]) -> tuple[Document, ...]:
    """The runs of equal numbers other than 0, row by row.

    Raises:
        ValueError: for a number with two runs in one row, such as a masked token amid a sequence.
    """
    found: list[Document] = []
    for row, numbers in enumerate(segments.tolist()):
        start = 0
        for place in range(1, len(numbers) + 1):
            if place == len(numbers) or numbers[place] != numbers[start]:
                if numbers[start]:
                    if numbers[start] in numbers[:start]:
                        raise ValueError(
                            f"row {row} hides tokens amid a sequence (on again at token {start}), "
                            "so its parts are no sequences of their own. Mask tokens at its ends "
                            "only, or read layer.coefficients()."
                        )
                    found.append(Document(row, start, place))
                start = place
    return tuple(found)


def read_segments(given: Mapping[str, Any]) -> Int[Tensor, "B L"] | None:
    """Sequence number of each token, 0 for padding; None where no argument tells sequences apart.

    Read from the arguments of a model: ``attention_mask`` (B, L), of zeros and ones or of the
    numbers of packed documents, or (B, 1, L, L) where it is causal within blocks; ``cu_seqlens``
    (N + 1,) of one packed row; ``position_ids`` (B, L) that start again. One row stands for all.
    """
    mask, lengths = given.get("attention_mask"), given.get("cu_seqlens")
    positions = given.get("position_ids")
    segments = None
    if isinstance(lengths, Tensor):
        places = torch.arange(int(lengths[-1]), device=lengths.device)
        return torch.bucketize(places, lengths.to(places.dtype), right=True)[None]
    if isinstance(mask, Tensor) and mask.ndim == 2:
        segments = mask.long()
    elif isinstance(mask, Tensor) and mask.ndim == 4:
        segments = blocks_of(mask)
    if isinstance(positions, Tensor) and positions.ndim == 2 and positions.shape[-1] > 1:
        again = torch.nn.functional.pad(positions.diff(dim=-1) != 1, (1, 0), value=True)
        if segments is None:
            segments = torch.ones_like(positions)
        if segments.shape[-1] == again.shape[-1]:
            again = again & (segments != 0)
            segments = torch.where(segments != 0, again.cumsum(-1), 0)
    if segments is None or bool((segments == 1).all()):
        return None
    return segments.expand(_rows(given), -1) if len(segments) == 1 else segments


def _rows(given: Mapping[str, Any]) -> int:
    """Rows of the batch: a mask or positions with one row are those of all."""
    ids = given.get("input_ids")
    ids = given.get("inputs_embeds") if ids is None else ids
    named = [] if ids is None else [ids]
    return next(x for x in [*named, *given.values()] if isinstance(x, Tensor) and x.ndim > 1).shape[
        0
    ]


def tokens_so_far(given: Mapping[str, Any]) -> int:
    """Number of tokens of each row, those of a cache among them; 0 where no argument tells it."""
    mask = given.get("attention_mask")
    if isinstance(mask, Tensor) and mask.ndim == 2:
        return mask.shape[-1]
    caches = [value for value in given.values() if hasattr(value, "get_seq_length")]
    new = given.get("input_ids")
    new = given.get("inputs_embeds") if new is None else new
    if not caches or new is None:
        return 0
    try:
        return int(caches[0].get_seq_length()) + new.shape[1]
    except ValueError:  # a cache of states alone, which holds no tokens
        return 0


def admitted(mask: Tensor) -> Bool[Tensor, "*rows"]:
    """Pairs that a mask lets be read: True, or a number that is added and not as low as -1e9."""
    if mask.dtype == torch.bool:
        return mask
    return mask > max(torch.finfo(mask.dtype).min / 2, HIDDEN)


def blocks_of(mask: Tensor) -> Int[Tensor, "B L"] | None:
    """Segments of a mask (B, H, L, L) that is causal within blocks, None for any other."""
    allowed = admitted(mask)[:, 0].tril()
    length = allowed.shape[-1]
    if allowed.shape[-2] != length:
        return None
    starts = allowed.long().argmax(-1)
    place = torch.arange(length, device=mask.device)
    block = (place >= starts[..., None]) & (place <= place[:, None])
    empty = ~allowed.any(-1)
    if bool(((allowed != block) & ~empty[..., None]).any()):
        return None
    fresh = (starts == place) & ~empty
    nested = fresh.gather(-1, starts) | empty
    return torch.where(empty, 0, fresh.cumsum(-1)) if bool(nested.all()) else None


def alone(dynamics: CoefficientDynamics, document: Document) -> CoefficientDynamics:
    """The dynamics of one sequence of a batch (B, H), as (1, H) and as long as it is."""
    picked = _picked(dynamics, 0, [document.row])
    return picked.narrow(document.start, document.stop - document.start)


def some_heads(dynamics: CoefficientDynamics, heads: Sequence[int]) -> CoefficientDynamics:
    """The dynamics of some heads of (B, H), as (B, len(heads))."""
    return _picked(dynamics, 1, heads)


def _picked(dynamics: CoefficientDynamics, axis: int, places: Sequence[int]) -> CoefficientDynamics:
    """Some entries along one of the two leading axes; what is shared along it stays so."""

    def pick(name: str, axes: str, value: Tensor) -> Tensor:
        whole = value.ndim - len(axes) == 2 and value.shape[axis] > 1
        return value[(slice(None),) * axis + (list(places),)] if whole else value

    mask = dynamics.mask
    if mask is not None:
        held = mask.tensors()
        mask = replace(mask, **{name: pick(name, "LL", value) for name, value in held.items()})
    return with_tensors(dynamics, pick, mask=mask)


def shows_padding(dynamics: CoefficientDynamics) -> bool:
    """Return whether a mask shows that some tokens are padding: they are read by no token."""
    if not isinstance(dynamics.mask, Given):
        return False
    allowed = dynamics.mask.rows(0, dynamics.length, 0, dynamics.device).tril()
    unread = ~allowed.any(-2)
    unread[..., -1] &= ~allowed.any(-1)[..., -1]  # the last token has no reader but itself
    return bool(unread.any())


def refuse_padding(dynamics: CoefficientDynamics) -> None:
    """Raise where a mask shows padding.

    Raises:
        ValueError: naming what to hand over instead.
    """
    if shows_padding(dynamics):
        raise ValueError(
            "the mask hides some tokens from all others, as that of a padded batch does, and "
            "means over its rows would count the padding. Pass the layer of the trace instead of "
            "its dynamics."
        )
