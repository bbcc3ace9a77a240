"""Gated linear attention, GLA (Yang et al., 2023): Table 1, fourth row."""

from __future__ import annotations

from typing import Unpack

from coefdyn import CoefficientDynamics, evolution, normalizer, readout
from coefdyn.mixers.base import Symbols, Tokens
from coefdyn.mixers.gates import LowRankDecay
from coefdyn.mixers.heads import HeadMixer, HeadOptions, StageOptions
from coefdyn.options import check_count

__all__ = ["GLA"]


class GLA(HeadMixer):
    r"""Gated linear attention.

        A_t = diag(a_t), a_t = sigmoid(W_2 W_1 x_t + c)^(1/16)    b_j = 1/sqrt(n)
        phi = identity    eta_i = 1    output = W_o (RMSNorm(y) * SiLU(W_g x))

    Args:
        decay_rank: inner size of W_2 W_1 (16).
        decay_temperature: the 16 of the exponent; larger forgets more slowly.
        heads: see ``HeadOptions``. The authors use key_dim = d_model / (2 n_heads) and no short
            convolution.

    Differences: fla puts 1/sqrt(n) on q; with a linear readout that is the same.
    """

    defaults = StageOptions(output_gate="silu", output_norm="rms")
    symbols = Symbols(
        title="Gated linear attention (GLA)",
        evolution=r"\mathrm{diag}(a_t)",
        scaling=r"\frac{1}{\sqrt{n}}",
        readout=r"\mathrm{Id}(\cdot)",
        normalizer=r"1",
        source="Lemma 10",
    )

    def __init__(
        self, *, decay_rank: int = 16, decay_temperature: float = 16.0, **heads: Unpack[HeadOptions]
    ) -> None:
        super().__init__(**heads)
        self.decay = LowRankDecay(
            d_model=self.d_model,
            n_heads=self.n_heads,
            width=self.key_dim,
            rank=check_count("decay_rank", decay_rank),
            temperature=decay_temperature,
        )

    def build(self, tokens: Tokens) -> CoefficientDynamics:
        return CoefficientDynamics(
            q=tokens.q,
            k=tokens.k,
            evolution=evolution.Diagonal(log_decay=tokens.match(self.decay(tokens.x))),
            scaling=self.key_dim**-0.5,
            readout=readout.identity,
            normalizer=normalizer.One(),
        )
