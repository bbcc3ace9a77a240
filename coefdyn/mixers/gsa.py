"""Gated slot attention, GSA (Zhang et al., 2024, arXiv 2409.07146)."""

from __future__ import annotations

from dataclasses import replace
from typing import Unpack

import torch
from torch import nn
from torch.nn import functional

from coefdyn import CoefficientDynamics, evolution, normalizer, readout
from coefdyn.execution.inputs import full_precision
from coefdyn.mixers.base import Past, Symbols, Tokens
from coefdyn.mixers.heads import HeadChoices, HeadMixer, HeadOptions
from coefdyn.mixers.projections import at_least_float32, split_heads
from coefdyn.options import check_count
from coefdyn.shapes import Float, Tensor

__all__ = ["GSA"]


class GSA(HeadMixer):
    r"""M slots that forget what they are not asked to keep, read by a softmax over the slots.

        A_t = diag(a_t) over slots, a_t = sigmoid(W_a x_t)^(1/8)    k~_t = 1 - a_t    b_j = 1
        q~_i = softmax_m(sum_{j <= i} a_{i,m} ... a_{j+1,m} (1 - a_{j,m}) q_i^T k_j)
        phi = identity    eta_i = 1    output = W_o RMSNorm(SiLU(y))

    q~_i depends on all keys up to i: that is outside the four ingredients, but it reads no value,
    so that the output is linear in v and has coefficients. q, k and v are SiLU(W x); the norm runs
    over all heads.

    Args:
        slots: M, the n of the dynamics; key_dim if None.
        heads: see ``HeadOptions``; key_dim is the width of q and k in the first pass.
    """

    activated = ("query", "key", "value")
    defaults = HeadChoices(output_norm="rms")
    symbols = Symbols(
        title="Gated slot attention (GSA)",
        evolution=r"\mathrm{diag}(a_t)",
        scaling=r"1",
        readout=r"\mathrm{Id}(\cdot)",
        normalizer=r"1",
        source="arXiv 2409.07146",
        year=2024,
    )

    def __init__(self, *, slots: int | None = None, **heads: Unpack[HeadOptions]) -> None:
        super().__init__(norm_groups=1, **heads)
        if slots is not None:
            self.key_dim = check_count("slots", slots)
        self.decay = nn.Linear(self.d_model, self.n_heads * self.key_dim, bias=False)

    def arranged(self, tokens: Tokens, before: Past | None, past: Past) -> Tokens:
        """Keys and queries over slots; z carries log a. Memory: the state of the first pass.

        It is summed in float32 at least, as every state is.
        """
        raw = split_heads(self.decay(tokens.x), self.n_heads)
        log_decay = tokens.match(functional.logsigmoid(raw) / 8)
        slots = -torch.expm1(log_decay)
        scores = self._first_pass(tokens, log_decay, slots)
        q, k, g, kappa = (at_least_float32(one) for one in (tokens.q, tokens.k, log_decay, slots))
        later = g.flip(-2).cumsum(-2).flip(-2) - g  # nats from after a token to the last one
        written, fade = later.exp() * kappa, g.cumsum(-2).exp()
        if tokens.documents is not None:
            written = written * tokens.documents.last()[..., None, :, None]
            fade = fade * tokens.documents.kept()[..., None, :, None]
        with full_precision(tokens.x.device):
            kept = k.mT @ written
            if before is not None:
                held = before["slots"].to(kept.dtype).unflatten(-1, kept.shape[-2:])
                scores = scores + fade * (q @ held)
                kept = kept + fade[..., -1:, :] * held
        past["slots"] = kept.flatten(-2)
        return replace(tokens, q=tokens.match(scores.softmax(-1)), k=slots, z=log_decay)

    def _first_pass(
        self, tokens: Tokens, log_decay: Tensor, slots: Tensor
    ) -> Float[Tensor, "*heads L slots"]:
        """Scores of the slots: coefficient dynamics with a head per slot and values 1."""
        one = tokens.q[..., None, :, :1].expand(*slots.mT.shape, 1)
        written = CoefficientDynamics(
            q=tokens.q[..., None, :, :],
            k=tokens.k[..., None, :, :],
            evolution=evolution.Scalar(log_decay=log_decay.mT),
            scaling=slots.mT,
            readout=readout.identity,
            normalizer=normalizer.One(),
        )
        return tokens.apart(written).apply(torch.ones_like(one))[..., 0].mT

    def build(self, tokens: Tokens) -> CoefficientDynamics:
        assert tokens.z is not None, "set by tokens"
        return CoefficientDynamics(
            q=tokens.q,
            k=tokens.k,
            evolution=evolution.Diagonal(log_decay=tokens.z),
            scaling=1.0,
            readout=readout.identity,
            normalizer=normalizer.One(),
        )

    def finish(self, y: Float[Tensor, "*heads L dv"], tokens: Tokens) -> Tensor:
        return super().finish(functional.silu(y), tokens)
