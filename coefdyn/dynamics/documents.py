r"""Documents: sequences of different lengths in one tensor, packed or padded, in O(L) memory.

A document that begins at token s keeps nothing of what stands before it:

    alpha_{i,j} = 0 for j < s <= i

Packed documents follow one another along the axis of tokens; padded ones have a row each, filled up
on the left or on the right. A start is a factor of 0 outside phi (a low ``outer_log_decay``), so
that every method, row sum and state takes it, in O(L) memory. A run of padding is a document of its
own, which no token reads.

    packed(cu_seqlens, length)  -- starts -->  apart(dynamics, starts).apply(v)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import torch

from coefdyn.dynamics.checks import can_read
from coefdyn.dynamics.coefficients import CoefficientDynamics
from coefdyn.shapes import Bool, Float, Int, Tensor

__all__ = ["Documents", "NoDocuments", "apart", "find", "packed", "padded"]

#: nats at a start: exp of it is 0 in every dtype, and sums of some hundred keep their digits
RESET = -1500.0
#: the same where eta cancels the scale of a row, whose largest entry may then be small
DEEP = -2e4


class NoDocuments(ValueError):
    """A mixer that cannot tell documents apart was asked to."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Documents:
    """First tokens of documents, and the position of every token within its document.

    Attributes:
        starts: ``(..., L)``, True at the first token of a document.
        positions: ``(..., L)``, from 0 at the first token of each document; 0 for padding.
        following: ``(...)``, the position of a token that comes next; 0 after padding, below 0 if
            tokens stand before that padding, which cannot be continued.
        real: ``(..., L)``, False for padding; None where there is none.
    """

    starts: Bool[Tensor, "*batch L"]
    positions: Int[Tensor, "*batch L"]
    following: Int[Tensor, "*batch"]
    real: Bool[Tensor, "*batch L"] | None = None

    def kept(self) -> Bool[Tensor, "*batch L"]:
        """True where a token still sees the tokens before this piece."""
        return self.starts.cumsum(-1) == 0

    def after(self) -> Int[Tensor, "*batch"]:
        """The positions of the next tokens, for a state that is continued.

        Raises:
            ValueError: for padding on the right of tokens: a state cannot step over it.
        """
        ended = self.following < 0
        if can_read(ended) and bool(ended.any()):
            raise ValueError(
                "padding stands on the right of tokens that are to be continued, and the state "
                "cannot step back over it: pad on the left."
            )
        return self.following.clamp(min=0)

    def last(self) -> Bool[Tensor, "*batch L"]:
        """True for the tokens of the sequence's last document."""
        begun = self.starts.cumsum(-1)
        return begun == begun[..., -1:]

    def without_padding(self, x: Float[Tensor, "*batch L d"]) -> Float[Tensor, "*batch L d"]:
        """x with 0 for padding: whatever stands there, a NaN too, then reaches no token."""
        return x if self.real is None else x.masked_fill(~self.real[..., None], 0.0)


def packed(
    cu_seqlens: Tensor,
    length: int,
    position: Int[Tensor, "*batch"] | None = None,
) -> Documents:
    """Documents concatenated along the axis of tokens.

    Args:
        cu_seqlens: where each begins, and the end: whole numbers that rise from 0 and not beyond
            ``length``. A document may be empty; what follows the last one is padding.
        length: L.
        position: of the first token in a document that an earlier piece began; None for none.

    Raises:
        ValueError: for boundaries that do not begin at 0, fall, or lie beyond L.
    """
    whole = isinstance(cu_seqlens, Tensor) and cu_seqlens.dtype in (torch.int32, torch.int64)
    if not whole or cu_seqlens.ndim != 1 or len(cu_seqlens) < 2:
        got = type(cu_seqlens).__name__
        if isinstance(cu_seqlens, Tensor):
            got = f"{cu_seqlens.dtype} {tuple(cu_seqlens.shape)}"
        raise ValueError(
            "cu_seqlens must hold the boundaries of the documents, whole numbers (documents + 1,) "
            f"from 0 to at most L={length}, int32 or int64, got {got}."
        )
    if can_read(cu_seqlens):
        rises = bool((cu_seqlens.diff() >= 0).all())
        if not rises or int(cu_seqlens[0]) != 0 or int(cu_seqlens[-1]) > length:
            raise ValueError(
                f"cu_seqlens must rise from 0 to at most the number of tokens, L={length}, got "
                f"{_short(cu_seqlens.tolist())}."
            )
    index = torch.arange(length, device=cu_seqlens.device)
    which = torch.searchsorted(cu_seqlens[1:].contiguous(), index, right=True)
    begins = cu_seqlens.to(index)[which]
    positions, real = index - begins, index < cu_seqlens[-1]
    before = cu_seqlens[-1] > 0
    if position is not None:
        positions = torch.where(which == 0, positions + position[..., None], positions)
        before = before | (position > 0)
    starts, positions = (positions == 0), positions.masked_fill(~real, 0)
    following = torch.where(real[-1], positions[..., -1] + 1, -before.long())
    filled = can_read(real) and bool(real[-1])
    return Documents(
        starts=starts, positions=positions, following=following, real=None if filled else real
    )


def padded(attention_mask: Tensor, position: Int[Tensor, "*batch"] | None = None) -> Documents:
    """One document per row, padded on the left or on the right.

    Args:
        attention_mask: ``(..., L)``, 1 or True for a token, 0 or False for padding.
        position: of the first token in a document that an earlier piece began; 0 for a row that
            held nothing but padding so far, None for the first piece.

    Raises:
        ValueError: for other numbers, or padding between the tokens of a row.
    """
    if not isinstance(attention_mask, Tensor) or attention_mask.ndim == 0:
        got = tuple(attention_mask.shape) if isinstance(attention_mask, Tensor) else "no tensor"
        raise ValueError(
            f"attention_mask must be a tensor (..., L), 1 for a token and 0 for padding, got {got}."
        )
    if can_read(attention_mask) and bool(((attention_mask != 0) & (attention_mask != 1)).any()):
        raise ValueError(
            "attention_mask must hold 1 (a token) and 0 (padding) only; an additive mask of 0 and "
            "-inf becomes one by mask == 0."
        )
    real = attention_mask.bool()
    seen = torch.zeros_like(real[..., 0]) if position is None else position > 0
    before = torch.cat([seen[..., None], real[..., :-1]], dim=-1)
    count = real.long().cumsum(-1)
    if position is not None:
        count = count + position[..., None]
    resumed = real & ~before & (count > 1)
    if can_read(resumed) and bool(resumed.any()):
        raise ValueError(
            "attention_mask has padding between the tokens of a row: pad on the left or on the "
            "right only (several documents in a row are packed, see cu_seqlens)."
        )
    positions = torch.where(real, count - 1, 0)
    following = torch.where(real[..., -1], count[..., -1], -count[..., -1])
    starts = real != before  # a run of padding is one document
    starts[..., 0] = ~seen | ~real[..., 0]
    return Documents(starts=starts, positions=positions, following=following, real=real)


def find(
    shape: Sequence[int],
    device: torch.device,
    position: Tensor | None,
    attention_mask: Tensor | None,
    cu_seqlens: Tensor | None,
) -> Documents:
    """The documents of tokens of ``shape`` (..., L).

    Raises:
        ValueError: for a mask that does not fit, or contradicts the boundaries; for positions of
            other sequences; for no tokens.
    """
    shape = tuple(shape)
    if shape[-1] == 0:
        raise ValueError(f"there are no tokens to mask or to pack, {shape}; give at least one.")
    if position is not None and tuple(position.shape) != shape[:-1]:
        raise ValueError(
            f"the state was made for leading axes {tuple(position.shape)}, these tokens have "
            f"{shape[:-1]}. Start again with state=None, or give tokens of the sequences that the "
            "state has seen."
        )
    if cu_seqlens is not None:
        if prod(shape[:-1]) != 1:
            raise ValueError(
                "cu_seqlens packs documents along one sequence: x must be (L, d_model) or "
                f"(1, L, d_model), got leading axes {shape[:-1]}; use attention_mask for a batch."
            )
        cu_seqlens = torch.as_tensor(cu_seqlens, device=device)
        found = packed(cu_seqlens, shape[-1], None if position is None else position.reshape(()))
        if attention_mask is not None:
            _agree(torch.as_tensor(attention_mask, device=device), found, shape)
        return Documents(
            starts=found.starts.expand(shape),
            positions=found.positions.expand(shape),
            following=found.following.expand(shape[:-1]),
            real=None if found.real is None else found.real.expand(shape),
        )
    if attention_mask is None:
        attention_mask = torch.ones(shape, dtype=torch.bool)
    attention_mask = torch.as_tensor(attention_mask, device=device)
    if tuple(attention_mask.shape) != shape:
        raise ValueError(
            f"attention_mask must have one number per token, {shape}, got "
            f"{tuple(attention_mask.shape)}."
        )
    return padded(attention_mask, position)


def _agree(mask: Tensor, found: Documents, shape: tuple[int, ...]) -> None:
    """Raise unless a mask says of every packed token what the boundaries say."""
    real = torch.ones(shape, dtype=torch.bool) if found.real is None else found.real.expand(shape)
    if mask.numel() != real.numel() or not torch.equal(
        mask.reshape(shape) != 0, real.to(mask.device)
    ):
        raise ValueError(
            f"attention_mask and cu_seqlens contradict each other: the boundaries cover "
            f"{int(real.sum())} of {shape[-1]} tokens, the mask {int((mask != 0).sum())} of "
            f"{mask.shape[-1] if mask.ndim else 0}. Leave the mask out."
        )


def apart(dynamics: CoefficientDynamics, starts: Bool[Tensor, "*batch L"]) -> CoefficientDynamics:
    """The same design with documents kept apart: no token reads across the start of a document.

    Args:
        dynamics: any design; one of m rows per token starts at the first row of a token.
        starts: ``(..., L)``, True at the first token of a document. Its leading axes are the first
            of the design's, or none.

    Raises:
        ValueError: for starts that do not fit the design.
    """
    tokens, rank = starts.shape[-1], len(dynamics.batch_shape)
    lead = starts.shape[:-1]
    if starts.dtype != torch.bool or dynamics.length % max(tokens, 1) or len(lead) > rank:
        raise ValueError(
            f"starts must be bool (..., L) with L={dynamics.length} and at most {rank} leading "
            f"axes, got {starts.dtype} {tuple(starts.shape)}."
        )
    if lead:
        starts = starts.reshape(*lead, *(1,) * (rank - len(lead)), tokens)
    depth = DEEP if dynamics.normalizer.cancels_scale else RESET
    fall = dynamics.q.new_zeros(starts.shape).masked_fill(starts, depth)
    rows = dynamics.length // tokens
    if rows > 1:
        fall = torch.nn.functional.pad(fall[..., None], (0, rows - 1)).flatten(-2)
    matrices: Any = dynamics.evolution
    g = getattr(matrices, "log_decay", None)
    if dynamics.readout.is_linear and g is not None and g is matrices.common_log_decay:
        return replace(dynamics, evolution=replace(matrices, log_decay=g + fall))
    c = dynamics.outer_log_decay
    return replace(dynamics, outer_log_decay=fall if c is None else c + fall)


def _short(values: list[int], most: int = 8) -> str:
    shown = ", ".join(map(str, values[:most]))
    return f"[{shown}, ...]" if len(values) > most else f"[{shown}]"
