"""Helpers for the operations of the package flash-linear-attention (fla).

They take q, k ``(B, L, H, n)``, v ``(B, L, H, d_v)`` and gates ``(B, L, H, ...)``, a scale that is
1/sqrt(n) where none is given, and flags. They return y and a last state. Transformers' own
versions take the same, some under longer names.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar

import torch

from coefdyn import CoefficientDynamics, normalizer, readout
from coefdyn.dynamics.evolution import Evolution
from coefdyn.dynamics.normalizer import Normalizer
from coefdyn.execution.state import LinearState
from coefdyn.lens.adapters.base import (
    Call,
    OpAdapter,
    Unsupported,
    first,
    refuse_state,
    repeat_heads,
    take,
    wide,
    with_first,
)
from coefdyn.lens.adapters.running import Runs, Taken
from coefdyn.shapes import Tensor

__all__ = ["FlaOperation"]

_RAW = "whose inputs the lens cannot see"
_PACKED = "which packs several sequences into one row: pass them one by one, without attention_mask"

#: arguments that change what is computed and are not read here, with the reason
REFUSED = {
    "use_gate_in_kernel": _RAW,
    "use_beta_sigmoid_in_kernel": _RAW,
    "safe_gate": _RAW,
    "cu_seqlens": _PACKED,
    "cp_context": "which spreads a sequence over several devices",
    "reverse": "which reads the tokens from the last to the first, so the map is not causal",
    "head_first": "the layout (B, H, L, n) of older versions",
    "gv": "a decay per channel of the values, so each channel has a map of its own",
}


class FlaOperation(OpAdapter, Runs):
    """An operation with fla's arguments: phi = Id, and A, b, eta from the subclass."""

    outside = "short convolution on q, k, v; gated norm and projection after y"
    #: gates by the names they have in a call; those that a call leaves out are left out here
    gates: ClassVar[tuple[str, ...]] = ()
    refused: ClassVar[dict[str, str]] = REFUSED

    def arguments(self, given: dict[str, Any]) -> dict[str, Tensor]:
        """q, k, v and gates, heads first, each once per head of the values."""
        named = {name: take(given, *known) for name, known in _NAMES.items()}
        named |= {name: given[name] for name in self.gates if given.get(name) is not None}
        heads, dtype = named["v"].shape[2], wide(named["v"]).dtype
        return {
            name: repeat_heads(wide(value).to(dtype).transpose(1, 2).contiguous(), heads)
            for name, value in named.items()
        }

    @abstractmethod
    def evolves(self, t: dict[str, Tensor]) -> Evolution:
        """A_t from what ``arguments`` returned."""

    def scales(self, t: dict[str, Tensor], scale: float) -> Tensor | float:
        """b_j from what ``arguments`` returned and the scale of the call."""
        return scale

    def divides(self, given: dict[str, Any]) -> Normalizer:
        """eta_i from the call."""
        return normalizer.One()

    def take(self, given: dict[str, Any]) -> Taken:
        """Read the arguments; the scale of their state, (B, H, n, d_v), is on q and ours on k."""
        for flag, reason in self.refused.items():
            value = given.get(flag)
            if value is not None and value is not False:
                raise Unsupported(f"the kernel is called with {flag}, {reason}")
        t = self.arguments(given)
        scale = given.get("scale")
        scale = t["q"].shape[-1] ** -0.5 if scale is None else scale
        dynamics = CoefficientDynamics(
            q=t["q"],
            k=t["k"],
            evolution=self.evolves(t),
            scaling=self.scales(t, scale),
            readout=readout.identity,
            normalizer=self.divides(given),
        )
        state, dtype = given.get("initial_state"), take(given, *_NAMES["q"]).dtype

        def result(y: Tensor, after: LinearState | None) -> tuple[Tensor, Tensor | None]:
            last = None if after is None else (after.matrix.mT / scale).float().contiguous()
            return y.transpose(1, 2).to(dtype).contiguous(), last

        return Taken(
            dynamics=dynamics,
            values=t["v"],
            result=result,
            before=_before(state, scale, t["v"].dtype),
            keeps=bool(given.get("output_final_state")),
        )

    def read_op(self, op: Callable[..., Any], given: dict[str, Any], result: Any) -> Call:
        taken = self.take(given)
        refuse_state(given.get("initial_state"))
        return Call(
            dynamics=taken.dynamics,
            values=taken.values,
            output=wide(first(result)).transpose(1, 2),
            replay=_replay(op, given),
            columns=taken.values.shape[-1],
            put=lambda y: with_first(result, y.transpose(1, 2).contiguous()),
        )


_NAMES = {"q": ("query", "q"), "k": ("key", "k"), "v": ("value", "v")}


def _before(state: Any, scale: float, dtype: torch.dtype) -> LinearState | None:
    """The state that a call continues; None also where one comes with a sum of keys, which no
    operation that is computed here has."""
    if not isinstance(state, Tensor):
        return None
    return LinearState(matrix=state.to(dtype).mT * scale, offset=None)


def _replay(op: Callable[..., Any], given: dict[str, Any]) -> Callable[[Tensor], Tensor]:
    name = "value" if "value" in given else "v"
    rest = {**given, "initial_state": None} if "initial_state" in given else given

    def replay(v: Tensor) -> Tensor:
        changed = {name: v.transpose(1, 2).to(given[name].dtype)}
        return first(op(**{**rest, **changed})).transpose(1, 2)

    return replay
