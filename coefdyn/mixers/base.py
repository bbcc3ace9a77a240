"""The base of every mixer: project x, build the coefficient dynamics, apply, project back.

A mixer chooses four ingredients in ``build``; everything else is here, once. So every mixer can be
plotted, diagnosed and run by every backend.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import nn

from coefdyn import CoefficientDynamics
from coefdyn.mixers.options import check_choice, check_count, check_flag, head_dim
from coefdyn.mixers.projections import (
    GATES,
    NORMS,
    HeadProjection,
    OutputStage,
    l2_normalize,
    rotate_positions,
)
from coefdyn.shapes import Float, Tensor

__all__ = ["POSITIONS", "Mixer", "MixerState", "Symbols", "Tokens"]

POSITIONS = ("none", "learned", "rotary")


@dataclass(frozen=True, kw_only=True)
class Symbols:
    """How Table 1 writes this row (LaTeX), and where its paper derives it."""

    title: str
    evolution: str
    scaling: str
    readout: str
    normalizer: str
    source: str


@dataclass(frozen=True, kw_only=True, eq=False)
class Tokens:
    """What a mixer builds its dynamics from.

    ``x`` (..., L, d_model); ``q``, ``k`` (..., H, L, n); ``v`` (..., H, L, d_v); ``z`` a learned
    direction (..., H, L, n) or None; ``start`` the index of the first token, 0-based.
    """

    x: Float[Tensor, "*batch L d"]
    q: Float[Tensor, "*heads L n"]
    k: Float[Tensor, "*heads L n"]
    v: Float[Tensor, "*heads2 L dv"]
    z: Float[Tensor, "*heads L n"] | None
    start: int

    def match(self, value: Tensor) -> Tensor:
        """``value`` in the dtype of q (autocast may compute gates in another one)."""
        return value.to(self.q.dtype)


@dataclass(frozen=True, eq=False)
class MixerState:
    """What one mixer remembers between two tokens: tokens seen, convolution inputs, dynamics."""

    position: int
    past: dict[str, Tensor]
    dynamics: Any

    def numbers(self) -> int:
        """How many numbers are kept, over all leading axes (the position not counted)."""
        return _count(self.past) + _count(self.dynamics)


def _count(value: Any) -> int:
    """Elements of every tensor inside nested dicts, dataclasses and tuples."""
    if isinstance(value, Tensor):
        return value.numel()
    if isinstance(value, dict):
        return sum(_count(item) for item in value.values())
    if isinstance(value, (list, tuple)):
        return sum(_count(item) for item in value)
    if hasattr(value, "__dataclass_fields__"):
        return sum(_count(getattr(value, name)) for name in value.__dataclass_fields__)
    return 0


class Mixer(nn.Module, ABC):
    """One causal sequence mixer: x ``(..., L, d_model)`` to y of the same shape.

    Args:
        d_model: width of x.
        n_heads: number of heads H.
        key_dim: n of ONE head (the papers' tables count all heads); d_model / n_heads if None.
        value_dim: d_v of ONE head; d_model / n_heads if None.
        position: "none"; "learned" adds a learned vector per position to x before all projections;
            "rotary" turns q and k (after convolution and L2 norm).
        max_length: number of learned positions; needed for position="learned" only.
        short_convolution: taps of a depthwise causal convolution with SiLU after the projections of
            q, k (and v); 0 for none, at least 2 otherwise.
        query_key_norm: L2-normalise q and k.
        output_gate: "none", "silu" or "sigmoid": a vector gate of x over the channels of y.
        output_norm: "none", "rms" or "layer", over the channels of one head.
        bias: biases in the q, k, v and output projections.
        convolution_bias, convolve_values, gate_first, norm_groups, key_heads, learned_direction:
            what a subclass settles for its callers: a bias in the convolution; whether v is
            convolved; order and parts of gate and norm (see ``OutputStage``); the number of (q, k)
            pairs, n_heads if None; a projection z beside q, k and v.

    Linear maps are initialised as torch does; what the authors initialise otherwise is in the
    docstrings of the gates. Random numbers come from torch's current generator.

    Raises:
        ValueError: for sizes or options that do not fit.
    """

    symbols: ClassVar[Symbols]
    #: parameters of this module that its authors exempt from weight decay
    no_weight_decay: ClassVar[tuple[str, ...]] = ("position_table",)

    def __init__(
        self,
        *,
        d_model: int,
        n_heads: int,
        key_dim: int | None,
        value_dim: int | None,
        position: str = "none",
        max_length: int | None = None,
        short_convolution: int = 0,
        convolution_bias: bool = False,
        convolve_values: bool = True,
        query_key_norm: bool = False,
        output_gate: str = "none",
        output_norm: str = "none",
        gate_first: bool = False,
        norm_groups: int | None = None,
        bias: bool = False,
        key_heads: int | None = None,
        learned_direction: bool = False,
    ) -> None:
        super().__init__()
        self.d_model = check_count("d_model", d_model)
        self.n_heads = check_count("n_heads", n_heads)
        self.key_dim = head_dim("key_dim", key_dim, d_model, n_heads)
        self.value_dim = head_dim("value_dim", value_dim, d_model, n_heads)
        self.query_key_norm = check_flag("query_key_norm", query_key_norm)
        check_choice("output_gate", output_gate, GATES)
        check_choice("output_norm", output_norm, NORMS)
        if short_convolution != 0:
            check_count("short_convolution (0 for none, else its taps)", short_convolution, least=2)
        self._set_position(position, max_length)

        def projection(heads: int, width: int, convolve: bool = True) -> HeadProjection:
            return HeadProjection(
                d_model=d_model,
                n_heads=heads,
                width=width,
                bias=check_flag("bias", bias),
                convolution=short_convolution if convolve else 0,
                convolution_bias=convolution_bias,
            )

        heads = n_heads if key_heads is None else key_heads
        parts = {
            "query": projection(heads, self.key_dim),
            "key": projection(heads, self.key_dim),
            "value": projection(n_heads, self.value_dim, convolve_values),
        }
        if learned_direction:
            parts["direction"] = projection(heads, self.key_dim)
        self.project = nn.ModuleDict(parts)
        self.output = OutputStage(
            d_model=d_model,
            n_heads=n_heads,
            value_dim=self.value_dim,
            gate=output_gate,
            norm=output_norm,
            gate_first=gate_first,
            norm_groups=norm_groups,
            bias=bias,
        )

    def _set_position(self, position: str, max_length: int | None) -> None:
        self.position = check_choice("position", position, POSITIONS)
        self.position_table = None
        if position == "rotary" and self.key_dim % 2:
            raise ValueError(
                f"position='rotary' turns pairs of channels; key_dim={self.key_dim} is odd."
            )
        if position == "learned":
            if max_length is None:
                raise ValueError(
                    "position='learned' needs max_length, the longest sequence in tokens."
                )
            length = check_count("max_length", max_length)
            self.position_table = nn.Parameter(0.02 * torch.randn(length, self.d_model))
        elif max_length is not None:
            raise ValueError(
                f"max_length is for position='learned' only; position={position!r} has no limit."
            )

    @abstractmethod
    def build(self, tokens: Tokens) -> CoefficientDynamics:
        """The four ingredients for these tokens: the one thing that differs between mixers."""

    def dynamics(
        self, x: Float[Tensor, "*batch L d"]
    ) -> tuple[CoefficientDynamics, Float[Tensor, "*heads L dv"]]:
        """The coefficient dynamics of x and the values; heads are the last leading axis.

        Args:
            x: ``(..., L, d_model)``.

        Returns:
            dynamics with batch shape ``(..., H)``, and v ``(..., H, L, d_v)``.
        """
        tokens = self.tokens(x)[0]
        return self.build(tokens), tokens.v

    def forward(
        self, x: Float[Tensor, "*batch L d"], method: str = "auto"
    ) -> Float[Tensor, "*batch L d"]:
        """y ``(..., L, d_model)``; ``method`` as in ``CoefficientDynamics.apply``."""
        tokens = self.tokens(x)[0]
        y = self.build(tokens).apply(tokens.v, method=method)
        return self.finish(y, tokens)

    def extend(
        self, x: Float[Tensor, "*batch L d"], state: MixerState | None = None
    ) -> tuple[Float[Tensor, "*batch L d"], MixerState]:
        """Continue a sequence by L more tokens; equals the whole sequence at once."""
        tokens, past = self.tokens(x, state)
        y, inner = self.build(tokens).step(tokens.v, None if state is None else state.dynamics)
        return self.finish(y, tokens), MixerState(tokens.start + x.shape[-2], past, inner)

    def step(
        self, x_t: Float[Tensor, "*batch d"], state: MixerState | None = None
    ) -> tuple[Float[Tensor, "*batch d"], MixerState]:
        """One token ``(..., d_model)`` and the state (None at first) to y_t and the new state."""
        y, state = self.extend(x_t[..., None, :], state)
        return y[..., 0, :], state

    def tokens(
        self, x: Float[Tensor, "*batch L d"], state: MixerState | None = None
    ) -> tuple[Tokens, dict[str, Tensor]]:
        """Project x to q, k, v (and z); also the convolutions' memory after these tokens."""
        self._check_input(x, state)
        start = 0 if state is None else state.position
        if self.position_table is not None:
            x = x + self._learned_positions(self.position_table, start, x.shape[-2])
        parts: dict[str, Tensor] = {}
        past: dict[str, Tensor] = {}
        for name, part in self.project.items():
            before = None if state is None else state.past.get(name)
            parts[name], after = part(x, before)
            if after is not None:
                past[name] = after
        q, k, v = parts["query"], parts["key"], parts["value"]
        if self.query_key_norm:
            q, k = l2_normalize(q), l2_normalize(k)
        if self.position == "rotary":
            q, k = rotate_positions(q, start), rotate_positions(k, start)
        return Tokens(x=x, q=q, k=k, v=v, z=parts.get("direction"), start=start), past

    def finish(self, y: Float[Tensor, "*heads L dv"], tokens: Tokens) -> Tensor:
        """Output norm and gate, heads merged, output projection."""
        return self.output(y, tokens.x)

    def state_size(self) -> int | None:
        """Numbers kept per sequence while generating; None if that grows with the length."""
        first, second = self._numbers_kept(1), self._numbers_kept(2)
        return first if first == second else None

    def state_growth(self) -> int:
        """Numbers added to the state by every further token (0 for a state of fixed size)."""
        return self._numbers_kept(2) - self._numbers_kept(1)

    @torch.no_grad()
    def _numbers_kept(self, length: int) -> int:
        like = self.output.projection.weight
        state = self.extend(like.new_zeros(length, self.d_model))[1]
        return state.numbers()

    def no_weight_decay_names(self) -> set[str]:
        """Names (as in ``named_parameters``) of the parameters to exempt from weight decay."""
        return {
            f"{prefix}.{name}" if prefix else name
            for prefix, module in self.named_modules()
            for name in getattr(module, "no_weight_decay", ())
            if isinstance(getattr(module, name, None), nn.Parameter)
        }

    def _learned_positions(self, table: Tensor, start: int, length: int) -> Tensor:
        limit = table.shape[0]
        if start + length > limit:
            raise ValueError(
                f"position='learned' holds max_length={limit} positions, but token "
                f"{start + length} was asked for; build the mixer with a larger "
                "max_length, or use position='rotary'."
            )
        return table[start : start + length]

    def _check_input(self, x: Tensor, state: MixerState | None = None) -> None:
        if not isinstance(x, Tensor) or not x.is_floating_point():
            got = x.dtype if isinstance(x, Tensor) else type(x).__name__
            raise ValueError(
                f"x must be a floating-point tensor (..., L, d_model), got {got}; token ids pass "
                "through an embedding first (coefdyn.models), other numbers through .float()."
            )
        if state is not None and not isinstance(state, MixerState):
            raise ValueError(
                f"state must be what the previous call returned, got {type(state).__name__}; "
                "before the first token it is None."
            )
        if x.ndim < 2 or x.shape[-1] != self.d_model:
            raise ValueError(
                f"x must have shape (..., L, d_model) with d_model={self.d_model}, "
                f"got {tuple(x.shape)}."
            )

    def extra_repr(self) -> str:
        return (
            f"d_model={self.d_model}, n_heads={self.n_heads}, key_dim={self.key_dim}, "
            f"value_dim={self.value_dim}, position={self.position!r}"
        )
