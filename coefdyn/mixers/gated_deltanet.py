"""Gated DeltaNet (Yang et al., 2025): Table 1, seventh row."""

from __future__ import annotations

from typing import Unpack

from coefdyn import CoefficientDynamics, evolution, normalizer, readout
from coefdyn.mixers.base import Symbols, Tokens
from coefdyn.mixers.deltanet import DIRECTIONS
from coefdyn.mixers.gates import TimestepDecay
from coefdyn.mixers.heads import HeadChoices, HeadMixer, HeadOptions, StageOptions
from coefdyn.mixers.projections import l2_normalize
from coefdyn.options import check_choice, check_flag

__all__ = ["GatedDeltaNet"]


class GatedDeltaNet(HeadMixer):
    r"""DeltaNet with Mamba-2's scalar decay; the decay acts before the write of the same step.

        A_t = a_t (I - beta_t k_t k_t^T), a_t = exp(-Delta_t a)    b_j = beta_j / sqrt(n)
        phi = identity    eta_i = 1    output = W_o (RMSNorm(y) * SiLU(W_g x))

    q, k, v and beta as in ``DeltaNet``; Delta_t = softplus(W_a x_t + c).

    Args:
        negative_eigenvalues: beta in (0, 2) instead of (0, 1).
        direction: "key" or "learned", as in ``DeltaNet``.
        key_heads: number of pairs (q, k), each shared by n_heads / key_heads heads with values,
            beta and decay of their own; n_heads if None. (Qwen3-Next: 16 pairs for 32 heads.)
        heads: see ``HeadOptions``. The authors use value_dim = 2 key_dim.

    Initialisation: a uniform in [0, 16], Delta log-uniform in [0.001, 0.1], both without weight
    decay. Differences: as for ``DeltaNet``.
    """

    defaults = StageOptions(short_convolution=4, output_gate="silu", output_norm="rms")
    settled = HeadChoices(query_key_norm=True)
    symbols = Symbols(
        title="Gated DeltaNet",
        evolution=r"a_t (\mathbb{I}_n - \beta_t k_t k_t^\top)",
        scaling=r"\frac{\beta_j}{\sqrt{n}}",
        readout=r"\mathrm{Id}(\cdot)",
        normalizer=r"1",
        source="Lemma 13",
    )

    def __init__(
        self,
        *,
        negative_eigenvalues: bool = False,
        direction: str = "key",
        key_heads: int | None = None,
        **heads: Unpack[HeadOptions],
    ) -> None:
        check_choice("direction", direction, DIRECTIONS)
        super().__init__(
            learned_direction=direction == "learned",
            key_heads=key_heads,
            share_pairs=True,
            **heads,
        )
        factor = 2.0 if check_flag("negative_eigenvalues", negative_eigenvalues) else 1.0
        self.beta = self.head_gate("sigmoid", factor)
        self.decay = TimestepDecay(d_model=self.d_model, n_heads=self.n_heads, a_range=(0.0, 16.0))

    def build(self, tokens: Tokens) -> CoefficientDynamics:
        beta = tokens.match(self.beta(tokens.x))
        log_decay = tokens.match(self.decay(tokens.x)[0])
        direction = tokens.k if tokens.z is None else l2_normalize(tokens.z)
        return CoefficientDynamics(
            q=tokens.q,
            k=tokens.k,
            evolution=evolution.Householder(direction=direction, beta=beta, log_decay=log_decay),
            scaling=beta * self.key_dim**-0.5,
            readout=readout.identity,
            normalizer=normalizer.One(),
        )
