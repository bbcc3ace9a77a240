"""PaTH attention (Yang et al., 2025, arXiv 2505.16381)."""

from __future__ import annotations

from typing import Unpack

from coefdyn import CoefficientDynamics, evolution, normalizer, readout
from coefdyn.mixers.base import Symbols, Tokens
from coefdyn.mixers.gates import HeadGate
from coefdyn.mixers.heads import HeadMixer, HeadOptions
from coefdyn.mixers.projections import HeadProjection, l2_normalize
from coefdyn.options import check_flag

__all__ = ["PaTHAttention"]


class PaTHAttention(HeadMixer):
    r"""Softmax attention with data-dependent positions: Householder reflections between two tokens.

        A_t = I - beta_t w_t w_t^T    b_j = 1/sqrt(n)    phi = exp    eta_i = sum_j alpha_{i,j}
        w_t = SiLU(convolution(W_w x_t)), L2-normalised    beta_t = 2 sigmoid(W_b x_t + c)

    Args:
        convolve_direction: three taps and a SiLU after W_w.
        heads: see ``HeadOptions``.

    Differences: the authors' W_w has rank 32; ours is a full matrix. Without their forget gate.
    """

    late = ("direction",)
    symbols = Symbols(
        title="PaTH attention",
        evolution=r"\mathbb{I}_n - \beta_t w_t w_t^\top",
        scaling=r"\frac{1}{\sqrt{n}}",
        readout=r"\exp(\cdot)",
        normalizer=r"\sum_{j=1}^{i} \alpha_{i,j}",
        source="arXiv 2505.16381",
        year=2025,
    )

    def __init__(self, *, convolve_direction: bool = True, **heads: Unpack[HeadOptions]) -> None:
        super().__init__(**heads)
        taps = 3 if check_flag("convolve_direction", convolve_direction) else 0
        d_model, n_heads = self.d_model, self.n_heads
        self.project["direction"] = HeadProjection(
            d_model=d_model, n_heads=n_heads, width=self.key_dim, convolution=taps
        )
        self.beta = HeadGate(
            d_model=d_model, n_heads=n_heads, kind="sigmoid", factor=2.0, bias=True
        )

    def build(self, tokens: Tokens) -> CoefficientDynamics:
        assert tokens.z is not None, "there is a projection named direction"
        return CoefficientDynamics(
            q=tokens.q,
            k=tokens.k,
            evolution=evolution.Householder(
                direction=l2_normalize(tokens.z), beta=tokens.match(self.beta(tokens.x))
            ),
            scaling=self.key_dim**-0.5,
            readout=readout.exp,
            normalizer=normalizer.RowSum(),
        )
