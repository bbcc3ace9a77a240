"""Changes to a head of a running model, in terms of its design.

Two kinds. Some act on y, what the mixing returns: another design, no y at all, the y of another
run. The others act where the head enters the output projection, behind norms, gates and D: what
the rest of the model reads of it.
"""

from __future__ import annotations

from abc import ABC
from collections.abc import Callable
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any, ClassVar

import torch

from coefdyn.dynamics.coefficients import CoefficientDynamics
from coefdyn.dynamics.evolution import (
    Diagonal,
    DiagonalPlusRankOne,
    Evolution,
    Householder,
    Identity,
    Scalar,
)
from coefdyn.dynamics.mask import Given, Window
from coefdyn.dynamics.normalizer import Normalizer
from coefdyn.dynamics.readout import Readout
from coefdyn.lens.adapters.base import Refused
from coefdyn.lens.documents import blocks_of, some_heads
from coefdyn.lens.read.survival import without_erasure
from coefdyn.lens.run.record import Trace
from coefdyn.options import check_choice, check_count
from coefdyn.shapes import Bool, Float, Int, Tensor

__all__ = [
    "NAMED",
    "Change",
    "HeadsSeen",
    "Windowed",
    "as_change",
    "patched",
    "readable",
    "using",
    "window",
    "without_decay",
]

Design = Callable[[CoefficientDynamics], CoefficientDynamics]


@dataclass(frozen=True, kw_only=True, eq=False)
class HeadsSeen:
    """Some heads of one call.

    Attributes:
        layer: name of the module.
        heads: which of its heads.
        dynamics, values, output: of these heads, as in ``LayerTrace``.
        segments: number of the sequence that each token belongs to, 0 for padding, or None.
        dropped: tokens before these that a cache with a window of its own no longer holds.
    """

    layer: str
    heads: tuple[int, ...]
    dynamics: CoefficientDynamics
    values: Float[Tensor, "B H L dv"]
    output: Float[Tensor, "B H rows dv"]
    segments: Int[Tensor, "B tokens"] | None
    dropped: int = 0


class Change(ABC):
    """One change of some heads. ``name`` is its name in a table of effects."""

    name: str
    #: whether it acts at the input of the output projection
    behind: ClassVar[bool] = False
    #: whether it computes with the coefficients, which must then be those of the model
    computes: ClassVar[bool] = False
    #: whether it can act on a step that continues an earlier pass without its coefficients
    stepwise: ClassVar[bool] = False

    def y(self, seen: HeadsSeen) -> Float[Tensor, "B H L dv"]:
        """Replacement of y."""
        raise NotImplementedError

    def idle(self, seen: HeadsSeen) -> str | None:
        """The ingredient that these heads lack, such as "no decay"; None for a change that can do
        something."""
        return None

    def projected(
        self, x: Float[Tensor, "tokens H dv"], real: Bool[Tensor, " tokens"]
    ) -> Float[Tensor, "tokens H dv"]:
        """Replacement of the heads' part of the output projection's input."""
        raise NotImplementedError


class _Ablate(Change):
    name, behind, stepwise = "ablate", True, True

    def projected(self, x: Tensor, real: Tensor) -> Tensor:
        return torch.zeros_like(x)


class _Mean(Change):
    name, behind = "mean", True

    def projected(self, x: Tensor, real: Tensor) -> Tensor:
        return x[real].mean(0).expand_as(x)


class _Silence(Change):
    name = "silence"

    def y(self, seen: HeadsSeen) -> Tensor:
        return torch.zeros_like(seen.output)


class _Designed(Change):
    computes = True

    def __init__(self, name: str, design: Design, idle: str | None = None) -> None:
        self.name, self.design = name, design
        self.words = idle

    def dynamics(self, seen: HeadsSeen) -> CoefficientDynamics:
        return self.design(seen.dynamics)

    def idle(self, seen: HeadsSeen) -> str | None:
        same = self.words is not None and _same(seen.dynamics, self.dynamics(seen))
        return self.words if same else None

    def y(self, seen: HeadsSeen) -> Tensor:
        changed = self.dynamics(seen)
        if not isinstance(changed, CoefficientDynamics):
            raise Refused(
                f"{self.name} on {seen.layer} must return a CoefficientDynamics, got "
                f"{type(changed).__name__}; write for example "
                "lambda d: dataclasses.replace(d, evolution=evolution.Identity())."
            )
        leading, length = seen.dynamics.batch_shape, seen.dynamics.length
        if (changed.batch_shape, changed.length) != (leading, length):
            raise Refused(
                f"{self.name} on {seen.layer} gives {changed.length} tokens with leading axes "
                f"{changed.batch_shape}: keep the length {length} and the axes {leading}."
            )
        return changed.apply(seen.values)[..., -seen.output.shape[-2] :, :]


def _same(mine: Any, other: Any) -> bool:
    """Return whether a design, or an ingredient, is as it was, with the very same tensors."""
    if mine is other:
        return True
    if type(mine) is not type(other) or isinstance(mine, Tensor):
        return False
    if is_dataclass(mine):
        return all(_same(getattr(mine, x.name), getattr(other, x.name)) for x in fields(mine))
    return bool(mine == other)


class Windowed(_Designed):
    """The last ``size`` tokens and the first ``sink`` ones."""

    def __init__(self, size: int, sink: int) -> None:
        words = f"window {size}" + (f" and sink {sink}" if sink else "")
        super().__init__(words, lambda design: design)
        self.size, self.sink = size, sink

    def dynamics(self, seen: HeadsSeen) -> CoefficientDynamics:
        d = seen.dynamics
        if not self.sink and (d.mask is None or isinstance(d.mask, Window)):
            size = self.size if d.mask is None else min(self.size, d.mask.size)
            return replace(d, mask=Window(size))
        place = torch.arange(d.length, device=d.device)
        kept = place[:, None] - place < self.size
        if self.sink:
            kept = kept | self.first_tokens(seen)
        return replace(d, mask=Given(kept & readable(d)))

    def first_tokens(self, seen: HeadsSeen) -> Bool[Tensor, "B heads rows L"]:
        """True where token j is among the first ``sink`` ones of the sequence of token i."""
        d, said, dropped = seen.dynamics, seen.segments, seen.dropped
        allowed = readable(d)
        if said is None or said.shape[-1] != dropped + d.length:
            said = None if dropped else blocks_of(allowed)
        if said is None:  # tokens that none reads are padding
            read = allowed.any(-2, keepdim=True)
            return read & (dropped + read.cumsum(-1) <= self.sink)
        same = (said[:, :, None] == said[:, None, :]) & (said != 0)[:, None, :]
        return (same & (same.cumsum(-1) <= self.sink))[:, None, dropped:, dropped:]


def readable(dynamics: CoefficientDynamics) -> Bool[Tensor, "B heads L L"]:
    """Pairs that may be read, by the mask of the design."""
    length = dynamics.length
    past = torch.ones(1, 1, length, length, dtype=torch.bool, device=dynamics.device).tril()
    if dynamics.mask is None:
        return past
    return past & dynamics.mask.rows(0, length, 0, dynamics.device)


class _Patched(Change):
    def __init__(self, source: Trace, part: str) -> None:
        self.name, self.source, self.part = f"patched {part}", source, part
        self.computes = part != "output"  # type: ignore[misc]

    def y(self, seen: HeadsSeen) -> Tensor:
        try:
            other = self.source[seen.layer]
        except KeyError as missing:
            raise Refused(f"the trace to patch from has {missing.args[0]}") from None
        heads = list(seen.heads)
        mine = {"output": seen.output, "values": seen.values, "coefficients": seen.values}
        if other.values.shape[1] <= max(heads) or (
            other.values[:, heads].shape != mine[self.part].shape
        ):
            raise Refused(
                f"{seen.layer} has values {tuple(other.values.shape)} in the trace to patch from, "
                f"here heads {heads} have {tuple(mine[self.part].shape)}; trace an input of the "
                "same batch and length, and run it without a cache."
            )
        if self.part == "output":
            return other.output[:, heads].to(seen.output)
        if self.part == "values":
            return seen.dynamics.apply(other.values[:, heads].to(seen.values))
        return some_heads(other.dynamics, heads).apply(seen.values)


def window(size: int, *, sink: int = 0) -> Change:
    """A head that reads the last ``size`` tokens, itself included, and the first ``sink`` ones.

    The first tokens are those of the token's own sequence: padding is none of them, and packed
    documents have their own. Pairs that the model's own mask hides stay hidden. eta is that of the
    pairs that are left.

    Raises:
        ValueError: for a size below 1 or a negative sink.
    """
    return Windowed(check_count("size", size), check_count("sink", sink, least=0))


def using(*, readout: Readout | None = None, normalizer: Normalizer | None = None) -> Change:
    """A head with another phi, another eta, or both; q, k, A_t and b_j stay.

    Raises:
        ValueError: where neither is given.
    """
    other: dict[str, Any] = {"readout": readout, "normalizer": normalizer}
    other = {name: value for name, value in other.items() if value is not None}
    if not other:
        raise ValueError("using() changes nothing: give it a readout, a normalizer, or both.")
    words = ", ".join(f"{name} {value.name}" for name, value in other.items())
    return _Designed(words, lambda design: replace(design, **other), f"already {words}")


def patched(source: Trace, part: str = "output") -> Change:
    """A head as it was in another run on an input of the same batch and length.

    Args:
        source: a trace of that run.
        part: "output", its y; "values", its v under the coefficients of this run; "coefficients",
            its alpha/eta on the values of this run.

    Raises:
        ValueError: for another part.
    """
    check_choice("part", part, ("output", "values", "coefficients"))
    return _Patched(source, part)


def without_decay(dynamics: CoefficientDynamics) -> CoefficientDynamics:
    """The same design with every decay at 1: what remains of A_t is its signs and its erasure.

    The outer decay (ALiBi) goes, too. A design without decay stays as it is.

    Raises:
        ValueError: for a dense A_t, which does not say what is decay, and for a diagonal plus rank
            one with a decay below exp(-80), behind which the erased direction cannot be seen.
    """
    return replace(dynamics, evolution=_undecayed(dynamics.evolution), outer_log_decay=None)


def _undecayed(evolution: Evolution) -> Evolution:
    match evolution:
        case Identity() | Householder(log_decay=None):
            return evolution
        case Scalar(sign=None) | Diagonal(sign=None):
            return Identity()
        case Scalar(log_decay=g) | Diagonal(log_decay=g):
            return replace(evolution, log_decay=torch.zeros_like(g))
        case Householder():
            return replace(evolution, log_decay=None)
        case DiagonalPlusRankOne(log_decay=g, right=right):
            if bool((g < -80).any()):
                raise ValueError(
                    "a channel decays by less than exp(-80) in one step, so what is erased along "
                    "it cannot be told from what decays; replace the evolution by one of your own."
                )
            # diag(a) - l r^T = (I - l (r / a)^T) diag(a)
            return replace(evolution, log_decay=torch.zeros_like(g), right=right * (-g).exp())
    raise ValueError(
        f"no rule for the decay of {type(evolution).__name__}; use a structure such as "
        "Householder or DiagonalPlusRankOne, or replace the evolution by one of your own."
    )


#: what a design may have none of, by the function that takes it away
LACKS: dict[Design, str] = {without_erasure: "no erasure", without_decay: "no decay"}
#: the changes that have a name alone
NAMED: dict[str, Change] = {
    "ablate": _Ablate(),
    "mean": _Mean(),
    "silence": _Silence(),
    "without erasure": _Designed("without erasure", without_erasure, LACKS[without_erasure]),
    "without decay": _Designed("without decay", without_decay, LACKS[without_decay]),
}


def as_change(what: str | Design | Change) -> Change:
    """A change by its name, or from a function of a design.

    Raises:
        ValueError: for an unknown name, or something else.
    """
    if isinstance(what, Change):
        return what
    if isinstance(what, str):
        return NAMED[check_choice("a change", what, NAMED)]
    if callable(what):
        name = getattr(what, "__name__", type(what).__name__)
        lacks = next((words for one, words in LACKS.items() if one is what), None)
        return _Designed("design" if name == "<lambda>" else name, what, lacks)
    raise ValueError(
        f"a change is one of {', '.join(NAMED)}, window(...), using(...), patched(...), or a "
        f"function from a design to a design; got {what!r}."
    )
