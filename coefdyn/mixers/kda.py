"""Kimi delta attention (Kimi team, 2025, arXiv 2510.26692): Gated DeltaNet, channel by channel."""

from __future__ import annotations

from typing import ClassVar, Unpack

import torch
from torch import nn
from torch.nn import functional

from coefdyn import CoefficientDynamics, evolution, normalizer, readout
from coefdyn.mixers.base import Symbols, Tokens
from coefdyn.mixers.heads import HeadChoices, HeadMixer, HeadOptions, StageOptions
from coefdyn.mixers.initial import Resettable, draw_timestep
from coefdyn.mixers.projections import split_heads
from coefdyn.options import check_flag
from coefdyn.shapes import Float, Tensor

__all__ = ["KDA", "ChannelDecay"]


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
        gate = functional.softplus(self.up(self.down(x)) + self.bias)
        return -self.log_rate.exp()[:, None, None] * split_heads(gate, self.n_heads)


class KDA(HeadMixer):
    r"""Every channel forgets at a rate of its own; then the write erases along its key.

        A_t = (I - beta_t k_t k_t^T) diag(a_t)    b_j = beta_j / sqrt(n)
        phi = identity    eta_i = 1    output = W_o (RMSNorm(y) * sigmoid(W_g x))

    q, k, v and beta as in ``DeltaNet``; a_t from ``ChannelDecay``. As diagonal plus rank one:
    left = beta k and right = a * k.

    Args:
        negative_eigenvalues: beta in (0, 2) instead of (0, 1).
        heads: see ``HeadOptions``.

    Differences: the authors' W_g is a product of rank d_v; ours is a full matrix.
    """

    defaults = StageOptions(short_convolution=4, output_gate="sigmoid", output_norm="rms")
    settled = HeadChoices(query_key_norm=True)
    symbols = Symbols(
        title="Kimi delta attention",
        evolution=r"(\mathbb{I}_n - \beta_t k_t k_t^\top)\,\mathrm{diag}(a_t)",
        scaling=r"\frac{\beta_j}{\sqrt{n}}",
        readout=r"\mathrm{Id}(\cdot)",
        normalizer=r"1",
        source="arXiv 2510.26692",
        year=2025,
        models="Kimi Linear",
    )

    def __init__(self, *, negative_eigenvalues: bool = False, **heads: Unpack[HeadOptions]) -> None:
        super().__init__(**heads)
        factor = 2.0 if check_flag("negative_eigenvalues", negative_eigenvalues) else 1.0
        self.beta = self.head_gate("sigmoid", factor)
        self.decay = ChannelDecay(d_model=self.d_model, n_heads=self.n_heads, width=self.key_dim)

    def build(self, tokens: Tokens) -> CoefficientDynamics:
        beta = tokens.match(self.beta(tokens.x))
        log_decay = tokens.match(self.decay(tokens.x))
        return CoefficientDynamics(
            q=tokens.q,
            k=tokens.k,
            evolution=evolution.DiagonalPlusRankOne(
                log_decay=log_decay,
                left=beta[..., None] * tokens.k,
                right=log_decay.exp() * tokens.k,
            ),
            scaling=beta * self.key_dim**-0.5,
            readout=readout.identity,
            normalizer=normalizer.One(),
        )
