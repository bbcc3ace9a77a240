"""Wall attention (Averbuch and Pai, 2026): softmax attention with a decay per channel."""

from __future__ import annotations

from functools import partial
from typing import Unpack

from torch import nn
from torch.nn import functional

from coefdyn import CoefficientDynamics, evolution, normalizer, readout
from coefdyn.mixers.base import Symbols, Tokens
from coefdyn.mixers.heads import HeadMixer, HeadOptions
from coefdyn.mixers.initial import Linear
from coefdyn.mixers.projections import split_heads
from coefdyn.options import check_number

__all__ = ["WallAttention"]


class WallAttention(HeadMixer):
    r"""GLA's evolution under softmax attention's readout.

        A_t = diag(a_t), a_t = sigmoid(W_a x_t + c)    b_j = 1/sqrt(n)
        phi = exp    eta_i = sum_j alpha_{i,j}

    Args:
        open_bias: c at initialisation; 8 starts close to plain softmax attention.
        heads: see ``HeadOptions``.

    Source: the layer in flash-linear-attention (Tilde Research).
    """

    symbols = Symbols(
        title="Wall attention",
        evolution=r"\mathrm{diag}(a_t)",
        scaling=r"\frac{1}{\sqrt{n}}",
        readout=r"\exp(\cdot)",
        normalizer=r"\sum_{j=1}^{i} \alpha_{i,j}",
        source="flash-linear-attention, wall_attn",
        year=2026,
    )

    def __init__(self, *, open_bias: float = 8.0, **heads: Unpack[HeadOptions]) -> None:
        super().__init__(**heads)
        start = partial(nn.init.constant_, val=check_number("open_bias", open_bias))
        self.decay = Linear(self.d_model, self.n_heads * self.key_dim, start=start)

    def build(self, tokens: Tokens) -> CoefficientDynamics:
        log_decay = functional.logsigmoid(split_heads(self.decay(tokens.x), self.n_heads))
        return CoefficientDynamics(
            q=tokens.q,
            k=tokens.k,
            evolution=evolution.Diagonal(log_decay=tokens.match(log_decay)),
            scaling=self.key_dim**-0.5,
            readout=readout.exp,
            normalizer=normalizer.RowSum(),
        )
