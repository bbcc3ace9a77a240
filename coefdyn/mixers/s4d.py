"""S4D, the diagonal form of S4 (Gu et al., 2022): beyond Table 1."""

from __future__ import annotations

import math

import torch
from torch import nn
from torch.nn import functional

from coefdyn.mixers.base import Symbols, Tokens
from coefdyn.mixers.modes import ModeMixer, Modes
from coefdyn.mixers.projections import split_heads
from coefdyn.options import check_count
from coefdyn.shapes import Float, Tensor

__all__ = ["S4D"]


class S4D(ModeMixer):
    r"""S4D: every channel of x has its own linear state space model with diagonal A, d_v = 1.

        alpha_{i,j} = 2 Re(sum_m C_m Bbar_m lambda_m^{i-j})    y = W_o GELU(sum_j alpha x_j + D x)
        lambda_m = exp(Delta A_m), Bbar_m = (lambda_m - 1) / A_m    Re A_m = -exp(a_m) < 0

    One head per channel. The head's n = state_dim is state_dim/2 complex pairs. q holds C Bbar and
    k is 1, both turned by position. No ingredient depends on x, so that one kernel serves all
    sequences of a batch.

    Args:
        d_model: width of x, and number of heads.
        state_dim: N, even; conjugates counted.
        delta_min, delta_max: at initialisation Delta is log-uniform between them.
        bias: a bias in W_o.

    Initialisation (S4D-Lin): A_m = -1/2 + i pi m for m = 0 .. N/2 - 1; C complex normal with
    variance 1; D normal; B = 1, not learned. A, Delta and D are exempt from weight decay.

    Differences from S4 (Gu et al., 2022), which the eigenvalue paper used: S4's A is HiPPO-LegS, a
    normal matrix plus one of rank 1, discretised by the bilinear rule. S4D keeps a diagonal A and
    zero-order hold, so its eigenvalues are parameters. The authors' GLU in the output and their
    smaller learning rate for A and Delta are left out.

    Raises:
        ValueError: for an odd number of states, or step sizes out of order.
    """

    no_weight_decay = ("log_real", "frequency", "log_delta", "skip")
    keep_float32 = ("log_real", "frequency", "log_delta")
    symbols = Symbols(
        title="S4D",
        evolution=r"\mathrm{diag}(r e^{\pm i \theta})",
        scaling=r"\bar{B}",
        readout=r"\mathrm{Id}(\cdot)",
        normalizer=r"1",
        source="Gu et al. (2022), S4D, section 3",
    )

    def __init__(
        self,
        *,
        d_model: int,
        state_dim: int = 64,
        delta_min: float = 1e-3,
        delta_max: float = 0.1,
        bias: bool = False,
    ) -> None:
        if check_count("state_dim", state_dim, least=2) % 2:
            raise ValueError(f"state_dim counts conjugate pairs and must be even, got {state_dim}.")
        if not 0 < delta_min < delta_max:
            raise ValueError(f"needs 0 < delta_min < delta_max, got {delta_min!r}, {delta_max!r}.")
        super().__init__(
            d_model=d_model,
            n_heads=d_model,
            key_dim=state_dim,
            value_dim=1,
            outputs=(d_model, 1),
            bias=bias,
        )
        pairs = state_dim // 2
        self.steps = (delta_min, delta_max)
        self.log_delta = nn.Parameter(torch.empty(d_model, 1))
        self.log_real = nn.Parameter(torch.empty(d_model, pairs))
        self.frequency = nn.Parameter(torch.empty(d_model, pairs))
        self.weight = nn.Parameter(torch.empty(d_model, pairs, 2))
        self.skip = nn.Parameter(torch.empty(d_model))
        S4D.start(self)

    @torch.no_grad()
    def start(self) -> None:
        """Fill Delta, A, C and D."""
        self.log_delta.uniform_(*(math.log(step) for step in self.steps))
        self.log_real.fill_(math.log(0.5))
        self.frequency.copy_(math.pi * torch.arange(self.frequency.shape[1]))
        self.weight.copy_(math.sqrt(0.5) * torch.randn_like(self.weight))
        self.skip.normal_()

    def modes(self) -> Modes:
        rate = torch.complex(-self.log_real.double().exp(), self.frequency.double())
        exponent = self.log_delta.double().exp() * rate
        weight = torch.view_as_complex(self.weight.double()) * torch.expm1(exponent) / rate
        one = torch.ones_like(weight.real)
        return Modes(
            log_radius=exponent.real,
            angle=exponent.imag,
            query=2 * torch.cat([weight.real, -weight.imag], dim=-1),
            key=torch.cat([one, torch.zeros_like(one)], dim=-1),
        )

    def values(self, x: Float[Tensor, "*batch L d"]) -> Float[Tensor, "*heads L dv"]:
        return split_heads(x, self.d_model)

    def finish(self, y: Float[Tensor, "*heads L dv"], tokens: Tokens) -> Tensor:
        y = functional.gelu(y + self.skip[:, None, None] * tokens.v)
        return super().finish(y, tokens)
