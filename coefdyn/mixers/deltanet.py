"""DeltaNet (Schlag et al., 2021; Yang et al., 2024): Table 1, sixth row."""

from __future__ import annotations

from typing import Unpack

from coefdyn import CoefficientDynamics, evolution, normalizer, readout
from coefdyn.mixers.base import Symbols, Tokens
from coefdyn.mixers.heads import HeadChoices, HeadMixer, HeadOptions, StageOptions
from coefdyn.mixers.projections import l2_normalize
from coefdyn.options import check_choice, check_flag

__all__ = ["DIRECTIONS", "DeltaNet"]

DIRECTIONS = ("key", "learned")


class DeltaNet(HeadMixer):
    r"""DeltaNet: every write first erases along its own key.

        A_t = I - beta_t k_t k_t^T    b_j = beta_j / sqrt(n)    phi = identity    eta_i = 1

    with q, k, v = SiLU(convolution(W x)), q and k L2-normalised, beta_t = sigmoid(W_b x_t), and
    output = W_o RMSNorm(y).

    Args:
        negative_eigenvalues: beta = 2 sigmoid(W_b x), so that 1 - beta lies in (-1, 1).
        direction: "key", the normalised key without 1/sqrt(n); or "learned", a projection z_t of
            its own, made like the key (A_t = I - beta_t z_t z_t^T).
        key_heads: number of pairs (q, k), each shared by n_heads / key_heads heads with values
            and beta of their own; n_heads if None. (Qwen3-Next: 16 pairs for 32 heads.)
        heads: see ``HeadOptions``.

    Differences: fla puts 1/sqrt(n) on q; with a linear readout that is the same. With
    short_convolution=0 there is no SiLU on q, k and v.
    """

    defaults = StageOptions(short_convolution=4, output_norm="rms")
    settled = HeadChoices(query_key_norm=True)
    symbols = Symbols(
        title="DeltaNet",
        evolution=r"\mathbb{I}_n - \beta_t k_t k_t^\top",
        scaling=r"\frac{\beta_j}{\sqrt{n}}",
        readout=r"\mathrm{Id}(\cdot)",
        normalizer=r"1",
        source="Lemma 12",
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

    def build(self, tokens: Tokens) -> CoefficientDynamics:
        beta = tokens.match(self.beta(tokens.x))
        direction = tokens.k if tokens.z is None else l2_normalize(tokens.z)
        return CoefficientDynamics(
            q=tokens.q,
            k=tokens.k,
            evolution=evolution.Householder(direction=direction, beta=beta),
            scaling=beta * self.key_dim**-0.5,
            readout=readout.identity,
            normalizer=normalizer.One(),
        )
