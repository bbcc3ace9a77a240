"""Mamba-2 (Dao & Gu, 2024): Table 1, fifth row."""

from __future__ import annotations

from typing import Unpack

import torch
from torch import nn

from coefdyn import CoefficientDynamics, evolution, normalizer, readout
from coefdyn.mixers.base import Symbols, Tokens
from coefdyn.mixers.gates import TimestepDecay
from coefdyn.mixers.heads import HeadMixer, HeadOptions, StageOptions
from coefdyn.options import check_choice, check_count, check_flag
from coefdyn.shapes import Tensor

__all__ = ["Mamba2"]


class Mamba2(HeadMixer):
    r"""Mamba-2; in its authors' letters q = C, k = B, v = x.

        A_t = exp(-Delta_t a) I    b_j = Delta_j    phi = identity    eta_i = 1
        Delta_t = softplus(W x_t + c)    output = W_o RMSNorm((y + D v) * SiLU(W_z x))

    Args:
        n_groups: number of different (q, k) pairs, shared by n_heads / n_groups heads each. The
            authors use 1; n_heads gives every head its own.
        scaling: "delta" (Delta_j), "inverse_sqrt" (1/sqrt(n)) or "one": the language-model ablation
            of Principle 5. Mamba-2 itself has no 1/sqrt(n).
        fixed_delta: Delta = softplus(c), the same for every token (eigenvalue paper, section 5).
        skip: the term D v, one learned number per head, 1 at the start.
        heads: see ``HeadOptions``. The gate comes before the norm, which runs over all heads of a
            group at once. The authors use key_dim = 128 and value_dim = 2 d_model / n_heads = 64;
            output_gate="none" with output_norm="none" is the SSD layer of the DSF and eigenvalue
            papers.

    Initialisation: Delta log-uniform in [0.001, 0.1], a uniform in [1, 16]; a, c and D are exempt
    from weight decay.

    Raises:
        ValueError: for a number of groups that does not divide the heads.
    """

    no_weight_decay = (*HeadMixer.no_weight_decay, "skip")
    defaults = StageOptions(short_convolution=4, output_gate="silu", output_norm="rms")
    symbols = Symbols(
        title="Mamba-2",
        evolution=r"e^{-\Delta_t a}\, \mathbb{I}_n",
        scaling=r"\Delta_j",
        readout=r"\mathrm{Id}(\cdot)",
        normalizer=r"1",
        source="Lemma 11",
    )

    def __init__(
        self,
        *,
        n_groups: int = 1,
        scaling: str = "delta",
        fixed_delta: bool = False,
        skip: bool = True,
        **heads: Unpack[HeadOptions],
    ) -> None:
        super().__init__(
            key_heads=check_count("n_groups", n_groups),
            norm_groups=n_groups,
            convolution_bias=True,
            gate_first=True,
            **heads,
        )
        if self.n_heads % n_groups:
            raise ValueError(f"n_groups must divide n_heads={self.n_heads}, got {n_groups}.")
        self.scaling = check_choice("scaling", scaling, ("delta", "inverse_sqrt", "one"))
        self.decay = TimestepDecay(
            d_model=self.d_model,
            n_heads=self.n_heads,
            input_dependent=not check_flag("fixed_delta", fixed_delta),
        )
        self.skip = nn.Parameter(torch.empty(self.n_heads)) if check_flag("skip", skip) else None
        Mamba2.start(self)

    @torch.no_grad()
    def start(self) -> None:
        """Fill D with 1."""
        if self.skip is not None:
            self.skip.fill_(1.0)

    def build(self, tokens: Tokens) -> CoefficientDynamics:
        log_decay, delta = (tokens.match(value) for value in self.decay(tokens.x))
        constants = {"inverse_sqrt": self.key_dim**-0.5, "one": 1.0}
        repeats = self.n_heads // tokens.q.shape[-3]
        return CoefficientDynamics(
            q=tokens.q.repeat_interleave(repeats, dim=-3),
            k=tokens.k.repeat_interleave(repeats, dim=-3),
            evolution=evolution.Scalar(log_decay=log_decay),
            scaling=delta if self.scaling == "delta" else constants[self.scaling],
            readout=readout.identity,
            normalizer=normalizer.One(),
        )

    def finish(self, y: Tensor, tokens: Tokens) -> Tensor:
        if self.skip is not None:
            y = y + self.skip[:, None, None] * tokens.v
        return super().finish(y, tokens)
