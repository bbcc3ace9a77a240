"""Softmax attention (Vaswani et al., 2017): Table 1, first row."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar, Unpack

import torch
from torch import nn

from coefdyn import CoefficientDynamics, evolution, mask, normalizer, readout
from coefdyn.mixers.base import Symbols, Tokens
from coefdyn.mixers.heads import HeadChoices, HeadMixer, HeadOptions, constant_scaling
from coefdyn.options import check_flag
from coefdyn.shapes import Tensor

__all__ = ["SinkAttention", "SlidingWindowAttention", "SoftmaxAttention"]


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
    keep_float32: ClassVar[tuple[str, ...]] = ("sink",)
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
        self.sink = nn.Parameter(torch.empty(self.n_heads)) if check_flag("sink", sink) else None
        SoftmaxAttention.start(self)

    @torch.no_grad()
    def start(self) -> None:
        """Fill s with 0."""
        if self.sink is not None:
            self.sink.zero_()

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


class SlidingWindowAttention(SoftmaxAttention):
    r"""Softmax attention over the last ``window`` tokens (Beltagy et al., 2020, Longformer).

        A_t = I    b_j = 1/sqrt(n)    phi = exp    eta_i = sum_j alpha_{i,j}
        alpha_{i,j} = 0 for i - j >= window

    Args:
        window: tokens that each one reads, itself included.
        heads: see ``HeadOptions``, rotary positions if not said otherwise; and ``SoftmaxAttention``
            for scaling and sink.
    """

    defaults = HeadChoices(position="rotary")
    symbols = replace(
        SoftmaxAttention.symbols,
        title="Sliding-window attention",
        source="arXiv 2004.05150",
        year=2020,
        models="Mistral 7B, Gemma 3, GPT-OSS",
    )

    def __init__(
        self,
        *,
        scaling: str = "inverse_sqrt",
        window: int = 512,
        sink: bool = False,
        **heads: Unpack[HeadOptions],
    ) -> None:
        super().__init__(scaling=scaling, window=window, sink=sink, **heads)


class SinkAttention(SoftmaxAttention):
    r"""Softmax attention with a sink per head, a score that no token owns (GPT-OSS, 2025).

        A_t = I    b_j = 1/sqrt(n)    phi = exp    eta_i = sum_j alpha_{i,j} + exp(s)

    Args:
        scaling, window: see ``SoftmaxAttention``.
        heads: see ``HeadOptions``; rotary positions if not said otherwise.
    """

    defaults = HeadChoices(position="rotary")
    filled = ("sink",)
    symbols = replace(
        SoftmaxAttention.symbols,
        title="Attention with sinks",
        normalizer=r"e^{s} + \sum_{j=1}^{i} \alpha_{i,j}",
        source="arXiv 2508.10925",
        year=2025,
        models="GPT-OSS",
    )

    def __init__(
        self,
        *,
        scaling: str = "inverse_sqrt",
        window: int | None = None,
        **heads: Unpack[HeadOptions],
    ) -> None:
        super().__init__(scaling=scaling, window=window, sink=True, **heads)
