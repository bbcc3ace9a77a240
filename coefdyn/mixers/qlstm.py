"""qLSTM, an LSTM whose gates read the input only (Stanic et al., 2023): beyond Table 1."""

from __future__ import annotations

from typing import Unpack

import torch
from torch import nn
from torch.nn import functional

from coefdyn import CoefficientDynamics, evolution, normalizer, readout
from coefdyn.mixers.base import Symbols, Tokens
from coefdyn.mixers.heads import HeadMixer, StageOptions
from coefdyn.mixers.projections import split_heads
from coefdyn.options import check_choice, check_count
from coefdyn.shapes import Float, Tensor

__all__ = ["FORGET_GATES", "QLSTM"]

FORGET_GATES = ("sigmoid", "reversed")


class QLSTM(HeadMixer):
    r"""qLSTM in the form of the DSF paper: one head per channel, d_v = 1, and n = 1 as published.

        A_t = diag(sigmoid(W_f x_t))    b_j = 1    k_j = sigmoid(W_i x_j)    v_j = W_u x_j
        q_i = sigmoid(W_o x_i)    phi = identity    eta_i = 1

    Args:
        d_model: width of x.
        channels: number of channels; d_model if None.
        key_dim: n, 1 in the paper; with n > 1 (the paper's remark on state expansion) every
            channel has n forget, input and output gates.
        forget_gate: "sigmoid" (eq. 20) or "reversed": A_t = sigma_rev(W_f x_t)^a with
            sigma_rev(s) = 1 / (1 + e^s) and one learned a > 0, 1 at the start (eq. 23 and 32).
            As sigma_rev(s) = sigmoid(-s), at a = 1 the two differ by the sign of W_f alone.
        stage: see ``StageOptions``; the norm runs over all channels. The forget gate always has a
            bias.

    Differences: the tanh on W_u x and on the state are left out, as in the DSF paper's eq. 20. The
    authors of that paper keep a positive by ReLU, we by exp, so that its gradient never dies.
    """

    symbols = Symbols(
        title="qLSTM",
        evolution=r"\mathrm{diag}(\sigma(W_f x_t))",
        scaling=r"1",
        readout=r"\mathrm{Id}(\cdot)",
        normalizer=r"1",
        source="DSF paper, eq. 20",
    )

    def __init__(
        self,
        *,
        d_model: int,
        channels: int | None = None,
        key_dim: int = 1,
        forget_gate: str = "sigmoid",
        **stage: Unpack[StageOptions],
    ) -> None:
        channels = check_count("channels", d_model if channels is None else channels)
        super().__init__(
            d_model=d_model,
            n_heads=channels,
            key_dim=key_dim,
            value_dim=1,
            norm_groups=1,
            **stage,
        )
        self.forget_gate = check_choice("forget_gate", forget_gate, FORGET_GATES)
        self.forget = nn.Linear(d_model, channels * key_dim, bias=True)
        self.log_power = nn.Parameter(torch.empty(())) if forget_gate == "reversed" else None
        QLSTM.start(self)

    @torch.no_grad()
    def start(self) -> None:
        """Fill log a with 0."""
        if self.log_power is not None:
            self.log_power.zero_()

    def log_decay(self, x: Float[Tensor, "*batch L d"]) -> Float[Tensor, "*heads L n"]:
        """log A_t < 0 in nats per token, ``(..., channels, L, n)``."""
        s = split_heads(self.forget(x), self.n_heads)
        if self.log_power is None:
            return functional.logsigmoid(s)
        return self.log_power.exp() * functional.logsigmoid(-s)

    def build(self, tokens: Tokens) -> CoefficientDynamics:
        return CoefficientDynamics(
            q=torch.sigmoid(tokens.q),
            k=torch.sigmoid(tokens.k),
            evolution=evolution.Diagonal(log_decay=tokens.match(self.log_decay(tokens.x))),
            scaling=1.0,
            readout=readout.identity,
            normalizer=normalizer.One(),
        )
