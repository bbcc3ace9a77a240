"""Softmax attention (Vaswani et al., 2017): Table 1, first row."""

from __future__ import annotations

from typing import Unpack

from coefdyn import CoefficientDynamics, evolution, normalizer, readout
from coefdyn.mixers.base import Symbols, Tokens
from coefdyn.mixers.heads import HeadMixer, HeadOptions, constant_scaling

__all__ = ["SoftmaxAttention"]


class SoftmaxAttention(HeadMixer):
    r"""Softmax attention.

        A_t = I    b_j = 1/sqrt(n)    phi = exp    eta_i = sum_j alpha_{i,j}

    Args:
        scaling: "inverse_sqrt" (1/sqrt(n)) or "one" (Principle 5's ablation).
        heads: see ``HeadOptions``.

    Differences: without a position option the coefficients carry no positional information
    (Principle 3); the original adds sinusoids to the embedding, MAD's baseline uses "rotary".
    """

    symbols = Symbols(
        title="Softmax attention",
        evolution=r"\mathbb{I}_n",
        scaling=r"\frac{1}{\sqrt{n}}",
        readout=r"\exp(\cdot)",
        normalizer=r"\sum_{j=1}^{i} \alpha_{i,j}",
        source="Lemma 7",
    )

    def __init__(self, *, scaling: str = "inverse_sqrt", **heads: Unpack[HeadOptions]) -> None:
        super().__init__(**heads)
        self.scaling = constant_scaling(scaling, self.key_dim)

    def build(self, tokens: Tokens) -> CoefficientDynamics:
        return CoefficientDynamics(
            q=tokens.q,
            k=tokens.k,
            evolution=evolution.Identity(),
            scaling=self.scaling,
            readout=readout.exp,
            normalizer=normalizer.RowSum(),
        )
