"""Sigmoid attention (Ramapuram et al., 2024, arXiv 2409.04431)."""

from __future__ import annotations

import math
from functools import partial
from typing import Unpack

import torch

from coefdyn import CoefficientDynamics, evolution, normalizer, readout
from coefdyn.mixers.base import Symbols, Tokens
from coefdyn.mixers.heads import HeadChoices, HeadMixer, HeadOptions
from coefdyn.options import check_count
from coefdyn.shapes import Tensor

__all__ = ["SigmoidAttention"]


def _shifted(scores: Tensor, offset: float) -> Tensor:
    return torch.sigmoid(scores + offset)


class SigmoidAttention(HeadMixer):
    r"""Attention with a sigmoid of each score: no row sum, hence no competition between tokens.

        A_t = I    b_j = 1/sqrt(n)    phi(s) = sigmoid(s - log(length))    eta_i = 1

    Args:
        length: the length in tokens at which a row of scores near 0 sums to about 1.
        heads: see ``HeadOptions``; rotary positions if not said otherwise.
    """

    defaults = HeadChoices(position="rotary")
    symbols = Symbols(
        title="Sigmoid attention",
        evolution=r"R_\theta",
        scaling=r"\frac{1}{\sqrt{n}}",
        readout=r"\sigma(\cdot - \log L)",
        normalizer=r"1",
        source="arXiv 2409.04431",
        year=2024,
    )

    def __init__(self, *, length: int = 1024, **heads: Unpack[HeadOptions]) -> None:
        super().__init__(**heads)
        offset = -math.log(check_count("length", length))
        self.readout = readout.Pointwise(partial(_shifted, offset=offset), name="sigmoid")

    def build(self, tokens: Tokens) -> CoefficientDynamics:
        return CoefficientDynamics(
            q=tokens.q,
            k=tokens.k,
            evolution=evolution.Identity(),
            scaling=self.key_dim**-0.5,
            readout=self.readout,
            normalizer=normalizer.One(),
        )
