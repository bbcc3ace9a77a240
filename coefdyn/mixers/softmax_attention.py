"""Softmax attention (Vaswani et al., 2017): Table 1, first row."""

from __future__ import annotations

from coefdyn import CoefficientDynamics, evolution, normalizer, readout
from coefdyn.mixers.base import Mixer, Symbols, Tokens
from coefdyn.mixers.options import constant_scaling

__all__ = ["SoftmaxAttention"]


class SoftmaxAttention(Mixer):
    r"""Softmax attention.

        A_t = I    b_j = 1/sqrt(n)    phi = exp    eta_i = sum_j alpha_{i,j}

    Args:
        scaling: "inverse_sqrt" (1/sqrt(n)) or "one" (Principle 5's ablation).
        d_model, n_heads, key_dim, value_dim, position, max_length, short_convolution,
        query_key_norm, output_gate, output_norm, bias: see ``Mixer``.

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

    def __init__(
        self,
        *,
        d_model: int,
        n_heads: int,
        key_dim: int | None = None,
        value_dim: int | None = None,
        scaling: str = "inverse_sqrt",
        position: str = "none",
        max_length: int | None = None,
        short_convolution: int = 0,
        query_key_norm: bool = False,
        output_gate: str = "none",
        output_norm: str = "none",
        bias: bool = False,
    ) -> None:
        super().__init__(
            d_model=d_model,
            n_heads=n_heads,
            key_dim=key_dim,
            value_dim=value_dim,
            position=position,
            max_length=max_length,
            short_convolution=short_convolution,
            query_key_norm=query_key_norm,
            output_gate=output_gate,
            output_norm=output_norm,
            bias=bias,
        )
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
