"""Structures and readouts that the library does not know, for tests."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch

from coefdyn import evolution

__all__ = ["Reversed", "Rotation", "Shift"]


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Rotation(evolution.Evolution):
    """The first two channels turn by an angle, the others stay."""

    structure: ClassVar[str] = "rotation"
    axes: ClassVar[dict[str, str]] = {"angle": "L"}
    angle: torch.Tensor

    def rotate(self, h: torch.Tensor, t: int) -> torch.Tensor:
        a = self.angle[..., t, None]
        x, y = h[..., 0], h[..., 1]
        turned = torch.stack([a.cos() * x - a.sin() * y, a.sin() * x + a.cos() * y], -1)
        rest = h[..., 2:].expand(*turned.shape[:-1], h.shape[-1] - 2)
        return torch.cat([turned, rest], -1)


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Shift(evolution.Evolution):
    """No tensor at all: every channel moves on by one."""

    structure: ClassVar[str] = "shift"

    def rotate(self, h: torch.Tensor, t: int) -> torch.Tensor:
        return h.roll(1, -1)


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Reversed(evolution.Scalar):
    """A subclass of a built-in structure that means another matrix."""

    def rotate(self, h: torch.Tensor, t: int) -> torch.Tensor:
        return super().rotate(h, t).flip(-1)
