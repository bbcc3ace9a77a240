"""RG-LRU, the recurrent layer of Griffin (De et al., 2024): beyond Table 1."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional

from coefdyn import CoefficientDynamics, evolution, normalizer, readout
from coefdyn.mixers.base import Mixer, MixerState, Symbols, Tokens
from coefdyn.mixers.options import check_count
from coefdyn.mixers.projections import merge_heads, split_heads
from coefdyn.shapes import Float, Tensor

__all__ = ["RGLRU"]


class RGLRU(Mixer):
    r"""RG-LRU: one head per channel, n = d_v = 1, and a write that undoes the decay's gain.

        A_t = a_t = exp(-sharpness r_t softplus(lambda))    r_t = sigmoid(W_r u_t)
        b_j = sqrt(1 - a_j^2)    k_j = sigmoid(W_i u_j)    v_j = u_j    q_i = 1
        phi = identity    eta_i = 1    output = W_o (y * SiLU(W_g x))

    u is x after a linear map and the short convolution. One lambda (``raw_speed``) per channel.

    Args:
        d_model: width of x.
        channels: number of channels of u; d_model if None (Griffin: about 4/3 d_model).
        sharpness: the authors' c = 8.
        short_convolution, output_gate, output_norm, bias: see ``Mixer``; the norm runs over all
            channels. The gates always have biases.

    Initialisation: exp(-sharpness softplus(lambda)) uniform in [0.9, 0.999], so that the
    half-life is 13 to 1400 tokens at r_t = 1/2. Differences: dense gate matrices where the authors
    take block-diagonal ones; SiLU for their GELU; the convolution is followed by SiLU.
    Source: the authors' equations 1 to 4; DSF paper, eq. 9, 10 and 21.
    """

    symbols = Symbols(
        title="RG-LRU",
        evolution=r"e^{-c\, r_t\, \mathrm{softplus}(\lambda)}",
        scaling=r"\sqrt{1 - a_j^2}",
        readout=r"\mathrm{Id}(\cdot)",
        normalizer=r"1",
        source="DSF paper, eq. 21",
    )

    def __init__(
        self,
        *,
        d_model: int,
        channels: int | None = None,
        sharpness: float = 8.0,
        short_convolution: int = 4,
        output_gate: str = "silu",
        output_norm: str = "none",
        bias: bool = False,
    ) -> None:
        channels = check_count("channels", d_model if channels is None else channels)
        if not sharpness > 0:
            raise ValueError(f"sharpness must be positive, got {sharpness!r}.")
        super().__init__(
            d_model=d_model,
            n_heads=channels,
            key_dim=1,
            value_dim=1,
            short_convolution=short_convolution,
            convolution_bias=True,
            output_gate=output_gate,
            output_norm=output_norm,
            norm_groups=1,
            bias=bias,
        )
        self.project = nn.ModuleDict({"value": self.project["value"]})  # q = 1, k reads u
        self.sharpness = sharpness
        self.recurrence_gate = nn.Linear(channels, channels)
        self.input_gate = nn.Linear(channels, channels)
        decay = torch.empty(channels).uniform_(0.9, 0.999)
        self.raw_speed = nn.Parameter(torch.expm1(-decay.log() / sharpness).log())

    def tokens(
        self, x: Float[Tensor, "*batch L d"], state: MixerState | None = None
    ) -> tuple[Tokens, dict[str, Tensor]]:
        """u as the values, its input gate as the keys, queries 1; the convolution's memory."""
        self._check_input(x, state)
        start, past = (0, {}) if state is None else (state.position, state.past)
        v, after = self.project["value"](x, past.get("value"))
        k = split_heads(torch.sigmoid(self.input_gate(merge_heads(v))), self.n_heads).to(v.dtype)
        memory = {} if after is None else {"value": after}
        return Tokens(x=x, q=torch.ones_like(k), k=k, v=v, z=None, start=start), memory

    def log_decay(self, tokens: Tokens) -> Float[Tensor, "*heads L"]:
        """log a_t < 0 in nats per token, ``(..., channels, L)``."""
        gate = torch.sigmoid(self.recurrence_gate(merge_heads(tokens.v))).transpose(-1, -2)
        speed = functional.softplus(self.raw_speed)[:, None]
        return tokens.match(-self.sharpness * gate * speed)

    def build(self, tokens: Tokens) -> CoefficientDynamics:
        log_decay = self.log_decay(tokens)
        smallest = torch.finfo(log_decay.dtype).tiny  # the root's slope at 0 is infinite
        return CoefficientDynamics(
            q=tokens.q,
            k=tokens.k,
            evolution=evolution.Diagonal(log_decay=log_decay[..., None]),
            scaling=(-torch.expm1(2 * log_decay)).clamp_min(smallest).sqrt(),
            readout=readout.identity,
            normalizer=normalizer.One(),
        )
