"""Mixers of q, k and v heads, with the options that their papers share."""

from __future__ import annotations

import inspect
from typing import Any, ClassVar, TypedDict, Unpack

import torch
from torch import nn
from torch.nn import functional

from coefdyn.dynamics.documents import Documents
from coefdyn.mixers.base import Mixer, MixerState, Tokens
from coefdyn.mixers.gates import HeadGate
from coefdyn.mixers.projections import (
    HeadProjection,
    OutputStage,
    head_sizes,
    l2_normalize,
    rotate_positions,
)
from coefdyn.mixers.tokens import first, longest
from coefdyn.options import check_choice, check_count, check_flag, did_you_mean
from coefdyn.shapes import Float, Tensor

__all__ = [
    "POSITIONS",
    "HeadChoices",
    "HeadMixer",
    "HeadOptions",
    "StageOptions",
    "constant_scaling",
]

POSITIONS = ("none", "learned", "rotary")


class StageOptions(TypedDict, total=False):
    """Options of the stages before and after the dynamics: convolution, gate, norm, biases.

    short_convolution: taps of a depthwise causal convolution with SiLU after the projections of q,
        k (and v); 0 for none, at least 2 otherwise.
    output_gate: "none", "silu" or "sigmoid": a vector gate of x over the channels of y.
    output_norm: "none", "rms" or "layer", over the channels of one head.
    bias: biases in the q, k, v and output projections.
    """

    short_convolution: int
    output_gate: str
    output_norm: str
    bias: bool


class HeadChoices(StageOptions, total=False):
    """Options of ``HeadOptions`` that a mixer may fix itself: all but its width and heads.

    key_dim: n of ONE head (the papers' tables count all heads); d_model / n_heads if None.
    value_dim: d_v of ONE head; d_model / n_heads if None.
    position: "none"; "learned" adds a learned vector per position to x before all projections;
        "rotary" turns q and k (after convolution and L2 norm).
    max_length: number of learned positions; needed for position="learned" only.
    query_key_norm: L2-normalise q and k.
    """

    key_dim: int | None
    value_dim: int | None
    position: str
    max_length: int | None
    query_key_norm: bool


class HeadOptions(HeadChoices):
    """Options of every mixer of q, k and v heads: ``HeadChoices`` and the two required ones.

    d_model: width of x.
    n_heads: number of heads H.
    """

    d_model: int
    n_heads: int


#: the defaults of every mixer that chooses nothing else
PLAIN = HeadChoices(
    key_dim=None,
    value_dim=None,
    position="none",
    max_length=None,
    short_convolution=0,
    query_key_norm=False,
    output_gate="none",
    output_norm="none",
    bias=False,
)


class HeadMixer(Mixer):
    """A mixer of q, k and v heads; a paper's definition adds ``build`` and its own gates.

    A subclass says in ``defaults`` which of ``HeadOptions`` its authors choose, and in ``settled``
    which of them its callers cannot change.

    Args:
        heads: see ``HeadOptions``; without them there is no convolution, gate, norm or position.
        convolution_bias: a bias in the convolution.
        convolve_values: whether v is convolved.
        gate_first, norm_groups: order and parts of gate and norm, see ``OutputStage``.
        key_heads: the number of (q, k) pairs, n_heads if None.
        share_pairs: whether each pair is handed to n_heads / key_heads heads.
        writes: keys and values per head and token; their heads lie side by side.
        learned_direction: a projection z beside q, k and v.

    Raises:
        TypeError: for options that it does not have, or lacks.
        ValueError: for values that do not fit.
    """

    #: options that a class chooses when the caller does not
    defaults: ClassVar[StageOptions] = StageOptions()
    #: options that a class fixes: giving one is an error
    settled: ClassVar[StageOptions] = StageOptions()
    #: projections followed by SiLU, besides the SiLU that a convolution brings
    activated: ClassVar[tuple[str, ...]] = ()
    no_weight_decay: ClassVar[tuple[str, ...]] = ("position_table",)

    def __init__(
        self,
        *,
        convolution_bias: bool = False,
        convolve_values: bool = True,
        gate_first: bool = False,
        norm_groups: int | None = None,
        key_heads: int | None = None,
        share_pairs: bool = False,
        writes: int = 1,
        learned_direction: bool = False,
        **heads: Unpack[HeadOptions],
    ) -> None:
        self._check_names(heads)
        chosen: HeadOptions = {**PLAIN, **self.defaults, **heads, **self.settled}  # type: ignore[typeddict-item]
        d_model, n_heads = chosen["d_model"], chosen["n_heads"]
        n, dv = head_sizes(d_model, n_heads, chosen["key_dim"], chosen["value_dim"])
        table = _position_table(chosen, n)

        def projection(heads: int, width: int, convolve: bool = True) -> HeadProjection:
            return HeadProjection(
                d_model=d_model,
                n_heads=heads,
                width=width,
                bias=chosen["bias"],
                convolution=chosen["short_convolution"] if convolve else 0,
                convolution_bias=convolution_bias,
            )

        pairs = n_heads if key_heads is None else check_count("key_heads", key_heads)
        if share_pairs and n_heads % pairs:
            raise ValueError(
                f"key_heads must divide n_heads={n_heads}: each pair of q and k serves the same "
                f"number of heads; got {key_heads}."
            )
        project = {
            "query": projection(pairs, n),
            "key": projection(pairs * writes, n),
            "value": projection(n_heads * writes, dv, convolve_values),
        }
        if learned_direction:
            project["direction"] = projection(pairs, n)
        output = OutputStage(
            d_model=d_model,
            n_heads=n_heads,
            value_dim=dv,
            gate=chosen["output_gate"],
            norm=chosen["output_norm"],
            gate_first=gate_first,
            norm_groups=norm_groups,
            bias=chosen["bias"],
        )
        super().__init__(
            d_model=d_model,
            n_heads=n_heads,
            key_dim=n,
            value_dim=dv,
            project=project,
            output=output,
        )
        #: number of heads that share each pair of q and k
        self.readers = n_heads // pairs if share_pairs else 1
        self.query_key_norm = check_flag("query_key_norm", chosen["query_key_norm"])
        self.position, self.position_table = chosen["position"], table

    @torch.no_grad()
    def begin(self) -> None:
        """Fill the learned positions, N(0, 0.02)."""
        if self.position_table is not None:
            self.position_table.copy_(0.02 * torch.randn_like(self.position_table))

    def head_gate(self, kind: str, factor: float = 1.0) -> HeadGate:
        """One learned number per head and token, see ``HeadGate``."""
        return HeadGate(d_model=self.d_model, n_heads=self.n_heads, kind=kind, factor=factor)

    def _check_names(self, given: HeadOptions) -> None:
        """Raise Python's own error for a wrong keyword among forwarded options."""
        name = type(self).__name__
        own = inspect.signature(type(self).__init__).parameters
        known = (set(HeadOptions.__annotations__) | set(own)) - {"self", "heads", *self.settled}
        settled = dict(self.settled)
        for option in given:
            if option in settled:
                raise TypeError(f"{name} settles {option}={settled[option]!r}; leave it out.")
            if option not in known:
                raise TypeError(f"{name} has no option {option!r}{did_you_mean(option, known)}")
        missing = [option for option in ("d_model", "n_heads") if option not in given]
        if missing:
            raise TypeError(f"{name} needs {' and '.join(missing)}.")

    def tokens(
        self,
        x: Float[Tensor, "*batch L d"],
        state: MixerState | None = None,
        documents: Documents | None = None,
    ) -> tuple[Tokens, dict[str, Any]]:
        self.check_input(x, state)
        start: int | Tensor = first(state)
        places: Tensor | None = None if documents is None else documents.positions
        if self.position_table is not None:
            x = x + self._learned_positions(self.position_table, first(state), x.shape[-2], places)
        parts, past = self.parts(x, state, documents=documents)
        for name in self.activated:
            parts[name] = functional.silu(parts[name])
        q, k, v = parts["query"], parts["key"], parts["value"]
        if self.query_key_norm:
            q, k = l2_normalize(q), l2_normalize(k)
        if places is not None:
            start = places[..., None, :]
        if self.position == "rotary":
            q, k = rotate_positions(q, start), rotate_positions(k, start)
        z = parts.get("direction")
        if self.readers > 1:
            q, k = (one.repeat_interleave(self.readers, dim=-3) for one in (q, k))
            z = None if z is None else z.repeat_interleave(self.readers, dim=-3)
        tokens = Tokens(x=x, q=q, k=k, v=v, z=z, start=first(state), documents=documents)
        return self.arranged(tokens, None if state is None else state.past, past), past

    def _learned_positions(
        self, table: Tensor, start: int, length: int, places: Tensor | None
    ) -> Tensor:
        limit = table.shape[0]
        end = start + length if places is None else longest(places)
        if end > limit:
            raise ValueError(
                f"position='learned' holds max_length={limit} positions, but token "
                f"{end} was asked for; build the mixer with a larger "
                "max_length, or use position='rotary'."
            )
        return table[start:end] if places is None else table[places]

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, position={self.position!r}"


def _position_table(chosen: HeadOptions, key_dim: int) -> nn.Parameter | None:
    """Learned positions, N(0, 0.02), or None without any."""
    position, max_length = chosen["position"], chosen["max_length"]
    check_choice("position", position, POSITIONS)
    if position == "rotary" and key_dim % 2:
        raise ValueError(f"position='rotary' turns pairs of channels; key_dim={key_dim} is odd.")
    if position == "learned":
        if max_length is None:
            raise ValueError("position='learned' needs max_length, the longest sequence in tokens.")
        length = check_count("max_length", max_length)
        return nn.Parameter(0.02 * torch.randn(length, chosen["d_model"]))
    if max_length is not None:
        raise ValueError(
            f"max_length is for position='learned' only; position={position!r} has no limit."
        )
    return None


def constant_scaling(value: str, key_dim: int) -> float:
    """b_j for scaling="inverse_sqrt" (1/sqrt(n)) or "one"."""
    check_choice("scaling", value, ("inverse_sqrt", "one"))
    return key_dim**-0.5 if value == "inverse_sqrt" else 1.0
