"""Data that a mixer passes on: tokens as heads, checks of a state, a row's symbols."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import nn

from coefdyn import CoefficientDynamics
from coefdyn.dynamics.checks import can_read
from coefdyn.dynamics.documents import Documents, apart
from coefdyn.execution.state import MixerState
from coefdyn.shapes import Float, Int, Tensor

__all__ = ["MixerState", "Symbols", "Tokens", "check_kind", "check_state", "first", "longest"]


@dataclass(frozen=True, kw_only=True)
class Symbols:
    """The paper's symbols of this row (LaTeX), and the place of its derivation.

    ``year`` is that of the first version; ``models`` names released models that use the row.
    """

    title: str
    evolution: str
    scaling: str
    readout: str
    normalizer: str
    source: str
    year: int | None = None
    models: str = ""


@dataclass(frozen=True, kw_only=True, eq=False)
class Tokens:
    """Input from which a mixer builds its dynamics.

    ``x`` (..., L, d_model); ``q``, ``k`` (..., H, L, n); ``v`` (..., H, L, d_v); ``z`` a learned
    direction (..., H, L, n) or None; ``start`` the index of the first token, 0-based. A mixer of
    several steps per token has more rows in q, k and v than in x. ``documents`` says where
    documents begin, if x holds padding or several of them; ``apart`` lets a design begin there.
    """

    x: Float[Tensor, "*batch tokens d"]
    q: Float[Tensor, "*heads L n"]
    k: Float[Tensor, "*keys L n"]
    v: Float[Tensor, "*heads2 L dv"]
    z: Float[Tensor, "*heads L n"] | None = None
    start: int
    documents: Documents | None = None

    def index(self) -> Int[Tensor, "*batch L"]:
        """The position of every token: ``(L,)``, or ``(..., 1, L)`` in its own document."""
        if self.documents is not None:
            return self.documents.positions[..., None, :]
        return torch.arange(self.start, self.start + self.x.shape[-2], device=self.x.device)

    def apart(self, dynamics: CoefficientDynamics) -> CoefficientDynamics:
        """The same design, with a new start at every document."""
        return dynamics if self.documents is None else apart(dynamics, self.documents.starts)

    def match(self, value: Tensor) -> Tensor:
        """``value`` in the dtype of q (autocast may compute gates in another one)."""
        return value.to(self.q.dtype)


def first(state: MixerState | None) -> int:
    """The index of the next token; 0 where every sequence has an index of its own."""
    return state.position if state is not None and isinstance(state.position, int) else 0


def longest(positions: Int[Tensor, "*batch L"]) -> int:
    """Tokens of the longest document; 0 where there is none, or positions cannot be read."""
    return int(positions.amax()) + 1 if positions.numel() and can_read(positions) else 0


def check_kind(x: Tensor, own: Tensor, mixer: nn.Module) -> None:
    """Raise unless x has the dtype and the device of a parameter of this mixer.

    Autocast may change them, and accelerate brings offloaded parameters as each part runs.

    Raises:
        ValueError: naming both.
    """
    kind = x.device.type
    casts = torch.amp.is_autocast_available(kind) and torch.is_autocast_enabled(kind)
    if torch.compiler.is_compiling() or casts:
        return
    if own.device.type == "meta" and any(hasattr(one, "_hf_hook") for one in mixer.modules()):
        return
    if x.dtype != own.dtype or x.device != own.device:
        name = type(mixer).__name__
        raise ValueError(
            f"x has dtype {x.dtype} on {x.device}, the parameters of this {name} have {own.dtype} "
            f"on {own.device}; convert one of them: x.to(device={str(own.device)!r}, "
            f"dtype={own.dtype})."
        )


def check_state(x: Tensor, state: MixerState) -> None:
    """Raise unless the state belongs to the same sequences.

    Raises:
        ValueError: for something that is no state, or one of other leading axes or a wider dtype.
    """
    if not isinstance(state, MixerState):
        raise ValueError(
            f"state must be what the previous call returned, got {type(state).__name__}; "
            "before the first token it is None."
        )
    for memory in state.past.values():
        if memory.shape[:-2] != x.shape[:-2]:
            raise ValueError(
                f"the state was made for leading axes {tuple(memory.shape[:-2])}, these tokens "
                f"have {tuple(x.shape[:-2])}. Start again with state=None, or give tokens of "
                "the sequences that the state has seen."
            )
        wide = torch.promote_types(x.dtype, torch.float32)
        if torch.promote_types(x.dtype, memory.dtype) not in (x.dtype, wide):
            raise ValueError(
                f"the state has dtype {memory.dtype}, these tokens have {x.dtype}. Start again "
                "with state=None, or with the mixer that made the state."
            )
