"""From tokens to heads and back: projections, short convolution, positions, output stage.

Nothing here belongs to one architecture. Layout: x ``(..., L, d_model)``; heads ``(..., H, L, n)``.
"""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import nn
from torch.nn import functional

from coefdyn.mixers.initial import Resettable
from coefdyn.options import check_choice, check_count, check_flag
from coefdyn.shapes import Float, Int, Tensor

__all__ = [
    "GATES",
    "NORMS",
    "HeadProjection",
    "OutputStage",
    "ShortConvolution",
    "at_least_float32",
    "head_sizes",
    "l2_normalize",
    "merge_heads",
    "rotate_positions",
    "split_heads",
]

GATES = ("none", "silu", "sigmoid")
NORMS = ("none", "rms", "layer")


def head_sizes(
    d_model: int, n_heads: int, key_dim: int | None, value_dim: int | None
) -> tuple[int, int]:
    """Head sizes (n, d_v): as given, or d_model / n_heads.

    Raises:
        ValueError: for sizes that are no whole numbers, or no multiple of the heads.
    """
    check_count("d_model", d_model)
    check_count("n_heads", n_heads)
    sizes = []
    for name, size in (("key_dim", key_dim), ("value_dim", value_dim)):
        if size is None and d_model % n_heads:
            raise ValueError(
                f"d_model={d_model} is not a multiple of n_heads={n_heads}, so {name} has no "
                f"default; give {name} (the size of one head)."
            )
        sizes.append(check_count(name, d_model // n_heads if size is None else size))
    return sizes[0], sizes[1]


def split_heads(x: Float[Tensor, "*batch L width"], n_heads: int) -> Float[Tensor, "*batch H L n"]:
    """``(..., L, H * n)`` to ``(..., H, L, n)``."""
    return x.unflatten(-1, (n_heads, -1)).transpose(-3, -2)


def merge_heads(y: Float[Tensor, "*batch H L n"]) -> Float[Tensor, "*batch L width"]:
    """``(..., H, L, n)`` to ``(..., L, H * n)``."""
    return y.transpose(-3, -2).flatten(-2)


def at_least_float32(x: Tensor) -> Tensor:
    """x itself, or in float32 where it is of half precision: for sums and squares."""
    return x.to(torch.promote_types(x.dtype, torch.float32))


def l2_normalize(x: Float[Tensor, "*any n"], eps: float = 1e-6) -> Float[Tensor, "*any n"]:
    """x / sqrt(|x|^2 + eps): eps inside the root, as in fla's DeltaNet.

    Squares are summed in float32 at least, since those of float16 leave its range beyond 255.
    """
    wide = at_least_float32(x)
    return (wide * torch.rsqrt(wide.square().sum(-1, keepdim=True) + eps)).to(x.dtype)


def rotate_positions(
    x: Float[Tensor, "*batch L n"], start: int | Int[Tensor, "*#batch L"], base: float = 1e4
) -> Float[Tensor, "*batch L n"]:
    """Rotary positions (Su et al., 2021): channels r and r + n/2 turned by i base^(-2r/n).

    Args:
        x: queries or keys; n even.
        start: index of the first token, or of every token.
        base: the longest period is about 2 pi base tokens.
    """
    half = x.shape[-1] // 2
    exact = torch.promote_types(x.dtype, torch.float32)
    if isinstance(start, int):
        index = torch.arange(start, start + x.shape[-2], device=x.device, dtype=exact)
    else:
        index = start.to(exact)
    speed = base ** (-torch.arange(half, device=x.device, dtype=exact) / half)
    angle = index[..., None] * speed
    cos, sin = angle.cos().to(x.dtype), angle.sin().to(x.dtype)
    first, second = x[..., :half], x[..., half:]
    return torch.cat([first * cos - second * sin, second * cos + first * sin], dim=-1)


class ShortConvolution(Resettable):
    """Depthwise causal convolution over time, then SiLU (Mamba-2, DeltaNet and others).

        y_i = SiLU(bias + sum_{s < width} w_s * x_{i-s})            (zeros before the first token)

    Args:
        channels: number of channels.
        width: taps, the current token included.
        bias: a learned offset per channel (Mamba-2: yes; DeltaNet: no).

    Initialised as torch.nn.Conv1d: uniform within 1/sqrt(width).
    """

    def __init__(self, *, channels: int, width: int, bias: bool) -> None:
        super().__init__()
        self.width = width
        self.weight = nn.Parameter(torch.empty(width, channels))
        self.bias = nn.Parameter(torch.empty(channels)) if bias else None
        ShortConvolution.start(self)

    @torch.no_grad()
    def start(self) -> None:
        """Fill weights and bias, uniform within 1/sqrt(width)."""
        bound = self.width**-0.5
        self.weight.uniform_(-bound, bound)
        if self.bias is not None:
            self.bias.uniform_(-bound, bound)

    def forward(
        self,
        x: Float[Tensor, "*batch L c"],
        past: Float[Tensor, "*batch w c"] | None = None,
        positions: Int[Tensor, "*batch L"] | None = None,
    ) -> tuple[Float[Tensor, "*batch L c"], Float[Tensor, "*batch w c"]]:
        """The convolved tokens, and the last ``width - 1`` inputs for the tokens to come.

        ``positions`` of the tokens in their documents let each document begin with zeros. Both
        results keep the dtype of x, also under autocast, where the parameters have another one.
        """
        keep = self.width - 1
        if past is None:
            past = x.new_zeros(*x.shape[:-2], keep, x.shape[-1])
        padded = torch.cat([past, x], dim=-2)
        length = x.shape[-2]
        y = self.weight[0] * x
        for lag in range(1, self.width):
            earlier = padded.narrow(-2, keep - lag, length)
            if positions is not None:
                earlier = earlier.masked_fill((positions < lag)[..., None], 0.0)
            y = y + self.weight[lag] * earlier
        if self.bias is not None:
            y = y + self.bias
        return functional.silu(y).to(x.dtype), padded.narrow(-2, length, keep)


class HeadProjection(Resettable):
    """x to one of q, k, v (or a direction z): linear map, optional short convolution, split heads.

    Args:
        d_model: width of x.
        n_heads: number of heads of the result.
        width: size of one head.
        bias: bias of the linear map.
        convolution: taps of the short convolution; 0 for none.
        convolution_bias: bias of the convolution.
    """

    def __init__(
        self,
        *,
        d_model: int,
        n_heads: int,
        width: int,
        bias: bool = False,
        convolution: int = 0,
        convolution_bias: bool = False,
    ) -> None:
        super().__init__()
        if convolution != 0:
            check_count("short_convolution (0 for none, else its taps)", convolution, least=2)
        self.n_heads = n_heads
        channels = n_heads * width
        self.linear = nn.Linear(d_model, channels, bias=check_flag("bias", bias))
        self.convolution = (
            ShortConvolution(channels=channels, width=convolution, bias=convolution_bias)
            if convolution
            else None
        )

    def forward(
        self,
        x: Float[Tensor, "*batch L d"],
        past: Tensor | None = None,
        positions: Int[Tensor, "*batch L"] | None = None,
    ) -> tuple[Float[Tensor, "*batch2 L n"], Tensor | None]:
        """Heads ``(..., H, L, n)``, and the convolution's memory (None without one)."""
        projected = self.linear(x)
        if self.convolution is not None:
            projected, past = self.convolution(projected, past, positions)
        return split_heads(projected, self.n_heads), past


class OutputStage(Resettable):
    """From heads back to the model: norm, gate, merge, output projection.

        norm(y) * gate(W_g x), then W_o      (gate_first=False: GLA, Gated DeltaNet, mLSTM)
        norm(y * gate(W_g x)), then W_o      (gate_first=True: Mamba-2)

    Args:
        d_model, n_heads, value_dim: sizes.
        gate: "none", "silu" or "sigmoid", a vector gate over every channel of y.
        norm: "none", "rms" or "layer" (no offset). One weight per channel of y; "rms" before
            the gate has one weight for all heads, as in fla.
        gate_first: see above.
        norm_groups: the norm runs over each of this many equal parts of the channels; None for one
            per head.
        bias: bias of the output projection.

    Raises:
        ValueError: for an unknown gate or norm, or a layer norm over a single channel.
    """

    keep_float32: ClassVar[tuple[str, ...]] = ("norm_weight",)

    def __init__(
        self,
        *,
        d_model: int,
        n_heads: int,
        value_dim: int,
        gate: str = "none",
        norm: str = "none",
        gate_first: bool = False,
        norm_groups: int | None = None,
        bias: bool = False,
    ) -> None:
        super().__init__()
        #: constant that the norm adds to the mean square
        self.eps = 1e-5
        #: initial value of the norm's weights
        self.norm_start = 1.0
        channels = n_heads * value_dim
        check_choice("output_gate", gate, GATES)
        check_choice("output_norm", norm, NORMS)
        self.gate_kind, self.norm_kind, self.gate_first = gate, norm, gate_first
        self.gate = None if gate == "none" else nn.Linear(d_model, channels, bias=False)
        self.groups = n_heads if norm_groups is None else norm_groups
        width = channels // self.groups
        if norm == "layer" and width == 1:
            raise ValueError(
                "output_norm='layer' over one channel is 0 whatever the input; "
                "give value_dim >= 2, or use 'rms'."
            )
        shared = norm == "rms" and not gate_first
        shape = (width,) if shared else (self.groups, width)
        self.norm_weight = None if norm == "none" else nn.Parameter(torch.ones(shape))
        self.projection = nn.Linear(channels, d_model, bias=bias)

    @torch.no_grad()
    def start(self) -> None:
        """Fill the norm's weights with ``norm_start``."""
        if self.norm_weight is not None:
            self.norm_weight.fill_(self.norm_start)

    def forward(
        self, y: Float[Tensor, "*batch H L dv"], x: Float[Tensor, "*rest d"]
    ) -> Float[Tensor, "*rest d"]:
        """Heads y ``(..., H, L, d_v)`` and the mixer's input x to ``(..., L, d_model)``."""
        merged = merge_heads(y)
        if self.gate_first:
            merged = self._norm(self._gated(merged, x))
        else:
            merged = self._gated(self._norm(merged), x)
        return self.projection(merged)

    def _gated(self, y: Tensor, x: Tensor) -> Tensor:
        if self.gate is None:
            return y
        z = self.gate(x)
        return y * (functional.silu(z) if self.gate_kind == "silu" else torch.sigmoid(z))

    def _norm(self, y: Tensor) -> Tensor:
        if self.norm_weight is None:
            return y
        grouped = at_least_float32(y).unflatten(-1, (self.groups, -1))
        if self.norm_kind == "layer":
            grouped = grouped - grouped.mean(-1, keepdim=True)
        scale = torch.rsqrt(grouped.square().mean(-1, keepdim=True) + self.eps)
        return (grouped * scale * self.norm_weight).flatten(-2).to(y.dtype)
