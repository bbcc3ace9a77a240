"""HGRN2 (Qin et al., 2024, arXiv 2404.07904)."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Unpack

import torch
from torch.nn import functional

from coefdyn import CoefficientDynamics, evolution, normalizer, readout
from coefdyn.mixers.base import Past, Symbols, Tokens
from coefdyn.mixers.heads import HeadChoices, HeadMixer, HeadOptions
from coefdyn.options import check_number

__all__ = ["HGRN2"]


class HGRN2(HeadMixer):
    r"""Gated linear recurrence with tied gates: the key of a channel is 1 minus its decay.

        A_t = diag(f_t)    k_t = 1 - f_t    f_t = low + (1 - low) sigmoid(W_f x_t)
        b_j = 1/sqrt(n)    phi = identity    eta_i = 1    output = W_o RMSNorm(y)

    q = SiLU(W x); the norm runs over all heads. W_f is the projection named "key".

    Args:
        lower_bound: low, in [0, 1). The authors learn one per layer, rising from 0 in the first.
        heads: see ``HeadOptions``; there are no positions, since k is a gate.

    Differences: the paper has b_j = 1; the authors' code, and we, take 1/sqrt(n).

    Raises:
        ValueError: for a lower bound outside [0, 1).
    """

    activated = ("query",)
    settled = HeadChoices(position="none", query_key_norm=False)
    defaults = HeadChoices(output_norm="rms")
    symbols = Symbols(
        title="HGRN2",
        evolution=r"\mathrm{diag}(f_t)",
        scaling=r"\frac{1}{\sqrt{n}}",
        readout=r"\mathrm{Id}(\cdot)",
        normalizer=r"1",
        source="arXiv 2404.07904",
        year=2024,
    )

    def __init__(self, *, lower_bound: float = 0.0, **heads: Unpack[HeadOptions]) -> None:
        super().__init__(norm_groups=1, **heads)
        if check_number("lower_bound", lower_bound, least=0.0) >= 1:
            raise ValueError(f"lower_bound must lie in 0 <= low < 1, got {lower_bound!r}.")
        self.lower_bound = lower_bound

    def arranged(self, tokens: Tokens, before: Past | None, past: Past) -> Tokens:
        """The keys are 1 - f; z carries log f."""
        log_open = functional.logsigmoid(tokens.k)
        if self.lower_bound:
            low = tokens.k.new_tensor(math.log(self.lower_bound))
            log_open = torch.logaddexp(low, math.log1p(-self.lower_bound) + log_open)
        k = (1 - self.lower_bound) * torch.sigmoid(-tokens.k)
        return replace(tokens, k=k, z=log_open)

    def build(self, tokens: Tokens) -> CoefficientDynamics:
        assert tokens.z is not None, "set by tokens"
        return CoefficientDynamics(
            q=tokens.q,
            k=tokens.k,
            evolution=evolution.Diagonal(log_decay=tokens.z),
            scaling=self.key_dim**-0.5,
            readout=readout.identity,
            normalizer=normalizer.One(),
        )
