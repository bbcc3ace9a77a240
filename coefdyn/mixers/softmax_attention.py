"""Softmax attention (Vaswani et al., 2017): Table 1, first row."""

from __future__ import annotations

from typing import ClassVar, Unpack

import torch
from torch import nn

from coefdyn import CoefficientDynamics, evolution, mask, normalizer, readout
from coefdyn.mixers.base import Symbols, Tokens
from coefdyn.mixers.heads import HeadMixer, HeadOptions, constant_scaling
from coefdyn.options import check_flag
from coefdyn.shapes import Tensor

__all__ = ["SoftmaxAttention"]


class SoftmaxAttention(HeadMixer):
    r"""Softmax attention.

        A_t = I    b_j = 1/sqrt(n)    phi = exp    eta_i = sum_j alpha_{i,j}

    Args:
        scaling: "inverse_sqrt" (1/sqrt(n)) or "one" (Principle 5's ablation).
        window: each token reads this many, itself included (sliding window); None for all.
        sink: one learned s per head, eta_i = sum_j alpha_{i,j} + exp(s): a row need not spend all
            of its weight (attention sinks, as in GPT-OSS). 0 at first.
        heads: see ``HeadOptions``.

    Differences: without a position option the coefficients carry no positional information
    (Principle 3); the original adds sinusoids to the embedding, MAD's baseline uses "rotary".
    """

    no_weight_decay: ClassVar[tuple[str, ...]] = ("position_table", "sink")
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
        scaling: str = "inverse_sqrt",
        window: int | None = None,
        sink: bool = False,
        **heads: Unpack[HeadOptions],
    ) -> None:
        super().__init__(**heads)
        self.scaling = constant_scaling(scaling, self.key_dim)
        self.mask = None if window is None else mask.Window(window)
        self.sink = nn.Parameter(torch.zeros(self.n_heads)) if check_flag("sink", sink) else None

    def build(self, tokens: Tokens) -> CoefficientDynamics:
        return CoefficientDynamics(
            q=tokens.q,
            k=tokens.k,
            evolution=evolution.Identity(),
            scaling=self.scaling,
            readout=readout.exp,
            normalizer=normalizer.RowSum(self._sink(tokens)),
            mask=self.mask,
        )

    def _sink(self, tokens: Tokens) -> Tensor | None:
        """s of every head and row."""
        if self.sink is None:
            return None
        sink = tokens.match(self.sink)[:, None]
        return sink.expand(*tokens.q.shape[:-3], self.n_heads, tokens.q.shape[-2])
