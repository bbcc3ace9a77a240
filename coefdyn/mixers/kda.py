"""Kimi delta attention (Kimi team, 2025, arXiv 2510.26692): Gated DeltaNet, channel by channel."""

from __future__ import annotations

from typing import Unpack

from coefdyn import CoefficientDynamics, evolution, normalizer, readout
from coefdyn.mixers.base import Symbols, Tokens
from coefdyn.mixers.gates import ChannelDecay
from coefdyn.mixers.heads import HeadChoices, HeadMixer, HeadOptions, StageOptions
from coefdyn.options import check_flag

__all__ = ["KDA", "ChannelDecay"]


class KDA(HeadMixer):
    r"""Gated DeltaNet with a decay per key channel: A_t decays, then erases along the key.

        A_t = (I - beta_t k_t k_t^T) diag(a_t)    b_j = beta_j / sqrt(n)
        phi = identity    eta_i = 1    output = W_o (RMSNorm(y) * sigmoid(W_g x))

    q, k, v and beta as in ``DeltaNet``; a_t from ``ChannelDecay``. As diagonal plus rank one:
    left = beta k and right = a * k.

    Args:
        negative_eigenvalues: beta in (0, 2) instead of (0, 1).
        key_heads: number of pairs (q, k), each shared by n_heads / key_heads heads with values,
            beta and decay of their own; n_heads if None. (Qwen3-Next: 16 pairs for 32 heads.)
        heads: see ``HeadOptions``.

    Differences: the authors' W_g is a product of rank d_v; ours is a full matrix.
    """

    defaults = StageOptions(short_convolution=4, output_gate="sigmoid", output_norm="rms")
    settled = HeadChoices(query_key_norm=True)
    symbols = Symbols(
        title="Kimi delta attention",
        evolution=r"(\mathbb{I}_n - \beta_t k_t k_t^\top)\,\mathrm{diag}(a_t)",
        scaling=r"\frac{\beta_j}{\sqrt{n}}",
        readout=r"\mathrm{Id}(\cdot)",
        normalizer=r"1",
        source="arXiv 2510.26692",
        year=2025,
        models="Kimi Linear",
    )

    def __init__(
        self,
        *,
        negative_eigenvalues: bool = False,
        key_heads: int | None = None,
        **heads: Unpack[HeadOptions],
    ) -> None:
        super().__init__(key_heads=key_heads, share_pairs=True, **heads)
        factor = 2.0 if check_flag("negative_eigenvalues", negative_eigenvalues) else 1.0
        self.beta = self.head_gate("sigmoid", factor)
        self.decay = ChannelDecay(d_model=self.d_model, n_heads=self.n_heads, width=self.key_dim)

    def build(self, tokens: Tokens) -> CoefficientDynamics:
        beta = tokens.match(self.beta(tokens.x))
        log_decay = tokens.match(self.decay(tokens.x))
        return CoefficientDynamics(
            q=tokens.q,
            k=tokens.k,
            evolution=evolution.DiagonalPlusRankOne(
                log_decay=log_decay,
                left=beta[..., None] * tokens.k,
                right=log_decay.exp() * tokens.k,
            ),
            scaling=beta * self.key_dim**-0.5,
            readout=readout.identity,
            normalizer=normalizer.One(),
        )
