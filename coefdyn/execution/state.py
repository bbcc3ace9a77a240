"""The states between two tokens: of a design, of a mixer, of a model.

A linear readout lets the sum over j move inside (Lemma 1): one matrix S of n x d_v numbers.
Any other readout needs every stored key h_{i,j} and every value, so its state grows with L.
A mixer adds its convolutions' last inputs, and a model holds one state per mixer.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, Self, cast

import torch
from torch.utils import _pytree

from coefdyn.dynamics.checks import can_read
from coefdyn.dynamics.coefficients import CoefficientDynamics
from coefdyn.dynamics.evolution import Dense, Diagonal, DiagonalPlusRankOne, Evolution, Identity
from coefdyn.dynamics.readout import FeatureMap
from coefdyn.execution.stabilize import RESET
from coefdyn.shapes import Float, Int, Tensor

__all__ = [
    "CacheState",
    "LinearState",
    "MixerState",
    "ModelState",
    "State",
    "Stored",
    "has_finite_state",
    "is_weighted",
]


#: where a node of a pytree keeps the names of its fields that hold tensors, whatever they hold now
HELD = "_held"


class State:
    """Base of all states: frozen dataclasses of tensors whose first axes are those of sequences.

    A state is also a pytree of torch (``torch.func.vmap`` maps over it), and ``torch.load`` reads
    it with ``weights_only=True``. Gradients flow through it unless it is detached.
    """

    def __init_subclass__(cls, **given: Any) -> None:
        super().__init_subclass__(**given)
        torch.serialization.add_safe_globals([cls])
        _pytree.register_pytree_node(cls, _flat, functools.partial(_whole, cls))

    @property
    def batch_shape(self) -> tuple[int, ...]:
        """The leading axes of the sequences, those of a design or of a mixer's x."""
        raise NotImplementedError(f"{type(self).__name__} names no axis of sequences.")

    def map(self, change: Callable[[Tensor], Tensor]) -> Self:
        """Change every tensor.

        Args:
            change: what makes a tensor of a tensor.
        """
        held: dict[str, Any] = {f.name: getattr(self, f.name) for f in fields(self)}  # type: ignore[arg-type]
        return replace(self, **{name: _mapped(value, change) for name, value in held.items()})  # type: ignore[type-var]

    def tensors(self) -> list[Tensor]:
        """List every tensor of the state."""
        found: list[Tensor] = []

        def note(x: Tensor) -> Tensor:
            found.append(x)
            return x

        self.map(note)
        return found

    def numbers(self) -> int:
        """Count the floating-point numbers, over all leading axes (positions are not counted)."""
        return sum(x.numel() for x in self.tensors() if x.is_floating_point())

    def detach(self) -> Self:
        """Cut the gradient: the same numbers, for truncated backpropagation."""
        return self.map(Tensor.detach)

    def to(self, target: torch.dtype | torch.device | str) -> Self:
        """Convert to a dtype (positions stay whole numbers) or move to a device.

        Args:
            target: the dtype or the device.
        """
        if not isinstance(target, torch.dtype):
            return self.map(lambda x: x.to(target))
        return self.map(lambda x: x.to(target) if x.is_floating_point() else x)

    def index(self, rows: Tensor | Sequence[int]) -> Self:
        """Select sequences of the first leading axis, in the order of ``rows``.

        A row may be repeated: the states of beams are ``state.index(parents)``.

        Args:
            rows: whole numbers, from 0.

        Raises:
            ValueError: for something else, or a state of one sequence without a leading axis.
        """
        rows = torch.as_tensor(rows)
        if not self.batch_shape:
            raise ValueError(
                "this state belongs to one sequence and has no axis to choose rows from; make it "
                "with a leading axis, from x[None]."
            )
        size, kind = self.batch_shape[0], rows.dtype
        whole = not (kind.is_floating_point or kind.is_complex or kind == torch.bool)
        if rows.ndim != 1 or not (whole or rows.numel() == 0):
            raise ValueError(
                f"index takes whole numbers (rows,), got {kind} {tuple(rows.shape)}; those of a "
                "boolean mask are mask.nonzero().flatten()."
            )
        if rows.numel() and can_read(rows):
            least, most = (int(x) for x in rows.aminmax())
            if least < 0 or most >= size:
                raise ValueError(
                    f"rows lie in 0 .. {size - 1}, since the state holds {size} sequences; got "
                    f"{least} .. {most}."
                )
        return self.map(lambda x: x.index_select(0, rows.to(x.device, torch.int64)))

    def save(self, path: str | Path) -> None:
        """Write the state to a file, without its gradient.

        Args:
            path: of the file.
        """
        torch.save(self.map(lambda x: x.detach().clone()), path)

    @classmethod
    def load(cls, path: str | Path, device: torch.device | str | None = None) -> Self:
        """Read a state that ``save`` wrote.

        Args:
            path: of the file.
            device: where its tensors go; where they were if None.

        Raises:
            ValueError: if the file holds something else.
        """
        found = torch.load(path, map_location=device, weights_only=True)
        if not isinstance(found, cls):
            raise ValueError(f"{path} holds a {type(found).__name__}, and not a {cls.__name__}.")
        return found


def _mapped(value: Any, change: Callable[[Tensor], Tensor]) -> Any:
    """Change every tensor of states, dicts and tuples."""
    if isinstance(value, Tensor):
        return change(value)
    if isinstance(value, State):
        return value.map(change)
    if isinstance(value, dict):
        return {name: _mapped(one, change) for name, one in value.items()}
    return tuple(_mapped(one, change) for one in value) if isinstance(value, tuple) else value


def _flat(state: State) -> tuple[list[Any], Any]:
    """Split the fields into those with tensors and the rest: a node of a pytree."""
    named = {field.name: getattr(state, field.name) for field in fields(state)}  # type: ignore[arg-type]
    held = state.__dict__.get(HELD)
    if held is None:
        held = [name for name, x in named.items() if not (x is None or isinstance(x, int))]
    plain = {name: x for name, x in named.items() if name not in held}
    return [named[name] for name in held], (held, plain)


def _whole(kind: type[State], values: Iterable[Any], context: Any) -> State:
    """Invert ``_flat``."""
    held, plain = context
    made = object.__new__(kind)  # torch puts numbers where tensors belong: nothing is checked
    made.__dict__.update(zip(held, values, strict=True), **plain, **{HELD: held})
    return made


@dataclass(frozen=True, eq=False)
class Stored(State):
    """All keys written so far, as seen at position i: h_{i,j} = vectors_j * exp(log_weights_j).

    ``log_weights`` (float64) is None for a design without a common growth and a log scaling,
    ``outer`` (what an outer decay has come to) for one without that.
    """

    vectors: Float[Tensor, "*batch j n"]
    log_weights: Float[Tensor, "*#batch j"] | None
    outer: Float[Tensor, "*batch j"] | None = None

    @property
    def batch_shape(self) -> tuple[int, ...]:
        return tuple(self.vectors.shape[:-2])

    def states(self) -> Float[Tensor, "*batch j n"]:
        """h_{i,j} itself."""
        if self.log_weights is None:
            return self.vectors
        return self.vectors * self.log_weights.exp().to(self.vectors.dtype)[..., None]


@dataclass(frozen=True, eq=False)
class LinearState(State):
    """S_i = sum_j (A_i ... A_{j+1} b_j k_j) v_j^T, as rows: one per value channel, of length n.

    Where eta needs the row sum, one more channel carries the value 1. ``matrix * exp(offset)`` is
    the true state; the offset (float64) is None unless a normalizer that cancels it is in use.
    """

    matrix: Float[Tensor, "*batch dv n"]
    offset: Float[Tensor, "*batch"] | None

    @property
    def batch_shape(self) -> tuple[int, ...]:
        return tuple(self.matrix.shape[:-2])


@dataclass(frozen=True, eq=False)
class CacheState(State):
    """Every stored key as evolved so far, its log weight if it has one, and every value.

    ``position`` is that of the next token for a mask that counts positions, else None.
    """

    stored: Stored
    values: Float[Tensor, "*batch j dv"]
    position: int | None = None

    @property
    def batch_shape(self) -> tuple[int, ...]:
        return tuple(self.values.shape[:-2])


@dataclass(frozen=True, eq=False)
class MixerState(State):
    """State of one mixer: tokens seen, inputs of its convolutions, and the state of its dynamics.

    ``position`` is a tensor, one number per sequence, where documents were told apart. ``past``
    holds by name what the projections need; some rows keep more in it.
    """

    position: int | Int[Tensor, "*batch"]
    past: dict[str, Tensor]
    dynamics: State

    @property
    def batch_shape(self) -> tuple[int, ...]:
        return self.dynamics.batch_shape[:-1]  # the last axis is that of heads


@dataclass(frozen=True, kw_only=True, eq=False)
class ModelState(State):
    """State of a model: tokens seen, and the state of each layer's mixer.

    ``position`` is a tensor, one number per sequence, where documents were told apart.
    """

    position: int | Int[Tensor, "*batch"]
    layers: tuple[MixerState, ...]

    @property
    def batch_shape(self) -> tuple[int, ...]:
        return self.layers[0].batch_shape


def has_finite_state(dynamics: CoefficientDynamics) -> bool:
    """Return whether one matrix holds the past: identity readout, or a feature map with A_t = I.

    Not where pairs are masked, nor with an outer decay that A_t cannot take in: of features beside
    a sink, of a structure of one's own, or of a Dense one where eta follows its scale in the log;
    of decays per channel where it outgrows the dtype and eta cancels that.
    """
    phi = dynamics.readout
    sunk = getattr(dynamics.normalizer, "sink", None) is not None
    kind = type(dynamics.evolution)
    own = kind.__module__ != Evolution.__module__
    own = own or (kind is Dense and dynamics.normalizer.cancels_scale)
    if dynamics.mask is not None or ((sunk or own) and dynamics.outer_log_decay is not None):
        return False
    if phi.is_linear and outgrows(dynamics):
        return False
    return phi.is_linear or (isinstance(phi, FeatureMap) and type(dynamics.evolution) is Identity)


def keeps_apart(dynamics: CoefficientDynamics) -> bool:
    """Return whether an outer decay may have to stay apart from decays per channel.

    eta cancels what it grows by: see ``outgrows``.
    """
    channels = type(dynamics.evolution) in (Diagonal, DiagonalPlusRankOne)
    return channels and dynamics.outer_log_decay is not None and dynamics.normalizer.cancels_scale


def outgrows(dynamics: CoefficientDynamics) -> bool:
    """Return whether a state would leave half the range of its dtype by an outer decay.

    It does where that grows faster than the channels of A_t fade and eta cancels it: A_t per
    channel has no place for it then.

    False while a graph is recorded, where numbers cannot be read.
    """
    if not keeps_apart(dynamics) or 0 in dynamics.batch_shape:
        return False
    c, g = cast(Tensor, dynamics.outer_log_decay), cast(Any, dynamics.evolution).log_decay
    if not can_read(c) or not can_read(g):
        return False
    dtype = torch.promote_types(dynamics.dtype, torch.float32)  # half precision is computed in it
    most = math.log(torch.finfo(dtype).max) / 2
    if float(c.detach().amax()) * dynamics.length <= most:
        return False
    nats = (c.detach().double()[..., None] + g.detach().double()).clamp(min=RESET)
    sums = nats.cumsum(-2)
    return bool((sums - sums.cummin(-2).values).amax() > most)


def is_weighted(dynamics: CoefficientDynamics) -> bool:
    """Return whether a cache keeps log weights.

    They serve a common growth, a log scaling, or an outer decay of a homogeneous readout, which may
    grow as fast as the vectors fade.
    """
    inside = dynamics.outer_log_decay is not None and dynamics.readout.is_homogeneous
    common = dynamics.evolution.common_log_decay
    return inside or common is not None or dynamics.log_scaling is not None
