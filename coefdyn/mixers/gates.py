"""Input-dependent scalars and vectors per head: decays, step sizes, beta, eta, exponential gates.

All of them read x ``(..., L, d_model)`` and return ``(..., H, L)``, or ``(..., H, L, width)``.
``no_weight_decay`` names the parameters that their authors exempt from weight decay,
``keep_float32`` those that stay in float32 where all others are of half precision.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

import torch
from torch import nn
from torch.nn import functional

from coefdyn.mixers.elementwise import softplus
from coefdyn.mixers.initial import Linear, Resettable, draw_timestep
from coefdyn.mixers.projections import split_heads
from coefdyn.shapes import Float, Tensor

__all__ = ["ETA_MAPS", "ChannelDecay", "HeadGate", "LowRankDecay", "TimestepDecay", "timestep_gate"]

#: the eta maps of normalized attention (DSF paper, eq. 22, 29, 30) and the other per-head gates
ETA_MAPS: dict[str, Callable[[Tensor], Tensor]] = {
    "exp": torch.exp,
    "softplus": softplus,
    "sigmoid": torch.sigmoid,
}


class HeadGate(Resettable):
    """One number per head and token: ``factor * map(W x_t + bias)``, (..., H, L).

    Args:
        d_model, n_heads: sizes.
        kind: "sigmoid", "softplus" or "exp".
        factor: multiplies the result (2 gives beta in (0, 2)).
        bias: a learned offset per head; a function fills its initial values in place.
    """

    def __init__(
        self,
        *,
        d_model: int,
        n_heads: int,
        kind: str,
        factor: float = 1.0,
        bias: bool | Callable[[Tensor], object] = False,
    ) -> None:
        super().__init__()
        self.kind, self.factor = kind, factor
        self.linear = (
            nn.Linear(d_model, n_heads, bias=bias)
            if isinstance(bias, bool)
            else Linear(d_model, n_heads, start=bias)
        )

    def forward(self, x: Float[Tensor, "*batch L d"]) -> Float[Tensor, "*batch H L"]:
        return self.factor * ETA_MAPS[self.kind](self.linear(x)).transpose(-1, -2)


class LowRankDecay(Resettable):
    """GLA's parameterisation: log a_t = logsigmoid(W_2 W_1 x_t + c) / 16, in nats per token.

    W_1 has rank 16 and no bias (Yang et al., 2023, section 4.4). At initialisation a_t is about
    0.5^(1/16) = 0.958: a horizon of 23 tokens.

    Args:
        d_model, n_heads: sizes.
        width: decays per head; None for one scalar per head.
        rank: inner size of W_2 W_1.
        temperature: the 16 above; larger forgets more slowly.

    Raises:
        ValueError: for a temperature that is not positive.
    """

    def __init__(
        self,
        *,
        d_model: int,
        n_heads: int,
        width: int | None,
        rank: int = 16,
        temperature: float = 16.0,
    ) -> None:
        super().__init__()
        if not temperature > 0:
            raise ValueError(f"the decay's temperature must be positive, got {temperature!r}.")
        self.n_heads, self.width, self.temperature = n_heads, width, temperature
        self.down = nn.Linear(d_model, rank, bias=False)
        self.up = nn.Linear(rank, n_heads * (width or 1), bias=True)

    def forward(self, x: Float[Tensor, "*batch L d"]) -> Tensor:
        """log a_t <= 0, ``(..., H, L, width)`` or ``(..., H, L)``."""
        log_decay = functional.logsigmoid(self.up(self.down(x))) / self.temperature
        heads = split_heads(log_decay, self.n_heads)
        return heads if self.width is not None else heads.squeeze(-1)


def timestep_gate(*, d_model: int, n_heads: int) -> HeadGate:
    """Delta_t = softplus(W x_t + c) alone, one per head, with Mamba-2's initial c."""
    return HeadGate(d_model=d_model, n_heads=n_heads, kind="softplus", bias=draw_timestep)


class TimestepDecay(Resettable):
    """Mamba-2's parameterisation: log a_t = -Delta_t a with Delta_t = softplus(W x_t + c), a > 0.

    c is initialised so that Delta is log-uniform in [0.001, 0.1]; a is uniform in ``a_range``
    (Mamba-2: [1, 16], Gated DeltaNet: [0, 16]) and stored as its logarithm.

    Args:
        d_model, n_heads: sizes.
        width: decays per head; None for one scalar per head.
        a_range: range of a at initialisation.
        input_dependent: False fixes Delta to softplus(c) (the eigenvalue paper's modification).
    """

    no_weight_decay: ClassVar[tuple[str, ...]] = ("log_a", "delta_bias")
    keep_float32: ClassVar[tuple[str, ...]] = ("log_a", "delta_bias")

    def __init__(
        self,
        *,
        d_model: int,
        n_heads: int,
        width: int | None = None,
        a_range: tuple[float, float] = (1.0, 16.0),
        input_dependent: bool = True,
    ) -> None:
        super().__init__()
        self.n_heads, self.width, self.a_range = n_heads, width, a_range
        channels = n_heads * (width or 1)
        self.linear = nn.Linear(d_model, channels, bias=False) if input_dependent else None
        self.delta_bias = nn.Parameter(torch.empty(channels))
        self.log_a = nn.Parameter(torch.empty(channels))
        TimestepDecay.start(self)

    @torch.no_grad()
    def start(self) -> None:
        """Fill c, then log a."""
        draw_timestep(self.delta_bias)
        self.log_a.uniform_(*self.a_range).clamp_min_(1e-4).log_()

    def forward(self, x: Float[Tensor, "*batch L d"]) -> tuple[Tensor, Tensor]:
        """(log a_t <= 0 in nats per token, Delta_t > 0), shaped as LowRankDecay's."""
        if self.linear is None:
            delta = softplus(self.delta_bias).expand(*x.shape[:-1], -1)
        else:
            delta = softplus(self.linear(x) + self.delta_bias)
        pair = (-delta * self.log_a.exp(), delta)
        heads = tuple(split_heads(value, self.n_heads) for value in pair)
        if self.width is None:
            heads = tuple(value.squeeze(-1) for value in heads)
        return heads[0], heads[1]


class ChannelDecay(Resettable):
    """log a_t = -exp(c_h) softplus(W_2 W_1 x_t + d): one rate per head, one gate per channel.

    W_1 has rank n and no bias; exp(c_h) is uniform in [1, 16] and softplus(d) log-uniform in
    [0.001, 0.1] at initialisation, both without weight decay.

    Args:
        d_model, n_heads: sizes.
        width: channels per head.
    """

    no_weight_decay: ClassVar[tuple[str, ...]] = ("log_rate", "bias")
    keep_float32: ClassVar[tuple[str, ...]] = ("log_rate", "bias")

    def __init__(self, *, d_model: int, n_heads: int, width: int) -> None:
        super().__init__()
        self.n_heads = n_heads
        self.down = nn.Linear(d_model, width, bias=False)
        self.up = nn.Linear(width, n_heads * width, bias=False)
        self.bias = nn.Parameter(torch.empty(n_heads * width))
        self.log_rate = nn.Parameter(torch.empty(n_heads))
        ChannelDecay.start(self)

    @torch.no_grad()
    def start(self) -> None:
        """Fill d, then c."""
        draw_timestep(self.bias)
        self.log_rate.uniform_(1.0, 16.0).log_()

    def forward(self, x: Float[Tensor, "*batch L d"]) -> Float[Tensor, "*heads L n"]:
        """log a_t <= 0 in nats per token, ``(..., H, L, n)``."""
        gate = softplus(self.up(self.down(x)) + self.bias)
        return -self.log_rate.exp()[:, None, None] * split_heads(gate, self.n_heads)
