"""Linear attention (Katharopoulos et al., 2020): Table 1, second row."""

from __future__ import annotations

from typing import Unpack

import torch

from coefdyn import CoefficientDynamics, evolution, normalizer, readout
from coefdyn.mixers.base import Symbols, Tokens
from coefdyn.mixers.elementwise import elu, softplus
from coefdyn.mixers.heads import HeadMixer, HeadOptions, constant_scaling
from coefdyn.options import check_choice
from coefdyn.shapes import Tensor

__all__ = ["FEATURE_MAPS", "LinearAttention"]


def _elu1(x: Tensor) -> Tensor:
    return elu(x) + 1.0


#: psi by name; all of them act on every channel on its own and are never negative
FEATURE_MAPS = {
    "elu1": readout.FeatureMap(_elu1, name="elu1"),
    "relu": readout.FeatureMap(torch.relu, name="relu"),
    "softplus": readout.FeatureMap(softplus, name="softplus"),
    "exp": readout.FeatureMap(torch.exp, name="exp"),
}


class LinearAttention(HeadMixer):
    r"""Linear attention with a feature map psi and row normalisation.

        A_t = I    b_j = 1/sqrt(n)    eta_i = sum_j alpha_{i,j}
        alpha_{i,j} = psi(q_i)^T psi(b_j k_j)

    Args:
        feature_map: psi, "elu1" (elu(x) + 1, the authors' choice), "relu", "softplus" or "exp".
        scaling: "inverse_sqrt" (1/sqrt(n), inside psi) or "one" (as the authors' code).
        heads: see ``HeadOptions``. Rotary positions turn q and k before psi.

    Differences: the authors' code has no 1/sqrt(n) and adds 1e-6 to eta; Table 1 scales the key and
    we add nothing (an all-zero row gives zero output).
    """

    symbols = Symbols(
        title="Linear attention",
        evolution=r"\mathbb{I}_n",
        scaling=r"\frac{1}{\sqrt{n}}",
        readout=r"\psi(q_i)^\top \psi(\cdot)",
        normalizer=r"\sum_{j=1}^{i} \alpha_{i,j}",
        source="Lemma 8",
    )

    def __init__(
        self,
        *,
        feature_map: str = "elu1",
        scaling: str = "inverse_sqrt",
        **heads: Unpack[HeadOptions],
    ) -> None:
        super().__init__(**heads)
        self.feature_map = check_choice("feature_map", feature_map, tuple(FEATURE_MAPS))
        self.scaling = constant_scaling(scaling, self.key_dim)

    def build(self, tokens: Tokens) -> CoefficientDynamics:
        return CoefficientDynamics(
            q=tokens.q,
            k=tokens.k,
            evolution=evolution.Identity(),
            scaling=self.scaling,
            readout=FEATURE_MAPS[self.feature_map],
            normalizer=normalizer.RowSum(),
        )
