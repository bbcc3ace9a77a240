"""Comba (Hu et al., 2025, arXiv 2506.02475): scalar plus low rank, and a corrected query."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar, Unpack

import torch
from torch import nn

from coefdyn import CoefficientDynamics, evolution, normalizer, readout
from coefdyn.mixers.base import Past, Symbols, Tokens
from coefdyn.mixers.gates import TimestepDecay
from coefdyn.mixers.heads import HeadChoices, HeadMixer, HeadOptions, StageOptions

__all__ = ["Comba"]


class Comba(HeadMixer):
    r"""Delta rule as feedback: erasure without decay, and a query corrected by the key.

        A_t = a_t I - beta_t k_t p_t^T, p_t = sigmoid(c) k_t    b_j = beta_j / sqrt(n)
        phi = identity    eta_i = 1    q~_t = q_t - d k_t in place of q_t

    with one learned c and d per head; q, k, v, beta and a_t as in ``GatedDeltaNet``, and output =
    W_o (RMSNorm(y) * SiLU(W_g x)). As diagonal plus rank one: left = beta k and right = p.

    Args:
        key_heads: number of pairs (q, k), each shared by n_heads / key_heads heads with values,
            gates and decays of their own; n_heads if None.
        heads: see ``HeadOptions``.

    Initialisation: c = 1, d = 1. Source: the paper's scalar plus low rank, which is fla's chunked
    function; fla's recurrent one decays the state before it reads, A_t = a_t (I - beta_t k p^T).
    """

    defaults = StageOptions(short_convolution=4, output_gate="silu", output_norm="rms")
    settled = HeadChoices(query_key_norm=True)
    no_weight_decay: ClassVar[tuple[str, ...]] = ("position_table", "feedback", "correction")
    symbols = Symbols(
        title="Comba",
        evolution=r"a_t \mathbb{I}_n - \beta_t k_t p_t^\top",
        scaling=r"\frac{\beta_j}{\sqrt{n}}",
        readout=r"\mathrm{Id}(\cdot)",
        normalizer=r"1",
        source="arXiv 2506.02475",
        year=2025,
    )

    def __init__(self, *, key_heads: int | None = None, **heads: Unpack[HeadOptions]) -> None:
        super().__init__(key_heads=key_heads, share_pairs=True, **heads)
        self.beta = self.head_gate("sigmoid")
        self.decay = TimestepDecay(d_model=self.d_model, n_heads=self.n_heads, a_range=(0.0, 16.0))
        self.feedback = nn.Parameter(torch.empty(self.n_heads))
        self.correction = nn.Parameter(torch.empty(self.n_heads))
        Comba.start(self)

    @torch.no_grad()
    def start(self) -> None:
        """Fill c and d with 1."""
        self.feedback.fill_(1.0)
        self.correction.fill_(1.0)

    def arranged(self, tokens: Tokens, before: Past | None, past: Past) -> Tokens:
        corrected = tokens.q - tokens.match(self.correction)[:, None, None] * tokens.k
        return replace(tokens, q=corrected)

    def build(self, tokens: Tokens) -> CoefficientDynamics:
        beta = tokens.match(self.beta(tokens.x))
        log_decay = tokens.match(self.decay(tokens.x)[0])
        return CoefficientDynamics(
            q=tokens.q,
            k=tokens.k,
            evolution=evolution.DiagonalPlusRankOne(
                log_decay=log_decay[..., None].expand_as(tokens.k),
                left=beta[..., None] * tokens.k,
                right=tokens.match(self.feedback.sigmoid())[:, None, None] * tokens.k,
            ),
            scaling=beta * self.key_dim**-0.5,
            readout=readout.identity,
            normalizer=normalizer.One(),
        )
