"""Every structure x readout x normalizer on random inputs, for tests."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch.nn import functional

from coefdyn import CoefficientDynamics, evolution, normalizer, readout

READOUTS = {
    "identity": readout.identity,
    "exp": readout.exp,
    "relu": readout.relu,
    "softplus": readout.softplus,
    "tanh": readout.Pointwise(torch.tanh, name="tanh"),
    "elu1": readout.FeatureMap(lambda x: functional.elu(x) + 1, name="elu1"),
}
STRUCTURES = (
    "identity",
    "scalar",
    "diagonal",
    "householder",
    "scaled_householder",
    "diagonal_plus_rank_one",
    "dense",
)
NORMALIZERS = ("one", "row_sum", "floored", "given")


@dataclass(frozen=True)
class Inputs:
    """Leaf tensors of one random problem; ``leaves`` require gradients."""

    leaves: dict[str, torch.Tensor]
    signs: dict[str, torch.Tensor]

    @classmethod
    def draw(
        cls,
        batch: tuple[int, ...] = (2,),
        length: int = 21,
        n: int = 5,
        dv: int = 3,
        dtype: torch.dtype = torch.float64,
        seed: int = 0,
    ) -> Inputs:
        generator = torch.Generator().manual_seed(seed)

        def normal(*shape: int) -> torch.Tensor:
            return torch.randn(*batch, *shape, generator=generator, dtype=torch.float64)

        def uniform(*shape: int) -> torch.Tensor:
            return torch.rand(*batch, *shape, generator=generator, dtype=torch.float64)

        leaves = {
            "q": normal(length, n),
            "k": normal(length, n),
            "v": normal(length, dv),
            "scaling": uniform(length) + 0.2,
            "log_scaling": normal(length),
            "log_decay": 0.05 - 0.3 * uniform(length),
            "channel_decay": 0.05 - uniform(length, n),
            "direction": functional.normalize(normal(length, n), dim=-1),
            "beta": 2 * uniform(length),
            "matrix": 0.4 * normal(length, n, n),
            "eta": 1 + uniform(length),
            "left": 0.7 * functional.normalize(normal(length, n), dim=-1),
            "right": functional.normalize(normal(length, n), dim=-1),
        }
        signs = {"sign": normal(length).sign(), "channel_sign": normal(length, n).sign()}
        return cls(
            {name: value.to(dtype).requires_grad_() for name, value in leaves.items()},
            {name: value.to(dtype) for name, value in signs.items()},
        )

    def evolution(self, structure: str) -> evolution.Evolution:
        x, s = self.leaves, self.signs
        match structure:
            case "identity":
                return evolution.Identity()
            case "scalar":
                return evolution.Scalar(log_decay=x["log_decay"], sign=s["sign"])
            case "diagonal":
                return evolution.Diagonal(log_decay=x["channel_decay"], sign=s["channel_sign"])
            case "householder":
                return evolution.Householder(direction=x["direction"], beta=x["beta"])
            case "scaled_householder":
                return evolution.Householder(
                    direction=x["direction"],
                    beta=x["beta"],
                    log_decay=x["log_decay"],
                    sign=s["sign"],
                )
            case "diagonal_plus_rank_one":
                return evolution.DiagonalPlusRankOne(
                    log_decay=x["channel_decay"],
                    left=x["left"],
                    right=x["right"],
                    sign=s["channel_sign"],
                )
        return evolution.Dense(matrix=x["matrix"])

    def normalizer(self, name: str) -> normalizer.Normalizer:
        given = normalizer.Given(self.leaves["eta"])
        table = {
            "one": normalizer.One(),
            "row_sum": normalizer.RowSum(),
            "floored": normalizer.FlooredRowSum(1.0),
            "given": given,
        }
        return table[name]

    def dynamics(
        self, structure: str, phi: str, eta: str, log_scaled: bool = False
    ) -> CoefficientDynamics:
        return CoefficientDynamics(
            q=self.leaves["q"],
            k=self.leaves["k"],
            evolution=self.evolution(structure),
            scaling=self.leaves["scaling"],
            log_scaling=self.leaves["log_scaling"] if log_scaled else None,
            readout=READOUTS[phi],
            normalizer=self.normalizer(eta),
        )

    def with_zero_keys(self, erased: bool = True) -> Inputs:
        """Token 2 writes a key of length 0; token 5 erases to exactly 0 what token 4 wrote.

        The second is for readouts with a slope at 0, where rounding makes either sign.
        """
        with torch.no_grad():
            self.leaves["k"][..., 2, :] = 0.0
            if not erased:
                return self
            for name in ("direction", "left", "right"):
                self.leaves[name][..., 5, :] = 0.0
                self.leaves[name][..., 5, 0] = 1.0
            self.leaves["k"][..., 4, :] = 3.0 * self.leaves["direction"][..., 5, :]
            self.leaves["beta"][..., 5] = 1.0
            self.leaves["channel_decay"][..., 5, 0] = 0.0
            self.signs["channel_sign"][..., 5, 0] = 1.0
        return self

    @property
    def v(self) -> torch.Tensor:
        return self.leaves["v"]
