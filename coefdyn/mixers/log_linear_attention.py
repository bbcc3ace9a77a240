"""Log-linear attention (Guo et al., 2025, arXiv 2506.04761): one state per scale of the past."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import ClassVar, Unpack

import torch
from torch import nn
from torch.nn import functional

from coefdyn import CoefficientDynamics, evolution, normalizer, readout
from coefdyn.mixers.base import Past, Symbols, Tokens
from coefdyn.mixers.elementwise import softplus
from coefdyn.mixers.gates import TimestepDecay
from coefdyn.mixers.heads import HeadMixer, HeadOptions, StageOptions
from coefdyn.mixers.tokens import longest
from coefdyn.options import check_count
from coefdyn.shapes import Float, Tensor

__all__ = ["Levels", "LogLinearAttention"]


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Levels(evolution.Evolution):
    r"""A_t = exp(g_t) M_t (x) I: a state of several levels, each of n channels, that carry over.

    M_t adds levels 0 .. c_t to level c_t + 1 and empties them; higher levels stay. With c_t the
    number of trailing zeros of t in binary, level l >= 1 holds 2^(l-1) tokens while bit l - 1 of t
    is set, and none otherwise (a Fenwick tree).

    Args:
        log_decay: g, ``(..., L)``, nats per token, finite.
        carry: c, ``(L,)`` or ``(..., L)``, whole numbers from 0 to levels - 2.
        levels: how many; the channels of a key are level after level.
    """

    structure: ClassVar[str] = "levels"
    axes: ClassVar[dict[str, str]] = {"log_decay": "L", "carry": "L"}
    log_decay: Float[Tensor, "*#batch L"]
    carry: Float[Tensor, "*#batch L"]
    levels: int

    def tensors(self) -> dict[str, Tensor]:
        return {"log_decay": self.log_decay, "carry": self.carry}

    @property
    def common_log_decay(self) -> Tensor:
        return self.log_decay

    def rotate(self, h: Tensor, t: int) -> Tensor:
        level = torch.arange(self.levels, device=h.device)
        last = self.carry[..., t, None, None, None]
        apart = h.unflatten(-1, (self.levels, -1))
        leaving = (level[:, None] <= last).to(h.dtype)
        target = (level[:, None] == last + 1).to(h.dtype)
        total = (apart * leaving).sum(-2, keepdim=True)
        return (apart * (1 - leaving) + target * total).flatten(-2)


class LogLinearAttention(HeadMixer):
    r"""Linear attention with decay whose query weights the past by its distance on a binary scale.

        alpha_{i,j} = lambda_i^{level(i,j)} a_{j+1} ... a_i q_i^T k_j / sqrt(n)

    The level of a pair is the number of binary digits of i XOR j: level 0 is the token itself,
    level l a stretch of 2^(l-1) tokens, the longer the further back. As coefficient dynamics on a
    state of all levels:

        A_t = a_t M_t (x) I_n, see ``Levels``    k~_j = (k_j, 0, ..., 0)    b_j = 1
        q~_i = (lambda_i^0 q_i, lambda_i^1 q_i, ...) / sqrt(n)    phi = identity    eta_i = 1

    with a_t Mamba-2's decay and lambda_i = softplus(W_l x_i) one number per head and level. The
    state has log2(L) levels, hence the name; it has a fixed size for the longest sequence.

    Args:
        longest: the longest sequence in tokens, which settles the number of levels.
        heads: see ``HeadOptions``; key_dim is n of one level.

    Raises:
        ValueError: for sequences longer than that.
    """

    defaults = StageOptions(short_convolution=4, output_gate="silu", output_norm="rms")
    symbols = Symbols(
        title="Log-linear attention",
        evolution=r"a_t M_t \otimes \mathbb{I}_n",
        scaling=r"1",
        readout=r"\mathrm{Id}(\cdot)",
        normalizer=r"1",
        source="arXiv 2506.04761",
        year=2025,
    )

    def __init__(self, *, longest: int = 2048, **heads: Unpack[HeadOptions]) -> None:
        super().__init__(**heads)
        self.longest = check_count("longest", longest)
        self.levels = 1 + math.ceil(math.log2(longest))
        self.decay = TimestepDecay(d_model=self.d_model, n_heads=self.n_heads)
        self.weights = nn.Linear(self.d_model, self.n_heads * self.levels, bias=True)
        self.key_dim *= self.levels

    def arranged(self, tokens: Tokens, before: Past | None, past: Past) -> Tokens:
        """Queries and keys over all levels.

        Raises:
            ValueError: for a sequence longer than ``longest``.
        """
        end = tokens.start + tokens.x.shape[-2]
        if tokens.documents is not None:
            end = longest(tokens.documents.positions)
        if end > self.longest:
            raise ValueError(
                f"this mixer has levels for longest={self.longest} tokens, but token "
                f"{end} was asked for; build it with a larger one."
            )
        raw = self.weights(tokens.x).unflatten(-1, (self.n_heads, -1)).transpose(-3, -2)
        weights = tokens.match(softplus(raw)) * tokens.q.shape[-1] ** -0.5
        q = (weights[..., None] * tokens.q[..., None, :]).flatten(-2)
        k = functional.pad(tokens.k, (0, self.key_dim - tokens.k.shape[-1]))
        return replace(tokens, q=q, k=k)

    def build(self, tokens: Tokens) -> CoefficientDynamics:
        position = tokens.index()
        lowest = (position & -position).clamp(min=1)
        return CoefficientDynamics(
            q=tokens.q,
            k=tokens.k,
            evolution=Levels(
                log_decay=tokens.match(self.decay(tokens.x)[0]),
                carry=tokens.match(lowest.double().log2().round()),
                levels=self.levels,
            ),
            scaling=1.0,
            readout=readout.identity,
            normalizer=normalizer.One(),
        )
