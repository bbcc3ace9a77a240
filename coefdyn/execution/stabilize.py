r"""A running stabiliser for log scalings of any size (the m_t of mLSTM).

Let m_i be any sequence. With S~_i = S_i e^{-m_i} the linear state equation keeps its form,

    S~_i = e^{g_i + m_{i-1} - m_i} R_i S~_{i-1} + e^{l_i - m_i} k_i v_i^T,

so a stabilised scan is the plain scan with other gates. m_i = max(g_i + m_{i-1}, l_i + log |k_i|)
keeps the largest key of the state at size 1, also where later keys are 0. The result does not
depend on m, so no gradient flows through it.
"""

from __future__ import annotations

from typing import NamedTuple

import torch

from coefdyn.shapes import Float, Tensor, broadcast_shapes

__all__ = ["RESET", "Stabilized", "shifted", "stabilize"]

#: a decay of this many nats per token is a full reset in float32 and float64 alike
RESET = -1e4


class Stabilized(NamedTuple):
    """Gates of the stabilised scan; coefficients are those of the plain scan times exp(-offset).

    Attributes:
        shift: m_{i-1} - m_i in float64, to be added to every log decay before rounding: two numbers
            of some hundred nats whose sum is near 0, ``(..., L)``.
        weight: exp(l_i - m_i), ``(..., L)``.
        offset: m_i in float64, ``(..., L)``: a later piece goes on from the last one, which may be
            hundreds of nats.
    """

    shift: Float[Tensor, "*batch L"]
    weight: Float[Tensor, "*batch L"]
    offset: Float[Tensor, "*batch L"]


def shifted(log_decay: Tensor | None, shift: Tensor, dtype: torch.dtype) -> Tensor:
    """The stabilised log decay, rounded once."""
    return (shift if log_decay is None else log_decay.double() + shift).to(dtype)


def stabilize(
    growth: Float[Tensor, "*#batch L"] | None,
    log_scaling: Float[Tensor, "*#batch L"],
    log_size: Float[Tensor, "*#batch L"],
    start: Float[Tensor, "*#batch"] | None,
) -> Stabilized:
    """The gates for log scalings l and log decays g (None for 0).

    Sums are float64: with gates of +-200 nats a float32 sum is wrong by 1e-3 after 50 tokens.

    Args:
        growth: g, nats per token.
        log_scaling: l, nats.
        log_size: log |k|, finite, where k comes with the constant factors of b.
        start: the offset of an initial state, or None without one.
    """
    dtype = log_scaling.dtype
    logs = (log_scaling + log_size).detach().double()
    if growth is None:
        total = torch.zeros_like(logs)
    else:
        total = growth.detach().double().clamp(min=RESET).cumsum(-1)
    if start is not None:  # of all leading axes, where the gates may have none
        logs = logs.expand(*broadcast_shapes(logs.shape[:-1], start.shape), logs.shape[-1])
    logs, total = torch.broadcast_tensors(logs, total)
    offset = total + (logs - total).cummax(-1).values
    first = total[..., :1]
    if start is None:
        before = offset[..., :1] - first  # the state is empty: any shift will do
    else:
        before = start[..., None].double()
        offset = torch.maximum(offset, total + before)
    shift = torch.cat([before, offset[..., :-1]], -1) - offset
    weight = (log_scaling.double() - offset).exp()
    return Stabilized(shift, weight.to(dtype), offset)
