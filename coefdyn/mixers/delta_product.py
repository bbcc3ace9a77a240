"""DeltaProduct and Gated DeltaProduct (Siems et al., 2025, arXiv 2502.10297)."""

from __future__ import annotations

from dataclasses import replace
from typing import Unpack

import torch

from coefdyn import CoefficientDynamics, evolution, normalizer, readout
from coefdyn.mixers.base import Past, Symbols, Tokens
from coefdyn.mixers.gates import HeadGate, TimestepDecay
from coefdyn.mixers.heads import HeadChoices, HeadMixer, HeadOptions, StageOptions
from coefdyn.options import check_count, check_flag
from coefdyn.shapes import Float, Tensor

__all__ = ["DeltaProduct", "GatedDeltaProduct"]


class DeltaProduct(HeadMixer):
    r"""Several steps of the delta rule per token: A_t is a product of m Householder factors.

        A_t = (I - beta_{t,m} k_{t,m} k_{t,m}^T) ... (I - beta_{t,1} k_{t,1} k_{t,1}^T)
        b_{j,s} = beta_{j,s} / sqrt(n)    phi = identity    eta_i = 1

    Each token writes m pairs (k_{t,s}, v_{t,s}), one per factor. So a token is m tokens of the
    dynamics, of which the last is read: positions m t, ..., m t + m - 1 belong to token t. A
    product of two reflections is a rotation, which a single factor is not.

    Args:
        steps: m, factors and pairs per token.
        negative_eigenvalues: beta in (0, 2), as the authors have it, instead of (0, 1).
        heads: see ``HeadOptions``; q, k, v and the output as in ``DeltaNet``.
    """

    defaults = StageOptions(short_convolution=4, output_gate="silu", output_norm="rms")
    settled = HeadChoices(query_key_norm=True)
    symbols = Symbols(
        title="DeltaProduct",
        evolution=r"\prod_{s=1}^{m} (\mathbb{I}_n - \beta_{t,s} k_{t,s} k_{t,s}^\top)",
        scaling=r"\frac{\beta_{j,s}}{\sqrt{n}}",
        readout=r"\mathrm{Id}(\cdot)",
        normalizer=r"1",
        source="arXiv 2502.10297",
        year=2025,
    )

    def __init__(
        self, *, steps: int = 2, negative_eigenvalues: bool = True, **heads: Unpack[HeadOptions]
    ) -> None:
        super().__init__(writes=check_count("steps", steps), **heads)
        self.steps = steps
        factor = 2.0 if check_flag("negative_eigenvalues", negative_eigenvalues) else 1.0
        self.beta = HeadGate(
            d_model=self.d_model, n_heads=steps * self.n_heads, kind="sigmoid", factor=factor
        )

    def arranged(self, tokens: Tokens, before: Past | None, past: Past) -> Tokens:
        """The m pairs of each token in sequence, with its query repeated for each of them."""
        q = tokens.q.repeat_interleave(self.steps, dim=-2)
        return replace(tokens, q=q, k=self._in_turn(tokens.k), v=self._in_turn(tokens.v))

    def _in_turn(self, heads: Float[Tensor, "*batch mH L c"]) -> Float[Tensor, "*batch H mL c"]:
        apart = heads.unflatten(-3, (self.n_heads, self.steps))
        return apart.transpose(-3, -2).flatten(-3, -2)

    def collect(self, y: Float[Tensor, "*dynamics rows dv"]) -> Float[Tensor, "*heads L dv"]:
        """Output after the last factor of each token."""
        return y[..., self.steps - 1 :: self.steps, :]

    def build(self, tokens: Tokens) -> CoefficientDynamics:
        beta = self._in_turn(tokens.match(self.beta(tokens.x))[..., None])[..., 0]
        return CoefficientDynamics(
            q=tokens.q,
            k=tokens.k,
            evolution=self.factors(tokens, beta),
            scaling=beta * self.key_dim**-0.5,
            readout=readout.identity,
            normalizer=normalizer.One(),
        )

    def factors(self, tokens: Tokens, beta: Float[Tensor, "*heads rows"]) -> evolution.Evolution:
        """The factors of every token, one position each."""
        return evolution.Householder(direction=tokens.k, beta=beta)


class GatedDeltaProduct(DeltaProduct):
    r"""DeltaProduct with Gated DeltaNet's decay, once per token, ahead of its first factor.

        A_t = (I - beta_{t,m} k_{t,m} k_{t,m}^T) ... (I - beta_{t,1} k_{t,1} k_{t,1}^T) a_t
        b_{j,s} = beta_{j,s} / sqrt(n)    phi = identity    eta_i = 1
        a_t = exp(-Delta_t a), Delta_t = softplus(W_a x_t + c)

    Args:
        steps, negative_eigenvalues, heads: see ``DeltaProduct``.
    """

    symbols = replace(
        DeltaProduct.symbols,
        title="Gated DeltaProduct",
        evolution=r"a_t \prod_{s=1}^{m} (\mathbb{I}_n - \beta_{t,s} k_{t,s} k_{t,s}^\top)",
    )

    def __init__(
        self, *, steps: int = 2, negative_eigenvalues: bool = True, **heads: Unpack[HeadOptions]
    ) -> None:
        super().__init__(steps=steps, negative_eigenvalues=negative_eigenvalues, **heads)
        self.decay = TimestepDecay(d_model=self.d_model, n_heads=self.n_heads, a_range=(0.0, 16.0))

    def factors(self, tokens: Tokens, beta: Float[Tensor, "*heads rows"]) -> evolution.Evolution:
        decay = tokens.match(self.decay(tokens.x)[0])[..., None]
        log_decay = torch.nn.functional.pad(decay, (0, self.steps - 1)).flatten(-2)
        return evolution.Householder(direction=tokens.k, beta=beta, log_decay=log_decay)
