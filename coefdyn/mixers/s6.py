"""S6, the selective state space layer of Mamba (Gu & Dao, 2023): beyond Table 1."""

from __future__ import annotations

from typing import Unpack

import torch
from torch import nn

from coefdyn import CoefficientDynamics, evolution, normalizer, readout
from coefdyn.mixers.base import Symbols, Tokens
from coefdyn.mixers.channels import ChannelMixer
from coefdyn.mixers.elementwise import softplus
from coefdyn.mixers.heads import StageOptions
from coefdyn.mixers.initial import Linear, draw_timestep
from coefdyn.mixers.projections import HeadProjection, merge_heads
from coefdyn.options import check_count, check_flag
from coefdyn.shapes import Float, Tensor

__all__ = ["S6"]


class S6(ChannelMixer):
    r"""S6: one head per channel c, d_v = 1; keys and queries are shared by all channels.

        A_{t,c} = diag(exp(-Delta_{t,c} a_c)), a_c in (0, inf)^n    b_{j,c} = Delta_{j,c}
        k_j = W_B u_j    q_i = W_C u_i    v_{j,c} = u_{j,c}    phi = identity    eta_i = 1
        Delta_t = softplus(W_Delta W_u u_t + c)    output = W_o ((y + D u) * gate(W_z x))

    The authors' letters: B for k, C for q. u is x after the input stage: a linear map and the
    short convolution (Mamba's block), or x itself (the S6 layer of the DSF paper, eq. 4 and 19:
    ``input_projection=False, short_convolution=0, output_gate="none"``).

    Args:
        d_model: width of x.
        channels: number of channels of u; d_model if None. Mamba uses 2 d_model.
        key_dim: n, the state expansion of one channel (Mamba: 16).
        timestep_rank: rank p of W_Delta W_u; d_model / 16 rounded up if None.
        input_projection: whether u is a linear map of x, or x itself.
        skip: the term D u, one learned number per channel, 1 at the start.
        stage: see ``StageOptions``; 4 taps and a SiLU gate if not said otherwise. The norm runs
            over all channels. The convolution needs the input projection.

    Initialisation: Delta log-uniform in [0.001, 0.1], a_c = (1, 2, ..., n); a and D are exempt
    from weight decay.

    Raises:
        ValueError: for options that do not fit; u = x needs channels = d_model.
    """

    no_weight_decay = ("log_a", "skip")
    keep_float32 = ("log_a",)
    late = ("query", "key")
    symbols = Symbols(
        title="S6 (Mamba)",
        evolution=r"\mathrm{diag}(e^{-\Delta_t a})",
        scaling=r"\Delta_j",
        readout=r"\mathrm{Id}(\cdot)",
        normalizer=r"1",
        source="DSF paper, eq. 4 and 19",
    )

    def __init__(
        self,
        *,
        d_model: int,
        channels: int | None = None,
        key_dim: int = 16,
        timestep_rank: int | None = None,
        input_projection: bool = True,
        skip: bool = True,
        **stage: Unpack[StageOptions],
    ) -> None:
        super().__init__(
            d_model=d_model,
            channels=channels,
            key_dim=key_dim,
            input_projection=input_projection,
            **stage,
        )
        channels, bias = self.n_heads, stage.get("bias", False)
        for name in ("query", "key"):  # these read u, not x
            self.project[name] = HeadProjection(
                d_model=channels, n_heads=1, width=key_dim, bias=bias
            )
        rank = -(-d_model // 16) if timestep_rank is None else timestep_rank
        self.timestep_down = nn.Linear(channels, check_count("timestep_rank", rank), bias=False)
        self.timestep_up = Linear(rank, channels, start=draw_timestep)
        self.log_a = nn.Parameter(torch.empty(channels, key_dim))
        self.skip = nn.Parameter(torch.empty(channels)) if check_flag("skip", skip) else None
        S6.start(self)

    @torch.no_grad()
    def start(self) -> None:
        """Fill log a with log 1 .. log n, and D with 1."""
        self.log_a.copy_(torch.arange(1.0, self.key_dim + 1).log())
        if self.skip is not None:
            self.skip.fill_(1.0)

    def queries_and_keys(self, u: Tensor) -> tuple[Tensor, Tensor]:
        return self.project["query"](u)[0], self.project["key"](u)[0]

    def timesteps(self, tokens: Tokens) -> Float[Tensor, "*heads L"]:
        """Delta_t > 0 of every channel, ``(..., channels, L)``."""
        raw = self.timestep_up(self.timestep_down(merge_heads(tokens.v)))
        return tokens.match(softplus(raw).transpose(-1, -2))

    def build(self, tokens: Tokens) -> CoefficientDynamics:
        delta = self.timesteps(tokens)
        log_decay = -delta[..., None] * self.log_a.exp()[:, None, :]
        return CoefficientDynamics(
            q=tokens.q,
            k=tokens.k,
            evolution=evolution.Diagonal(log_decay=tokens.match(log_decay)),
            scaling=delta,
            readout=readout.identity,
            normalizer=normalizer.One(),
        )

    def finish(self, y: Tensor, tokens: Tokens) -> Tensor:
        if self.skip is not None:
            y = y + self.skip[:, None, None] * tokens.v
        return super().finish(y, tokens)
