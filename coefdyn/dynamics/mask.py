"""Masks: pairs of tokens that may meet. A masked alpha_{i,j} is an exact zero and enters no sum.

    alpha_{i,j} = 0 where the mask says no         (beside the causal j <= i, which always holds)

A mask is a restriction of its own: the state of a linear readout is a sum over all of the past and
cannot leave tokens out, so masked designs have no recurrent form. A row without any pair outputs
zero and has no gradient.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace

import torch

from coefdyn.options import shown
from coefdyn.shapes import Bool, Tensor

__all__ = ["Blocks", "Given", "Mask", "Window"]


@dataclass(frozen=True, eq=False)
class Mask(ABC):
    """Base of all masks. ``rows`` is what algorithms ask for; positions are those of the tokens
    at hand, so that the columns of a continued sequence may begin below 0."""

    def tensors(self) -> dict[str, Tensor]:
        """The parameters that are tensors, by name."""
        return {}

    @abstractmethod
    def rows(
        self, start: int, stop: int, first: int, device: torch.device
    ) -> Bool[Tensor, "*#batch rows columns"]:
        """Rows start .. stop - 1 against columns first .. stop - 1; what lies above the diagonal
        does not matter."""

    def first(self, start: int) -> int | None:
        """The first column that row ``start`` or a later one may read; None if that is unknown."""
        return None

    def begins(self) -> int | None:
        """The position of the first token, where rows depend on it; None where they do not."""
        return None

    def continues(self, position: int) -> bool:
        """Return whether the first token is the one at ``position`` of the same sequence."""
        return True

    def narrow(self, start: int, length: int) -> Mask:
        """The mask of positions start .. start + length - 1, counted from ``start``."""
        return self

    def to(self, target: torch.dtype | torch.device) -> Mask:
        """The same mask on a device; a dtype changes nothing."""
        return self


#: more tokens than any sequence has; products of two such numbers still fit into int64
MOST = 2**31


def _count(name: str, value: object, least: int) -> int:
    """Raise unless the value is a whole number of at least ``least`` that an index can hold."""
    whole = isinstance(value, int) and not isinstance(value, bool)
    if not whole or not least <= value <= MOST:  # type: ignore[operator]
        large = f"at most {MOST}; for no restriction use mask=None"
        bound = large if whole and value > least else f"at least {least}"  # type: ignore[operator]
        raise ValueError(f"{name} must be a whole number of {bound}, got {shown(value)}.")
    return value  # type: ignore[return-value]


@dataclass(frozen=True, eq=False)
class Window(Mask):
    """Token i reads the ``size`` tokens i - size + 1 .. i, itself included (sliding window).

    Raises:
        ValueError: for a size that is not a whole number of at least 1.
    """

    size: int

    def __post_init__(self) -> None:
        _count("Window(size)", self.size, 1)

    def rows(self, start: int, stop: int, first: int, device: torch.device) -> Tensor:
        i = torch.arange(start, stop, device=device)[:, None]
        j = torch.arange(first, stop, device=device)
        return i - j < self.size

    def first(self, start: int) -> int:
        return start - self.size + 1


@dataclass(frozen=True, eq=False)
class Blocks(Mask):
    """Token i reads its own block of ``size`` tokens and ``before`` blocks before it.

    Args:
        size: tokens per block.
        before: further blocks; 0 for none (chunked attention).
        position: of the first token in its block, for a sequence that is continued.

    Raises:
        ValueError: for numbers that are not whole or too small.
    """

    size: int
    before: int = 0
    position: int = 0

    def __post_init__(self) -> None:
        _count("Blocks(size)", self.size, 1)
        _count("Blocks(before=)", self.before, 0)
        _count("Blocks(position=)", self.position, 0)

    def rows(self, start: int, stop: int, first: int, device: torch.device) -> Tensor:
        tokens = torch.arange(first, stop, device=device) + self.position
        block = tokens.div(self.size, rounding_mode="floor")
        return block[start - first :, None] - block <= self.before

    def first(self, start: int) -> int:
        block = (start + self.position) // self.size
        return (block - self.before) * self.size - self.position

    def begins(self) -> int:
        return self.position

    def continues(self, position: int) -> bool:
        return (self.position - position) % self.size == 0

    def narrow(self, start: int, length: int) -> Blocks:
        return replace(self, position=self.position + start)


@dataclass(frozen=True, eq=False)
class Given(Mask):
    """Any pairs: ``allowed[..., i, j]`` is True where token i may read token j.

    Args:
        allowed: bool, ``(..., L, L)``; what lies above the diagonal does not matter. Leading axes
            as those of q, or none.
            ``(..., rows, position + rows)`` for the later part of a sequence.
        position: of the first row among the columns, for a sequence that is continued.

    Raises:
        ValueError: for something else than a boolean tensor of two axes or more, or another number
            of columns.
    """

    allowed: Bool[Tensor, "*#batch rows columns"]
    position: int = 0

    def __post_init__(self) -> None:
        allowed = self.allowed
        if not isinstance(allowed, Tensor) or allowed.dtype != torch.bool or allowed.ndim < 2:
            got = type(allowed).__name__
            if isinstance(allowed, Tensor):
                got = f"{allowed.dtype} {tuple(allowed.shape)}"
            raise ValueError(
                f"mask.Given takes a boolean tensor (..., L, L), True where i may read j, got "
                f"{got}; compare your weights with a threshold, for example allowed > 0."
            )
        _count("mask.Given(position=)", self.position, 0)
        rows, columns = allowed.shape[-2:]
        if columns != self.position + rows:
            raise ValueError(
                f"mask.Given with {rows} rows from position {self.position} on needs "
                f"{self.position + rows} columns, one for every token up to the last row's, got "
                f"{columns}. The rows of a continued sequence say where they begin: "
                f"Given(allowed, position=p) with p = {columns} - {rows}, the tokens before them."
            )

    def tensors(self) -> dict[str, Tensor]:
        """``allowed``, by name."""
        return {"allowed": self.allowed}

    def rows(self, start: int, stop: int, first: int, device: torch.device) -> Tensor:
        columns = slice(max(0, first + self.position), stop + self.position)
        found = self.allowed[..., start:stop, columns].to(device)
        missing = stop - first - found.shape[-1]
        return torch.nn.functional.pad(found, (missing, 0)) if missing else found

    def narrow(self, start: int, length: int) -> Given:
        begin = self.position + start
        rows = self.allowed.narrow(-2, start, length)[..., : begin + length]
        return Given(rows, position=begin)

    def begins(self) -> int:
        return self.position

    def continues(self, position: int) -> bool:
        return self.position == position

    def to(self, target: torch.dtype | torch.device) -> Given:
        """The same mask on a device; a dtype changes nothing."""
        if isinstance(target, torch.dtype):
            return self
        return Given(self.allowed.to(target), position=self.position)

    def __repr__(self) -> str:
        return f"Given(allowed={tuple(self.allowed.shape)})"
