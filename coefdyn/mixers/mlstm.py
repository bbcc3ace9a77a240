"""mLSTM (Beck et al., 2024): Table 1, eighth row."""

from __future__ import annotations

from typing import Unpack

import torch
from torch import nn
from torch.nn import functional

from coefdyn import CoefficientDynamics, evolution, normalizer, readout
from coefdyn.mixers.base import Symbols, Tokens
from coefdyn.mixers.heads import HeadMixer, HeadOptions, StageOptions
from coefdyn.mixers.projections import merge_heads
from coefdyn.options import check_choice
from coefdyn.shapes import Float, Tensor

__all__ = ["MLSTM"]


class MLSTM(HeadMixer):
    r"""mLSTM: exponential input gate, scalar forget gate, row sum floored at 1, output gate.

        A_t = exp(f_t) I    b_j = exp(i_j) / sqrt(n)    phi = identity
        eta_i = max(|sum_j alpha_{i,j}|, 1)    output = W_o (o_i * LayerNorm(y_i))

    The authors' normaliser state n_i is the row sum, n_i^T q_i = sum_j alpha_{i,j}; their
    stabiliser m_t is the log offset with which the execution keeps rows finite.

    Args:
        forget_gate: "sigmoid" (f_t = logsigmoid of the pre-activation, the authors' code) or "exp"
            (f_t the pre-activation itself, which may grow).
        gate_input: "qkv" (gates read q, k and v, the authors' code) or "x" (their equations).
        heads: see ``HeadOptions``. The convolution acts on q and k only.

    Initialisation: gate weights 0, forget bias from 3 to 6 over the heads, input bias N(0, 0.1).
    Differences from the authors' code: no added 1e-6 in eta_i; no learnable skip around the cell;
    o_i = sigmoid(W x_i) as in the paper (the code uses SiLU); the convolution comes after the
    projections to q and k, not before.
    """

    defaults = StageOptions(short_convolution=4, output_gate="sigmoid", output_norm="layer")
    symbols = Symbols(
        title="mLSTM",
        evolution=r"e^{f_t}\, \mathbb{I}_n",
        scaling=r"\frac{e^{i_j}}{\sqrt{n}}",
        readout=r"\mathrm{Id}(\cdot)",
        normalizer=r"\max(|\textstyle\sum_{j} \alpha_{i,j}|, 1)",
        source="Lemma 14",
    )

    def __init__(
        self, *, forget_gate: str = "sigmoid", gate_input: str = "qkv", **heads: Unpack[HeadOptions]
    ) -> None:
        super().__init__(convolve_values=False, **heads)
        self.forget_gate = check_choice("forget_gate", forget_gate, ("sigmoid", "exp"))
        self.gate_input = check_choice("gate_input", gate_input, ("qkv", "x"))
        n_heads = self.n_heads
        read = n_heads * (2 * self.key_dim + self.value_dim)
        width = self.d_model if gate_input == "x" else read
        self.forget_weight = nn.Parameter(torch.empty(n_heads, width))
        self.input_weight = nn.Parameter(torch.empty(n_heads, width))
        self.forget_bias = nn.Parameter(torch.empty(n_heads))
        self.input_bias = nn.Parameter(torch.empty(n_heads))
        MLSTM.start(self)

    @torch.no_grad()
    def start(self) -> None:
        """Fill the gates' weights with 0, the forget bias from 3 to 6, the input bias N(0, 0.1)."""
        self.forget_weight.zero_()
        self.input_weight.zero_()
        self.forget_bias.copy_(torch.linspace(3.0, 6.0, self.n_heads))
        self.input_bias.copy_(0.1 * torch.randn_like(self.input_bias))

    def gates(self, tokens: Tokens) -> tuple[Float[Tensor, "*h L"], Float[Tensor, "*h L"]]:
        """(f_t, i_t): log forget and log input gate, nats, ``(..., H, L)``."""
        read = tokens.x
        if self.gate_input == "qkv":
            read = torch.cat([merge_heads(part) for part in (tokens.q, tokens.k, tokens.v)], dim=-1)
        forget = functional.linear(read, self.forget_weight, self.forget_bias).transpose(-1, -2)
        write = functional.linear(read, self.input_weight, self.input_bias).transpose(-1, -2)
        if self.forget_gate == "sigmoid":
            forget = functional.logsigmoid(forget)
        return tokens.match(forget), tokens.match(write)

    def build(self, tokens: Tokens) -> CoefficientDynamics:
        forget, write = self.gates(tokens)
        return CoefficientDynamics(
            q=tokens.q,
            k=tokens.k,
            evolution=evolution.Scalar(log_decay=forget),
            scaling=self.key_dim**-0.5,
            log_scaling=write,
            readout=readout.identity,
            normalizer=normalizer.FlooredRowSum(1.0),
        )
