"""RWKV-6, Finch (Peng et al., 2024, arXiv 2404.05892): its time mixing as coefficient dynamics."""

from __future__ import annotations

from typing import ClassVar, Unpack

import torch
from torch import nn

from coefdyn import CoefficientDynamics, evolution, normalizer, readout
from coefdyn.mixers.base import Symbols, Tokens
from coefdyn.mixers.heads import HeadMixer, HeadOptions, StageOptions
from coefdyn.mixers.initial import Linear
from coefdyn.mixers.projections import split_heads
from coefdyn.shapes import Tensor

__all__ = ["RWKV6"]

#: the fastest decay, in nats per token
FASTEST = 5.0


def _rising(bias: Tensor) -> None:
    bias.copy_(torch.linspace(-6.0, -1.0, len(bias)))


class RWKV6(HeadMixer):
    r"""Linear attention with a decay per channel after the read, and a bonus for the own token.

        S_t = diag(w_t) S_{t-1} + k_t v_t^T,    y_t = (S_{t-1} + diag(u) k_t v_t^T)^T q_t

        A_t = diag(w_t)    b_j = 1    phi = identity    eta_i = 1    q~_i = q_i / w_i
        own_i = q_i^T ((u - 1 / w_i) * k_i)

    with w_t = exp(-exp(W_w x_t + d)) and u one learned vector per head. Dividing the query by w_i
    takes the last decay back; the own term puts u where 1 / w_i would stand.

    Args:
        heads: see ``HeadOptions``; output = W_o (LayerNorm(y) * SiLU(W_g x)).

    Initialisation: d rises from -6 to -1 over the channels; u = 1/2.

    Differences: the authors mix each token with the one before it ahead of all projections, and
    make w by matrices of low rank. A channel forgets at most e^-5 per token here, so that q / w
    stays in range; theirs has no bound.
    """

    defaults = StageOptions(output_gate="silu", output_norm="layer")
    no_weight_decay: ClassVar[tuple[str, ...]] = ("position_table", "bonus")
    symbols = Symbols(
        title="RWKV-6",
        evolution=r"\mathrm{diag}(w_t)",
        scaling=r"1",
        readout=r"\mathrm{Id}(\cdot)",
        normalizer=r"1",
        source="arXiv 2404.05892",
        year=2024,
        models="RWKV-6 Finch",
    )

    def __init__(self, **heads: Unpack[HeadOptions]) -> None:
        super().__init__(**heads)
        channels = self.n_heads * self.key_dim
        self.decay = Linear(self.d_model, channels, start=_rising)
        self.bonus = nn.Parameter(torch.empty(self.n_heads, 1, self.key_dim))
        RWKV6.start(self)

    @torch.no_grad()
    def start(self) -> None:
        """Fill u with 1/2."""
        self.bonus.fill_(0.5)

    def build(self, tokens: Tokens) -> CoefficientDynamics:
        raw = split_heads(self.decay(tokens.x), self.n_heads)
        log_decay = tokens.match(-raw.exp()).clamp(min=-FASTEST)
        undone = (-log_decay).exp()
        return CoefficientDynamics(
            q=tokens.q * undone,
            k=tokens.k,
            evolution=evolution.Diagonal(log_decay=log_decay),
            scaling=1.0,
            readout=readout.identity,
            normalizer=normalizer.One(),
            own=(tokens.q * (tokens.match(self.bonus) - undone) * tokens.k).sum(-1),
        )
