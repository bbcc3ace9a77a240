"""Lightning attention (Qin et al., 2024, arXiv 2405.17381), as in MiniMax-01 (arXiv 2501.08313)."""

from __future__ import annotations

from typing import Unpack

import torch

from coefdyn import CoefficientDynamics, evolution, normalizer, readout
from coefdyn.mixers.base import Symbols, Tokens
from coefdyn.mixers.heads import HeadChoices, HeadMixer, HeadOptions
from coefdyn.options import check_number

__all__ = ["LightningAttention"]


class LightningAttention(HeadMixer):
    r"""Linear attention with one fixed decay per head, shorter in the first layers.

        A_t = exp(-s_h (1 - depth + 1e-5)) I, s_h = 2^(-8 (h+1)/H)    b_j = 1
        phi = identity    eta_i = 1    output = W_o (RMSNorm(y) * sigmoid(W_g x))

    q, k and v are SiLU(W x); the norm runs over all heads. Heads count from 0.

    Args:
        depth: 0 in a model's first layer, 1 in its last (the authors: layer / (layers - 1)).
        heads: see ``HeadOptions``.

    Raises:
        ValueError: for a depth outside [0, 1].
    """

    activated = ("query", "key", "value")
    defaults = HeadChoices(output_gate="sigmoid", output_norm="rms")
    symbols = Symbols(
        title="Lightning attention",
        evolution=r"e^{-s_h}\, \mathbb{I}_n",
        scaling=r"1",
        readout=r"\mathrm{Id}(\cdot)",
        normalizer=r"1",
        source="arXiv 2501.08313",
        year=2024,
        models="MiniMax-01",
    )

    def __init__(self, *, depth: float = 0.0, **heads: Unpack[HeadOptions]) -> None:
        super().__init__(norm_groups=1, **heads)
        if check_number("depth", depth, least=0.0) > 1:
            raise ValueError(f"depth must lie in 0 (first layer) .. 1 (last), got {depth!r}.")
        self.depth = depth

    def build(self, tokens: Tokens) -> CoefficientDynamics:
        head = torch.arange(1, self.n_heads + 1, device=tokens.q.device, dtype=torch.float64)
        slope = 2.0 ** (-8.0 * head / self.n_heads) * (1 - self.depth + 1e-5)
        log_decay = tokens.match(-slope)[:, None].expand(tokens.q.shape[:-1])
        return CoefficientDynamics(
            q=tokens.q,
            k=tokens.k,
            evolution=evolution.Scalar(log_decay=log_decay),
            scaling=1.0,
            readout=readout.identity,
            normalizer=normalizer.One(),
        )
