"""Normalized attention (Sieber et al., 2024): Table 1, third row."""

from __future__ import annotations

from coefdyn import CoefficientDynamics, evolution, normalizer, readout
from coefdyn.mixers.base import Mixer, Symbols, Tokens
from coefdyn.mixers.gates import ETA_MAPS, HeadGate
from coefdyn.mixers.options import check_choice, constant_scaling

__all__ = ["NormalizedAttention"]


class NormalizedAttention(Mixer):
    r"""Linear attention whose normaliser is a learned function of the current token.

        A_t = I    b_j = 1/sqrt(n)    phi = identity    eta_i = exp(W_eta x_i)

    Args:
        eta: "exp" (DSF paper, eq. 22), "softplus" or "sigmoid" (eq. 29-30); one number per head.
        scaling: "inverse_sqrt" (1/sqrt(n)) or "one" (the authors' MQAR code).
        d_model, n_heads, key_dim, value_dim, position, max_length, short_convolution,
        query_key_norm, output_gate, output_norm, bias: see ``Mixer``.

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
        self,
        *,
        d_model: int,
        n_heads: int,
        key_dim: int | None = None,
        value_dim: int | None = None,
        eta: str = "exp",
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
        check_choice("eta", eta, tuple(ETA_MAPS))
        self.eta = HeadGate(d_model=d_model, n_heads=n_heads, kind=eta)

    def build(self, tokens: Tokens) -> CoefficientDynamics:
        return CoefficientDynamics(
            q=tokens.q,
            k=tokens.k,
            evolution=evolution.Identity(),
            scaling=self.scaling,
            readout=readout.identity,
            normalizer=normalizer.Given(tokens.match(self.eta(tokens.x))),
        )
