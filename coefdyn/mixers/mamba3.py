"""Mamba-3, single input and output (SISO; arXiv 2603.15569): a trapezoid and a rotation."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar, Unpack, cast

import torch
from torch import nn
from torch.nn import functional

from coefdyn import CoefficientDynamics, evolution, normalizer, readout
from coefdyn.execution.state import LinearState
from coefdyn.mixers.base import MixerState, Past, Symbols, Tokens
from coefdyn.mixers.gates import timestep_gate
from coefdyn.mixers.heads import HeadChoices, HeadMixer, HeadOptions
from coefdyn.mixers.projections import OutputStage, at_least_float32
from coefdyn.shapes import Float, Tensor

__all__ = ["Mamba3"]


class Mamba3(HeadMixer):
    r"""Mamba-2 with the trapezoidal rule and a state rotated by data-dependent angles.

    In its authors' letters q = C, k = B, v = x:

        h_t = e^{Delta_t a_t} R_t (h_{t-1} + (1 - lambda_t) Delta_t B_{t-1} x_{t-1})
              + lambda_t Delta_t B_t x_t,        y_t = C_t^T h_t + D x_t

        A_t = e^{Delta_t a_t} R_t    b_j = lambda_j Delta_j + (1 - lambda_{j+1}) Delta_{j+1}
        own_i = D - (1 - lambda_{i+1}) Delta_{i+1} q_i^T k_i    phi = identity    eta_i = 1

    A token enters half with its own step and half with the next one; the own term takes back what
    belongs to the next. R_t turns channels r and r + n/2 by Delta_t theta_{t,r}, theta = W_r x.
    The turns are folded into q and k, each turned back by all angles so far, which gives the same
    products and leaves A_t a number. Delta_t = softplus(W x_t + c), a_t = -softplus(W_a x_t),
    lambda_t = sigmoid(W_l x_t).

    Args:
        heads: see ``HeadOptions``; key_dim is even. q and k are shared by all heads: an RMS norm of
            a linear map, plus a bias per head, 1 at the start. output = W_o (y * SiLU(W_z x)).

    Initialisation: Delta log-uniform in [0.001, 0.1], D = 1, without weight decay.

    Differences: the authors pair neighbouring channels in a rotation.

    Raises:
        ValueError: for an odd key_dim.
    """

    defaults = HeadChoices(output_gate="silu")
    settled = HeadChoices(position="none", query_key_norm=False)
    no_weight_decay: ClassVar[tuple[str, ...]] = ("skip", "query_bias", "key_bias")
    symbols = Symbols(
        title="Mamba-3 (SISO)",
        evolution=r"e^{\Delta_t a_t} R_t",
        scaling=r"\lambda_j \Delta_j + (1 - \lambda_{j+1}) \Delta_{j+1}",
        readout=r"\mathrm{Id}(\cdot)",
        normalizer=r"1",
        source="arXiv 2603.15569",
        year=2026,
    )

    def __init__(self, **heads: Unpack[HeadOptions]) -> None:
        super().__init__(key_heads=1, **heads)
        if self.key_dim % 2:
            raise ValueError(f"Mamba3 turns pairs of channels; key_dim={self.key_dim} is odd.")
        self.timestep = timestep_gate(d_model=self.d_model, n_heads=self.n_heads)
        self.rate = self.head_gate("softplus")
        self.share = self.head_gate("sigmoid")
        self.speed = nn.Linear(self.d_model, self.key_dim // 2, bias=False)
        shape = (self.n_heads, 1, self.key_dim)
        self.query_bias = nn.Parameter(torch.empty(shape))
        self.key_bias = nn.Parameter(torch.empty(shape))
        self.query_weight = nn.Parameter(torch.empty(self.key_dim))
        self.key_weight = nn.Parameter(torch.empty(self.key_dim))
        self.skip = nn.Parameter(torch.empty(self.n_heads))
        Mamba3.start(self)

    @torch.no_grad()
    def start(self) -> None:
        """Fill the biases and weights of q and k, and D, with 1."""
        for one in self.parameters(recurse=False):
            one.fill_(1.0)

    def arranged(self, tokens: Tokens, before: Past | None, past: Past) -> Tokens:
        """Rotated q and k; the memory is the angle, and the last token's key and value."""
        angle = self.timestep(tokens.x)[..., None] * self.speed(tokens.x)[..., None, :, :]
        angle = angle.to(torch.promote_types(angle.dtype, torch.float32)).cumsum(-2)
        if before is not None:
            angle = angle + before["angle"][..., None, :]
        q = turned(self._normed(tokens.q, self.query_weight, self.query_bias), -angle)
        k = turned(self._normed(tokens.k, self.key_weight, self.key_bias), -angle)
        past |= {"angle": angle[..., -1, :], "key": k[..., -1, :], "value": tokens.v[..., -1, :]}
        return replace(tokens, q=q, k=k)

    def _normed(self, x: Tensor, weight: Tensor, bias: Tensor) -> Float[Tensor, "*heads L n"]:
        wide, eps = at_least_float32(x), cast(OutputStage, self.output).eps
        scale = torch.rsqrt(wide.square().mean(-1, keepdim=True) + eps)
        return (wide * scale * weight + bias).to(x.dtype)

    def build(self, tokens: Tokens) -> CoefficientDynamics:
        step, share, rate = (
            tokens.match(gate(tokens.x)) for gate in (self.timestep, self.share, self.rate)
        )
        later = functional.pad(((1 - share) * step)[..., 1:], (0, 1))  # the next token's half
        skip = tokens.match(self.skip)[:, None]
        return CoefficientDynamics(
            q=tokens.q,
            k=tokens.k,
            evolution=evolution.Scalar(log_decay=-step * rate),
            scaling=share * step + later,
            readout=readout.identity,
            normalizer=normalizer.One(),
            own=skip - later * (tokens.q * tokens.k).sum(-1),
        )

    def resume(self, x: Float[Tensor, "*batch L d"], state: MixerState | None) -> MixerState | None:
        """Write the last token's second half, which these tokens make known."""
        self.check_input(x, state)
        if state is None:
            return None
        now = x[..., :1, :]
        half = ((1 - self.share(now)) * self.timestep(now))[..., None]
        past, inner = state.past, cast(LinearState, state.dynamics)
        late = half * past["value"][..., :, None] * past["key"][..., None, :]
        inner = replace(inner, matrix=inner.matrix + late.to(inner.matrix.dtype))
        return replace(state, dynamics=inner)


def turned(x: Float[Tensor, "*heads L n"], angle: Tensor) -> Float[Tensor, "*heads L n"]:
    """Rotate channels r and r + n/2 by ``angle`` (..., L, n/2)."""
    cos, sin = angle.cos().to(x.dtype), angle.sin().to(x.dtype)
    first, second = x.chunk(2, dim=-1)
    return torch.cat([first * cos - second * sin, second * cos + first * sin], dim=-1)
