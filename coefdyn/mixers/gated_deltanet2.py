"""Gated DeltaNet-2 (2026, arXiv 2605.22791): erasing and writing have gates of their own."""

from __future__ import annotations

from dataclasses import replace
from typing import Unpack

from torch import nn

from coefdyn import CoefficientDynamics, evolution, normalizer, readout
from coefdyn.mixers.base import Past, Symbols, Tokens
from coefdyn.mixers.gates import ChannelDecay
from coefdyn.mixers.heads import HeadChoices, HeadMixer, HeadOptions, StageOptions
from coefdyn.mixers.projections import split_heads

__all__ = ["GatedDeltaNet2"]


class GatedDeltaNet2(HeadMixer):
    r"""KDA with one erase gate per key channel and one write gate per value channel.

        A_t = (I - k_t (e_t * k_t)^T) diag(a_t)    b_j = 1 / sqrt(n)    phi = identity    eta_i = 1

    The values are w_t * v_t: the write gate lies outside the form, as a function of x_t. Gates
    e_t = sigmoid(W_e x_t) and w_t = sigmoid(W_w x_t), a_t from ``ChannelDecay``; output =
    W_o (RMSNorm(y) * sigmoid(W_g x)).

    Args:
        key_heads: number of pairs (q, k), each shared by n_heads / key_heads heads with values,
            gates and decays of their own; n_heads if None.
        heads: see ``HeadOptions``.

    Source: the recurrence of fla's naive functions; how the authors' layer makes its gates is not
    copied.
    """

    defaults = StageOptions(short_convolution=4, output_gate="sigmoid", output_norm="rms")
    settled = HeadChoices(query_key_norm=True)
    symbols = Symbols(
        title="Gated DeltaNet-2",
        evolution=r"(\mathbb{I}_n - k_t (e_t \odot k_t)^\top)\,\mathrm{diag}(a_t)",
        scaling=r"\frac{1}{\sqrt{n}}",
        readout=r"\mathrm{Id}(\cdot)",
        normalizer=r"1",
        source="arXiv 2605.22791",
        year=2026,
    )

    def __init__(self, *, key_heads: int | None = None, **heads: Unpack[HeadOptions]) -> None:
        super().__init__(key_heads=key_heads, share_pairs=True, **heads)
        self.erase = nn.Linear(self.d_model, self.n_heads * self.key_dim, bias=False)
        self.write = nn.Linear(self.d_model, self.n_heads * self.value_dim, bias=False)
        self.decay = ChannelDecay(d_model=self.d_model, n_heads=self.n_heads, width=self.key_dim)

    def arranged(self, tokens: Tokens, before: Past | None, past: Past) -> Tokens:
        write = tokens.match(split_heads(self.write(tokens.x).sigmoid(), self.n_heads))
        return replace(tokens, v=write * tokens.v)

    def build(self, tokens: Tokens) -> CoefficientDynamics:
        log_decay = tokens.match(self.decay(tokens.x))
        erase = tokens.match(split_heads(self.erase(tokens.x).sigmoid(), self.n_heads))
        return CoefficientDynamics(
            q=tokens.q,
            k=tokens.k,
            evolution=evolution.DiagonalPlusRankOne(
                log_decay=log_decay, left=tokens.k, right=log_decay.exp() * erase * tokens.k
            ),
            scaling=self.key_dim**-0.5,
            readout=readout.identity,
            normalizer=normalizer.One(),
        )
