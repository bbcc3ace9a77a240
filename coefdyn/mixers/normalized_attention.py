"""Normalized attention (Sieber et al., 2024): Table 1, third row."""

from __future__ import annotations

from typing import Unpack

from coefdyn import CoefficientDynamics, evolution, normalizer, readout
from coefdyn.mixers.base import Symbols, Tokens
from coefdyn.mixers.gates import ETA_MAPS
from coefdyn.mixers.heads import HeadMixer, HeadOptions, constant_scaling
from coefdyn.options import check_choice

__all__ = ["NormalizedAttention"]


class NormalizedAttention(HeadMixer):
    r"""Linear attention whose normaliser is a learned function of the current token.

        A_t = I    b_j = 1/sqrt(n)    phi = identity    eta_i = exp(W_eta x_i)

    Args:
        eta: "exp" (DSF paper, eq. 22), "softplus" or "sigmoid" (eq. 29-30); one number per head.
        scaling: "inverse_sqrt" (1/sqrt(n)) or "one" (the authors' MQAR code).
        heads: see ``HeadOptions``.

    Differences: the coefficient-dynamics paper's eq. 7 multiplies by exp(W_eta x_i) where its
    Table 1 divides; we divide, the sign is absorbed in W_eta.
    """

    symbols = Symbols(
        title="Normalized attention",
        evolution=r"\mathbb{I}_n",
        scaling=r"\frac{1}{\sqrt{n}}",
        readout=r"\mathrm{Id}(\cdot)",
        normalizer=r"\exp(W_\eta x_i)",
        source="Lemma 9",
    )

    def __init__(
        self, *, eta: str = "exp", scaling: str = "inverse_sqrt", **heads: Unpack[HeadOptions]
    ) -> None:
        super().__init__(**heads)
        self.scaling = constant_scaling(scaling, self.key_dim)
        check_choice("eta", eta, tuple(ETA_MAPS))
        self.eta = self.head_gate(eta)

    def build(self, tokens: Tokens) -> CoefficientDynamics:
        return CoefficientDynamics(
            q=tokens.q,
            k=tokens.k,
            evolution=evolution.Identity(),
            scaling=self.scaling,
            readout=readout.identity,
            normalizer=normalizer.Given(tokens.match(self.eta(tokens.x))),
        )
