"""RWKV-7 (Peng et al., 2025, arXiv 2503.14456): its time mixing as coefficient dynamics."""

from __future__ import annotations

import math
from typing import ClassVar, Unpack

import torch
from torch import nn

from coefdyn import CoefficientDynamics, evolution, normalizer, readout
from coefdyn.mixers.base import Symbols, Tokens
from coefdyn.mixers.heads import HeadMixer, HeadOptions, StageOptions
from coefdyn.mixers.projections import l2_normalize, split_heads
from coefdyn.shapes import Tensor

__all__ = ["RWKV7"]

#: the fastest decay of the authors, in nats per token
FASTEST = math.exp(-0.5)


class RWKV7(HeadMixer):
    r"""Delta rule whose erasing key, learning rate and decay are separate vectors.

        A_t = diag(w_t) - (a_t * z_t) z_t^T    b_j = 1    phi = identity    eta_i = 1
        keys k~_j = k_j * (1 + (a_j - 1) * c)    own_i = q_i^T (u * k~_i)

    with w_t = exp(-e^{-1/2} sigmoid(W_w x_t + d)), the learning rates a_t = sigmoid(W_a x_t), the
    erasing direction z_t the L2-normalised s * k_t, and c, s, u learned vectors per head. The own
    term is what a token adds for itself alone (the bonus).

    Args:
        heads: see ``HeadOptions``.

    Differences: the authors mix each token with the one before it ahead of all projections, make
    w, a and the gate by matrices of low rank, blend the values with those of the first layer, and
    add the bonus behind the output norm; none of that is here.
    """

    defaults = StageOptions(output_gate="sigmoid", output_norm="layer")
    no_weight_decay: ClassVar[tuple[str, ...]] = ("position_table", "strength", "erase", "bonus")
    symbols = Symbols(
        title="RWKV-7",
        evolution=r"\mathrm{diag}(w_t) - (a_t \odot z_t) z_t^\top",
        scaling=r"1",
        readout=r"\mathrm{Id}(\cdot)",
        normalizer=r"1",
        source="arXiv 2503.14456",
        year=2025,
        models="RWKV-7 Goose",
    )

    def __init__(self, **heads: Unpack[HeadOptions]) -> None:
        super().__init__(**heads)
        channels, shape = self.n_heads * self.key_dim, (self.n_heads, 1, self.key_dim)
        self.decay = nn.Linear(self.d_model, channels, bias=True)
        self.rate = nn.Linear(self.d_model, channels, bias=False)
        self.strength = nn.Parameter(torch.empty(shape))
        self.erase = nn.Parameter(torch.empty(shape))
        self.bonus = nn.Parameter(torch.empty(shape))
        RWKV7.start(self)

    @torch.no_grad()
    def start(self) -> None:
        """Fill c and s with 1, u with 0."""
        self.strength.fill_(1.0)
        self.erase.fill_(1.0)
        self.bonus.zero_()

    def _heads(self, tokens: Tokens, part: nn.Linear) -> Tensor:
        """sigmoid(W x), ``(..., H, L, n)``."""
        return tokens.match(split_heads(part(tokens.x).sigmoid(), self.n_heads))

    def build(self, tokens: Tokens) -> CoefficientDynamics:
        rate = self._heads(tokens, self.rate)
        strength, erase, bonus = (
            tokens.match(part) for part in (self.strength, self.erase, self.bonus)
        )
        direction = l2_normalize(erase * tokens.k)
        k = tokens.k * (1 + (rate - 1) * strength)
        return CoefficientDynamics(
            q=tokens.q,
            k=k,
            evolution=evolution.DiagonalPlusRankOne(
                log_decay=-FASTEST * self._heads(tokens, self.decay),
                left=rate * direction,
                right=direction,
            ),
            scaling=1.0,
            readout=readout.identity,
            normalizer=normalizer.One(),
            own=(tokens.q * bonus * k).sum(-1),
        )
