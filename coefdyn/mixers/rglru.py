"""RG-LRU, the recurrent layer of Griffin (De et al., 2024): beyond Table 1."""

from __future__ import annotations

from typing import Unpack

import torch
from torch import nn

from coefdyn import CoefficientDynamics, evolution, normalizer, readout
from coefdyn.mixers.base import Symbols, Tokens
from coefdyn.mixers.channels import ChannelMixer
from coefdyn.mixers.elementwise import softplus
from coefdyn.mixers.heads import StageOptions
from coefdyn.mixers.projections import merge_heads, split_heads
from coefdyn.shapes import Float, Tensor

__all__ = ["RGLRU"]


class RGLRU(ChannelMixer):
    r"""RG-LRU: one head per channel, n = d_v = 1, and a write that undoes the decay's gain.

        A_t = a_t = exp(-sharpness r_t softplus(lambda))    r_t = sigmoid(W_r u_t)
        b_j = sqrt(1 - a_j^2)    k_j = sigmoid(W_i u_j)    v_j = u_j    q_i = 1
        phi = identity    eta_i = 1    output = W_o (y * SiLU(W_g x))

    u is x after a linear map and the short convolution. One lambda (``raw_speed``) per channel.

    Args:
        d_model: width of x.
        channels: number of channels of u; d_model if None (Griffin: about 4/3 d_model).
        sharpness: the authors' c = 8.
        stage: see ``StageOptions``; 4 taps and a SiLU gate if not said otherwise. The norm runs
            over all channels. The gates always have biases.

    Initialisation: exp(-sharpness softplus(lambda)) uniform in [0.9, 0.999], so that the
    half-life is 13 to 1400 tokens at r_t = 1/2. Differences: dense gate matrices where the authors
    take block-diagonal ones; SiLU for their GELU; the convolution is followed by SiLU.
    Source: the authors' equations 1 to 4; DSF paper, eq. 9, 10 and 21.

    Raises:
        ValueError: for a sharpness that is not positive.
    """

    keep_float32 = ("raw_speed",)
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
        **stage: Unpack[StageOptions],
    ) -> None:
        if not sharpness > 0:
            raise ValueError(f"sharpness must be positive, got {sharpness!r}.")
        super().__init__(d_model=d_model, channels=channels, key_dim=1, **stage)
        channels = self.n_heads
        self.sharpness = sharpness
        self.recurrence_gate = nn.Linear(channels, channels)
        self.input_gate = nn.Linear(channels, channels)
        self.raw_speed = nn.Parameter(torch.empty(channels))
        RGLRU.start(self)

    @torch.no_grad()
    def start(self) -> None:
        """Fill lambda."""
        decay = torch.empty_like(self.raw_speed).uniform_(0.9, 0.999)
        self.raw_speed.copy_(torch.expm1(-decay.log() / self.sharpness).log())

    def queries_and_keys(self, u: Tensor) -> tuple[Tensor, Tensor]:
        k = split_heads(torch.sigmoid(self.input_gate(u)), self.n_heads).to(u.dtype)
        return torch.ones_like(k), k

    def log_decay(self, tokens: Tokens) -> Float[Tensor, "*heads L"]:
        """log a_t < 0 in nats per token, ``(..., channels, L)``."""
        gate = torch.sigmoid(self.recurrence_gate(merge_heads(tokens.v))).transpose(-1, -2)
        speed = softplus(self.raw_speed)[:, None]
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
