"""The linear recurrent unit, LRU (Orvieto et al., 2023): beyond Table 1."""

from __future__ import annotations

import math

import torch
from torch import nn

from coefdyn.mixers.base import Symbols, Tokens
from coefdyn.mixers.modes import ModeMixer, Modes
from coefdyn.mixers.projections import HeadProjection
from coefdyn.options import check_count, check_flag
from coefdyn.shapes import Float, Tensor

__all__ = ["LRU"]


class LRU(ModeMixer):
    r"""The linear recurrent unit: one complex eigenvalue per state channel, fixed over time.

        h_t = diag(lambda) h_{t-1} + gamma * (B x_t)    y_t = Re(C h_t) + D x_t
        lambda = exp(-exp(nu) + i exp(theta)), so |lambda| < 1 always

    As coefficients: two heads per eigenvalue, with alpha_{i,j} = gamma Re(lambda^{i-j}) and
    gamma Im(lambda^{i-j}), n = 2. Both read the same two values, the real and the imaginary part of
    one channel of B x_j. Their four outputs make one complex number; C is the output projection.

    Args:
        d_model: width of x.
        state_dim: N, the number of complex eigenvalues; d_model if None.
        r_min, r_max: at initialisation |lambda|^2 is uniform between their squares.
        max_phase: at initialisation theta is uniform in (0, max_phase), radians per token.
        skip: the term D x.
        bias: biases in B and C.

    Initialisation: gamma = sqrt(1 - |lambda|^2), learned afterwards; B and C as torch's linear
    maps. nu, theta, gamma and D are exempt from weight decay.

    Differences: the authors' r_min and r_max depend on the task (0 and 1, or 0.9 and 0.999). The
    activation and GLU after the layer are left to the block's MLP.

    Raises:
        ValueError: for radii or phases outside of the unit disc, or out of order.
    """

    no_weight_decay = ("log_nu", "log_theta", "log_gamma", "skip")
    keep_float32 = ("log_nu", "log_theta", "log_gamma")
    symbols = Symbols(
        title="Linear recurrent unit (LRU)",
        evolution=r"\mathrm{diag}(r e^{\pm i \theta})",
        scaling=r"\gamma",
        readout=r"\mathrm{Id}(\cdot)",
        normalizer=r"1",
        source="Orvieto et al. (2023), eq. 1 and section 3",
    )

    def __init__(
        self,
        *,
        d_model: int,
        state_dim: int | None = None,
        r_min: float = 0.9,
        r_max: float = 0.999,
        max_phase: float = 2 * math.pi,
        skip: bool = True,
        bias: bool = False,
    ) -> None:
        size = check_count("state_dim", d_model if state_dim is None else state_dim)
        if not 0 <= r_min < r_max < 1 or not 0 < max_phase <= 2 * math.pi:
            raise ValueError(
                "LRU needs 0 <= r_min < r_max < 1 and 0 < max_phase <= 2 pi; got "
                f"{r_min!r}, {r_max!r} and {max_phase!r}."
            )
        super().__init__(
            d_model=d_model,
            n_heads=2 * size,
            key_dim=2,
            value_dim=2,
            outputs=(size, 2),
            bias=bias,
        )
        self.state_dim = size
        self.input = HeadProjection(d_model=d_model, n_heads=size, width=2, bias=bias)
        self.radii, self.max_phase = (r_min, r_max), max_phase
        self.log_nu = nn.Parameter(torch.empty(size))
        self.log_theta = nn.Parameter(torch.empty(size))
        self.log_gamma = nn.Parameter(torch.empty(size))
        self.skip = nn.Parameter(torch.empty(d_model)) if check_flag("skip", skip) else None
        LRU.start(self)

    @torch.no_grad()
    def start(self) -> None:
        """Fill nu, theta, gamma and D."""
        low, high = self.radii
        squared = torch.empty_like(self.log_nu).uniform_(low**2, high**2).clamp_min(1e-6)
        self.log_nu.copy_((-0.5 * squared.log()).log())
        self.log_theta.uniform_(0, self.max_phase).clamp_min_(1e-6).log_()
        self.log_gamma.copy_(0.5 * torch.log1p(-squared))
        if self.skip is not None:
            self.skip.normal_()

    def modes(self) -> Modes:
        """Head 2m has Re(lambda_m^t), head 2m + 1 has Im(lambda_m^t)."""
        nu, theta, log_gamma = (
            one.double().repeat_interleave(2)[:, None]
            for one in (self.log_nu, self.log_theta, self.log_gamma)
        )
        zero = torch.zeros_like(log_gamma)
        parts = torch.eye(2, dtype=nu.dtype, device=nu.device).repeat(self.state_dim, 1)
        key = torch.cat([log_gamma.exp(), zero], dim=-1)
        return Modes(log_radius=-nu.exp(), angle=theta.exp(), query=parts, key=key)

    def values(self, x: Float[Tensor, "*batch L d"]) -> Float[Tensor, "*heads L dv"]:
        return self.input(x)[0].repeat_interleave(2, dim=-3)

    def finish(self, y: Float[Tensor, "*heads L dv"], tokens: Tokens) -> Tensor:
        """(Re lambda^t + i Im lambda^t)(Re w + i Im w), then Re(C h) + D x."""
        cosine, sine = y.unflatten(-3, (self.state_dim, 2)).unbind(-3)
        real = cosine[..., 0] - sine[..., 1]
        imaginary = cosine[..., 1] + sine[..., 0]
        out = self.output(torch.stack([real, imaginary], dim=-1), tokens.x)
        return out if self.skip is None else out + self.skip * tokens.x
