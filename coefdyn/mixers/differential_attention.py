"""Differential attention (Ye et al., 2024, arXiv 2410.05258)."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import ClassVar, Unpack, cast

import torch
from torch import nn

from coefdyn import CoefficientDynamics, evolution, normalizer, readout
from coefdyn.mixers.base import Past, Symbols, Tokens
from coefdyn.mixers.heads import HeadChoices, HeadMixer, HeadOptions
from coefdyn.mixers.projections import OutputStage
from coefdyn.options import check_count
from coefdyn.shapes import Float, Tensor

__all__ = ["DifferentialAttention"]


class DifferentialAttention(HeadMixer):
    r"""The difference of two softmax attentions over the same values.

        alpha_{i,j} / eta_i = alpha^1_{i,j} / eta^1_i - lambda alpha^2_{i,j} / eta^2_i
        A_t = I    b_j = 1/sqrt(n)    phi = exp    eta_i = sum_j alpha_{i,j}, for 1 and 2
        lambda = exp(l_1^T m_1) - exp(l_2^T m_2) + lambda_0,  lambda_0 = 0.8 - 0.6 e^{-0.3 layer}

    A weighted sum of two dynamics: they are heads 2h and 2h + 1 of ``dynamics(x)`` with the same
    values, and ``collect`` weighs them. What both maps attend to alike cancels, so that rows may
    hold zeros and negative weights. output = W_o (1 - lambda_0) RMSNorm(y).

    Args:
        layer: the layer's number l, from 0, for lambda_0.
        heads: see ``HeadOptions``. The authors use value_dim = 2 key_dim, and rotary positions.

    Initialisation: l and m, vectors of n numbers shared by all heads, are normal with standard
    deviation 0.1. Differences: the factor 1 - lambda_0 is the norm's initial weight.
    """

    defaults = HeadChoices(position="rotary", output_norm="rms")
    no_weight_decay: ClassVar[tuple[str, ...]] = ("position_table", "rates")
    symbols = Symbols(
        title="Differential attention",
        evolution=r"\mathbb{I}_n",
        scaling=r"\frac{1}{\sqrt{n}}",
        readout=r"\exp(\cdot)",
        normalizer=r"\sum_{j=1}^{i} \alpha_{i,j}",
        source="arXiv 2410.05258",
        year=2024,
        models="DiffLlama",
    )

    def __init__(self, *, layer: int = 0, **heads: Unpack[HeadOptions]) -> None:
        super().__init__(key_heads=2 * check_count("n_heads", heads.get("n_heads", 1)), **heads)
        self.first_weight = 0.8 - 0.6 * math.exp(-0.3 * check_count("layer", layer, least=0))
        self.rates = nn.Parameter(torch.empty(2, 2, self.key_dim))
        stage = cast(OutputStage, self.output)
        stage.norm_start = 1 - self.first_weight
        stage.start()
        DifferentialAttention.start(self)

    @torch.no_grad()
    def start(self) -> None:
        """Fill l and m, N(0, 0.1)."""
        self.rates.copy_(0.1 * torch.randn_like(self.rates))

    def arranged(self, tokens: Tokens, before: Past | None, past: Past) -> Tokens:
        """Two maps per head, with the head's values for each of them."""
        return replace(tokens, v=tokens.v.repeat_interleave(2, dim=-3))

    def weight(self) -> Float[Tensor, ""]:
        """Weight lambda of the second map."""
        first, second = self.rates.prod(0).sum(-1).exp().unbind()
        return first - second + self.first_weight

    def collect(self, y: Float[Tensor, "*dynamics rows dv"]) -> Float[Tensor, "*heads L dv"]:
        """y^1 - lambda y^2 of every head."""
        first, second = y.unflatten(-3, (self.n_heads, 2)).unbind(-3)
        return first - self.weight().to(y.dtype) * second

    def build(self, tokens: Tokens) -> CoefficientDynamics:
        return CoefficientDynamics(
            q=tokens.q,
            k=tokens.k,
            evolution=evolution.Identity(),
            scaling=self.key_dim**-0.5,
            readout=readout.exp,
            normalizer=normalizer.RowSum(),
        )
