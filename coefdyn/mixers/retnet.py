"""Retention, RetNet (Sun et al., 2023, arXiv 2307.08621)."""

from __future__ import annotations

from typing import Unpack

import torch

from coefdyn import CoefficientDynamics, evolution, normalizer, readout
from coefdyn.mixers.base import Symbols, Tokens
from coefdyn.mixers.heads import HeadChoices, HeadMixer, HeadOptions

__all__ = ["RetNet"]


class RetNet(HeadMixer):
    r"""Linear attention with one fixed decay per head, and rotary positions.

        A_t = gamma_h I, gamma_h = 1 - 2^(-5-h)    b_j = 1/sqrt(n)    phi = identity    eta_i = 1
        output = W_o (RMSNorm(y) * SiLU(W_g x)),    q and k turned by position

    With the turn inside, A_t is gamma_h times a rotation. Heads count from 0: horizons of 32, 64,
    128, ... tokens.

    Args:
        heads: see ``HeadOptions``. The authors use value_dim = 2 key_dim.

    Differences: the authors also divide rows of coefficients by numbers that their norm cancels.
    """

    defaults = HeadChoices(position="rotary", output_gate="silu", output_norm="rms")
    symbols = Symbols(
        title="RetNet",
        evolution=r"\gamma_h R_\theta",
        scaling=r"\frac{1}{\sqrt{n}}",
        readout=r"\mathrm{Id}(\cdot)",
        normalizer=r"1",
        source="arXiv 2307.08621",
        year=2023,
    )

    def __init__(self, **heads: Unpack[HeadOptions]) -> None:
        super().__init__(**heads)

    def build(self, tokens: Tokens) -> CoefficientDynamics:
        head = torch.arange(self.n_heads, device=tokens.q.device, dtype=torch.float64)
        log_gamma = tokens.match(torch.log1p(-(2.0 ** (-5.0 - head))))
        return CoefficientDynamics(
            q=tokens.q,
            k=tokens.k,
            evolution=evolution.Scalar(log_decay=log_gamma[:, None].expand(tokens.q.shape[:-1])),
            scaling=self.key_dim**-0.5,
            readout=readout.identity,
            normalizer=normalizer.One(),
        )
