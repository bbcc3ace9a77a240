"""MesaNet (von Oswald et al., 2025, arXiv 2506.05233)."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import ClassVar, Unpack

import torch
from torch import nn
from torch.nn import functional

from coefdyn import CoefficientDynamics, evolution, normalizer, readout
from coefdyn.mixers.base import Past, Symbols, Tokens
from coefdyn.mixers.elementwise import softplus
from coefdyn.mixers.gates import HeadGate
from coefdyn.mixers.heads import HeadChoices, HeadMixer, HeadOptions
from coefdyn.mixers.projections import at_least_float32
from coefdyn.shapes import Float, Tensor

__all__ = ["MesaNet"]

#: the smallest ridge
RIDGE = 0.25


class MesaNet(HeadMixer):
    r"""Mamba-2's state, read by the query that solves a least-squares problem over the past.

        A_t = a_t I, a_t = sigmoid(W_a x_t + c)    b_j = beta_j = sigmoid(W_b x_j + d)
        q~_i = (G_i + Lambda)^{-1} q_i,   G_i = sum_{j <= i} a_i ... a_{j+1} beta_j k_j k_j^T
        phi = identity    eta_i = 1    output = W_o RMSNorm(y)

    q~_i depends on all keys up to i: that is outside the four ingredients, but it reads no value,
    so that the output is linear in v and has coefficients. q and k are L2-normalised; Lambda is one
    learned ridge per channel, 1 at the start and above 0.25. The linear system is solved exactly.

    Args:
        heads: see ``HeadOptions``. The convolution acts on q and k only.
    """

    defaults = HeadChoices(short_convolution=4, output_norm="rms")
    settled = HeadChoices(query_key_norm=True)
    no_weight_decay: ClassVar[tuple[str, ...]] = (*HeadMixer.no_weight_decay, "raw_ridge")
    keep_float32: ClassVar[tuple[str, ...]] = ("raw_ridge",)
    symbols = Symbols(
        title="MesaNet",
        evolution=r"a_t\, \mathbb{I}_n",
        scaling=r"\beta_j",
        readout=r"\mathrm{Id}(\cdot)",
        normalizer=r"1",
        source="arXiv 2506.05233",
        year=2025,
    )

    def __init__(self, **heads: Unpack[HeadOptions]) -> None:
        super().__init__(convolve_values=False, **heads)
        sizes = {"d_model": self.d_model, "n_heads": self.n_heads}
        self.decay = HeadGate(**sizes, kind="sigmoid", bias=True)
        self.beta = HeadGate(**sizes, kind="sigmoid", bias=True)
        self.raw_ridge = nn.Parameter(torch.empty(self.n_heads, self.key_dim))
        MesaNet.start(self)

    @torch.no_grad()
    def start(self) -> None:
        """Fill Lambda with 1."""
        self.raw_ridge.fill_(math.log(math.expm1(1 - RIDGE)))

    def gates(self, tokens: Tokens) -> tuple[Float[Tensor, "*h L"], Float[Tensor, "*h L"]]:
        """(log a_t in nats, beta_t), ``(..., H, L)``."""
        raw = self.decay.linear(tokens.x).transpose(-1, -2)
        return tokens.match(functional.logsigmoid(raw)), tokens.match(self.beta(tokens.x))

    def arranged(self, tokens: Tokens, before: Past | None, past: Past) -> Tokens:
        """Queries after the solve; the memory is G after the last token."""
        gram = self._gram(tokens, None if before is None else before["gram"])
        past["gram"] = gram[..., -1, :]
        ridge = (softplus(self.raw_ridge) + RIDGE).to(gram.dtype)
        system = gram.unflatten(-1, (self.key_dim, -1)) + torch.diag_embed(ridge)[:, None]
        q = torch.linalg.solve(system, tokens.q.to(gram.dtype)[..., None])[..., 0]
        return replace(tokens, q=tokens.match(q))

    def _gram(self, tokens: Tokens, before: Tensor | None) -> Float[Tensor, "*heads L nn"]:
        """G_i, flat: coefficient dynamics too, with n = 1, k = q = 1 and values k_j k_j^T.

        It is summed in float32 at least, as every state is.
        """
        log_decay, beta = (at_least_float32(one) for one in self.gates(tokens))
        ones, k = torch.ones_like(beta)[..., None], at_least_float32(tokens.k)
        outer = (k[..., :, None] * k[..., None, :]).flatten(-2)
        decayed = CoefficientDynamics(
            q=ones,
            k=ones,
            evolution=evolution.Scalar(log_decay=log_decay),
            scaling=beta,
            readout=readout.identity,
            normalizer=normalizer.One(),
        )
        gram = tokens.apart(decayed).apply(outer)
        if before is None:
            return gram
        fade = log_decay.cumsum(-1).exp()
        if tokens.documents is not None:
            fade = fade * tokens.documents.kept()[..., None, :]
        return gram + fade[..., None] * before[..., None, :]

    def build(self, tokens: Tokens) -> CoefficientDynamics:
        log_decay, beta = self.gates(tokens)
        return CoefficientDynamics(
            q=tokens.q,
            k=tokens.k,
            evolution=evolution.Scalar(log_decay=log_decay),
            scaling=beta,
            readout=readout.identity,
            normalizer=normalizer.One(),
        )
