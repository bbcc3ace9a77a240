"""Momentum DeltaNet (arXiv 2605.05838): the delta rule's step, smoothed over time."""

from __future__ import annotations

from typing import Unpack

import torch

from coefdyn import CoefficientDynamics, evolution, normalizer, readout
from coefdyn.mixers.base import Symbols, Tokens
from coefdyn.mixers.gates import TimestepDecay
from coefdyn.mixers.heads import HeadChoices, HeadMixer, HeadOptions

__all__ = ["MomentumDeltaNet"]


class MomentumDeltaNet(HeadMixer):
    r"""Delta rule with momentum: the state S is read, M is the running mean of its corrections.

        M_t = mu_t M_{t-1} - eta_t k_t (v_t - a_t S_{t-1}^T k_t)^T
        S_t = a_t S_{t-1} - beta_t M_t

    As one state of 2n rows, S above M:

        A_t = (a_t (I - beta_t eta_t k k^T)   -beta_t mu_t I)      key (beta_t eta_t k, -eta_t k)
              (a_t eta_t k k^T                        mu_t I)      query (q / sqrt(n), 0)
        b_j = 1    phi = identity    eta_i = 1    output = W_o (RMSNorm(y) * SiLU(W_g x))

    q, k, v as in ``DeltaNet``; beta and eta are sigmoids, a and mu Mamba-2's decays. A_t is dense,
    so there is no chunked form.

    Args:
        key_heads: number of pairs (q, k), each shared by n_heads / key_heads heads with values,
            gates and decays of their own; n_heads if None.
        heads: see ``HeadOptions``; key_dim is n, half of the dynamics' own.

    Source: the recurrence of fla's reference. The authors' layer ties the bounds of beta, eta and a
    together and corrects the query; how it does so is not copied.
    """

    defaults = HeadChoices(short_convolution=4, output_gate="silu", output_norm="rms")
    settled = HeadChoices(query_key_norm=True)
    symbols = Symbols(
        title="Momentum DeltaNet",
        evolution=r"\left(\begin{matrix} a_t (\mathbb{I} - \beta_t \eta_t k_t k_t^\top) & "
        r"-\beta_t \mu_t \mathbb{I} \\ a_t \eta_t k_t k_t^\top & \mu_t \mathbb{I} "
        r"\end{matrix}\right)",
        scaling=r"1",
        readout=r"\mathrm{Id}(\cdot)",
        normalizer=r"1",
        source="arXiv 2605.05838",
        year=2026,
    )

    def __init__(self, *, key_heads: int | None = None, **heads: Unpack[HeadOptions]) -> None:
        super().__init__(key_heads=key_heads, share_pairs=True, **heads)
        self.beta, self.eta = self.head_gate("sigmoid"), self.head_gate("sigmoid")
        self.decay = TimestepDecay(d_model=self.d_model, n_heads=self.n_heads)
        self.momentum = TimestepDecay(d_model=self.d_model, n_heads=self.n_heads)
        self.key_dim *= 2

    def build(self, tokens: Tokens) -> CoefficientDynamics:
        gates = (self.beta(tokens.x), self.eta(tokens.x))
        decays = (self.decay(tokens.x)[0].exp(), self.momentum(tokens.x)[0].exp())
        beta, eta, a, mu = (tokens.match(gate)[..., None] for gate in (*gates, *decays))
        k = tokens.k
        beta_eta_k = beta * eta * k
        eye = torch.eye(k.shape[-1], dtype=k.dtype, device=k.device)
        recall = a[..., None] * k[..., None, :]
        above = [
            a[..., None] * eye - beta_eta_k[..., None] * recall,
            -(beta * mu)[..., None] * eye,
        ]
        below = [(eta * k)[..., None] * recall, mu[..., None] * eye]
        matrix = torch.cat([torch.cat(above, dim=-1), torch.cat(below, dim=-1)], dim=-2)
        return CoefficientDynamics(
            q=torch.cat([tokens.q * k.shape[-1] ** -0.5, torch.zeros_like(k)], dim=-1),
            k=torch.cat([beta_eta_k, -eta * k], dim=-1),
            evolution=evolution.Dense(matrix=matrix),
            scaling=1.0,
            readout=readout.identity,
            normalizer=normalizer.One(),
        )
