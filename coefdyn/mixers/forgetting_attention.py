"""Forgetting attention (FoX; Lin et al., 2025, arXiv 2503.02130) and ALiBi (Press et al., 2022)."""

from __future__ import annotations

from typing import Unpack

import torch
from torch import nn
from torch.nn import functional

from coefdyn import CoefficientDynamics, evolution, normalizer, readout
from coefdyn.mixers.base import Symbols, Tokens
from coefdyn.mixers.heads import HeadMixer, HeadOptions
from coefdyn.shapes import Float, Tensor

__all__ = ["ALiBiAttention", "ForgettingAttention"]


def faded_attention(mixer: HeadMixer, tokens: Tokens, log_decay: Tensor) -> CoefficientDynamics:
    """Softmax attention with a decay outside exp."""
    return CoefficientDynamics(
        q=tokens.q,
        k=tokens.k,
        evolution=evolution.Identity(),
        scaling=mixer.key_dim**-0.5,
        readout=readout.exp,
        normalizer=normalizer.RowSum(),
        outer_log_decay=tokens.match(log_decay),
    )


class ForgettingAttention(HeadMixer):
    r"""Softmax attention with a forget gate whose logarithms are added to the scores.

        alpha_{i,j} = f_{j+1} ... f_i exp(q_i^T k_j / sqrt(n))    eta_i = sum_j alpha_{i,j}
        A_t = I    b_j = 1/sqrt(n)    phi = exp    f_t = sigmoid(W_f x_t + c), one per head

    The decay lies outside phi. It can also be told as a shear of A_t on keys (k, 0, 1), whose
    scores it then raises step by step; the outer form is the fast one.

    Args:
        heads: see ``HeadOptions``. The authors' stronger variant adds an output gate, an output
            norm and norms of q and k.
    """

    symbols = Symbols(
        title="Forgetting attention",
        evolution=r"\mathbb{I}_n",
        scaling=r"\frac{1}{\sqrt{n}}",
        readout=r"f_{j+1} \cdots f_i \exp(\cdot)",
        normalizer=r"\sum_{j=1}^{i} \alpha_{i,j}",
        source="arXiv 2503.02130",
        year=2025,
    )

    def __init__(self, **heads: Unpack[HeadOptions]) -> None:
        super().__init__(**heads)
        self.forget = nn.Linear(self.d_model, self.n_heads, bias=True)

    def build(self, tokens: Tokens) -> CoefficientDynamics:
        log_forget = functional.logsigmoid(self.forget(tokens.x)).transpose(-1, -2)
        return faded_attention(self, tokens, log_forget)


class ALiBiAttention(HeadMixer):
    r"""Softmax attention with linear biases: each head forgets at a fixed rate of its own.

        alpha_{i,j} = exp(-m_h (i - j)) exp(q_i^T k_j / sqrt(n))    m_h = 2^{-8 h / H}
        A_t = I    b_j = 1/sqrt(n)    phi = exp    eta_i = sum_j alpha_{i,j}

    Args:
        heads: see ``HeadOptions``.

    Differences: the slopes are the authors' geometric sequence for every number of heads; they
    interleave two of them where it is no power of two.
    """

    symbols = Symbols(
        title="ALiBi",
        evolution=r"\mathbb{I}_n",
        scaling=r"\frac{1}{\sqrt{n}}",
        readout=r"e^{-m (i - j)} \exp(\cdot)",
        normalizer=r"\sum_{j=1}^{i} \alpha_{i,j}",
        source="arXiv 2108.12409",
        year=2021,
        models="BLOOM, MPT",
    )

    def __init__(self, **heads: Unpack[HeadOptions]) -> None:
        super().__init__(**heads)

    def slopes(self) -> Float[Tensor, " H"]:
        """m_h of every head, in nats per token."""
        head = torch.arange(1, self.n_heads + 1, dtype=torch.float64)
        return 2.0 ** (-8.0 * head / self.n_heads)

    def build(self, tokens: Tokens) -> CoefficientDynamics:
        slopes = self.slopes().to(tokens.q)[:, None]
        batch, length = tokens.q.shape[:-3], tokens.q.shape[-2]
        return faded_attention(self, tokens, -slopes.expand(*batch, self.n_heads, length))
