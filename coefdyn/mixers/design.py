"""A mixer of one's own, every ingredient chosen by name: the principle experiments use it."""

from __future__ import annotations

import math
from typing import Unpack, cast

import torch
from torch import nn

from coefdyn import CoefficientDynamics, evolution, normalizer, readout
from coefdyn.dynamics.evolution import Evolution
from coefdyn.dynamics.normalizer import Normalizer
from coefdyn.dynamics.readout import Readout
from coefdyn.mixers.base import Tokens
from coefdyn.mixers.gates import ETA_MAPS, HeadGate, LowRankDecay, TimestepDecay, timestep_gate
from coefdyn.mixers.heads import HeadMixer, HeadOptions
from coefdyn.mixers.linear_attention import FEATURE_MAPS
from coefdyn.mixers.projections import OutputStage, l2_normalize
from coefdyn.options import check_choice
from coefdyn.shapes import Tensor

__all__ = ["EVOLUTIONS", "NORMALIZERS", "READOUTS", "SCALINGS", "DesignMixer"]

EVOLUTIONS = (
    "identity",
    "constant",
    "scalar",
    "diagonal",
    "householder",
    "householder_learned",
    "scaled_householder",
)
READOUTS: dict[str, Readout] = {
    "identity": readout.identity,
    "exp": readout.exp,
    "relu": readout.relu,
    "softplus": readout.softplus,
    **{f"psi_{name}": psi for name, psi in FEATURE_MAPS.items()},
}
NORMALIZERS = ("one", "row_sum", "floored", "geometric", *ETA_MAPS)
SCALINGS = (
    "one",
    "inverse_sqrt",
    "gate",
    "gate_inverse_sqrt",
    "delta",
    "beta",
    "exponential",
)


class DesignMixer(HeadMixer):
    r"""Any choice of the four ingredients.

    Args:
        evolution: "identity"; "constant" (A_t = constant I for every t); "scalar" or "diagonal" (an
            input-dependent decay); "householder" (I - beta_t k_t k_t^T with the normalised key);
            "householder_learned" (I - beta_t z_t z_t^T, z_t = W_z x_t L2-normalised);
            "scaled_householder" ("householder" times the decay of "scalar").
        constant: lambda of "constant": 0.95 decays, 1.05 grows, a negative one flips.
        decay: parameterisation of "scalar", "diagonal" and "scaled_householder", "mamba2" or "gla"
            (see ``TimestepDecay`` and ``LowRankDecay``).
        beta: for the Householder forms, "fixed" (2: a reflection) or "learned" (2 sigmoid(W x_t)).
        readout: "identity", "exp", "relu", "softplus"; a feature map "psi_elu1", "psi_relu",
            "psi_softplus", "psi_exp"; or any ``coefdyn.readout.Pointwise`` or ``FeatureMap``.
        normalizer: "one"; "row_sum"; "floored" (max(|row sum|, 1)); "geometric" (eta_i = ratio^i,
            i from 1); "exp", "softplus" or "sigmoid" (that map of W_eta x_i).
        ratio: of "geometric"; ratio^i overflows float32 for ratio 1.05 after 1800 tokens.
        scaling: b_j: "one", "inverse_sqrt" (1/sqrt(n)), "gate" (z_j = sigmoid(w^T x_j)),
            "gate_inverse_sqrt" (z_j / sqrt(n)), "delta" (Delta_j; the evolution's own Delta
            where it decays by one number, by "mamba2"), "beta" (beta_j / sqrt(n); the evolution's
            own beta where it is a Householder form, else 2 sigmoid(w^T x_j)), "exponential"
            (exp(w^T x_j) / sqrt(n), mLSTM's input gate), or a positive number: b_j itself.
        norm_eps: what the output norm adds to the mean square, at least 0.
        heads: see ``HeadOptions``.

    Source: the paper's section 5 and Appendix D and E (Principles 2 to 6).
    """

    def __init__(
        self,
        *,
        evolution: str = "identity",
        constant: float = 0.95,
        decay: str = "mamba2",
        beta: str = "learned",
        readout: str | Readout = "exp",
        normalizer: str = "row_sum",
        ratio: float = 1.05,
        scaling: str | float = "inverse_sqrt",
        norm_eps: float = 1e-5,
        **heads: Unpack[HeadOptions],
    ) -> None:
        super().__init__(learned_direction=evolution == "householder_learned", **heads)
        self.evolution = check_choice("evolution", evolution, EVOLUTIONS)
        self.normalizer = check_choice("normalizer", normalizer, NORMALIZERS)
        self.scaling = _check_scaling(scaling)
        cast(OutputStage, self.output).eps = _check_eps(norm_eps)
        self.readout = _readout(readout)
        self.constant, self.ratio = _check_factors(constant, ratio)
        self.decay, self.beta = self._evolution_gates(
            check_choice("decay", decay, ("mamba2", "gla")),
            check_choice("beta", beta, ("learned", "fixed")),
        )
        self.eta = self.head_gate(normalizer) if normalizer in ETA_MAPS else None
        self.write = self._write_gate()

    def _evolution_gates(self, decay: str, beta: str) -> tuple[nn.Module | None, HeadGate | None]:
        decays: nn.Module | None = None
        if self.evolution in ("scalar", "diagonal", "scaled_householder"):
            width = self.key_dim if self.evolution == "diagonal" else None
            form = TimestepDecay if decay == "mamba2" else LowRankDecay
            decays = form(d_model=self.d_model, n_heads=self.n_heads, width=width)
        learned = "householder" in self.evolution and beta == "learned"
        return decays, self.head_gate("sigmoid", 2.0) if learned else None

    def _write_gate(self) -> HeadGate | None:
        if isinstance(self.scaling, float):
            return None
        if self.scaling.startswith("gate"):
            return self.head_gate("sigmoid")
        if self.scaling == "exponential":
            return self.head_gate("exp")
        if self.scaling == "beta" and "householder" not in self.evolution:
            return self.head_gate("sigmoid", 2.0)
        one_number = self.evolution in ("scalar", "scaled_householder")
        shared = one_number and isinstance(self.decay, TimestepDecay)
        if self.scaling == "delta" and not shared:
            return timestep_gate(d_model=self.d_model, n_heads=self.n_heads)
        return None

    def build(self, tokens: Tokens) -> CoefficientDynamics:
        matrices, delta = self._evolution(tokens)
        return CoefficientDynamics(
            q=tokens.q,
            k=tokens.k,
            evolution=matrices,
            scaling=self._scaling(tokens, matrices, delta),
            readout=self.readout,
            normalizer=self._normalizer(tokens),
        )

    def _evolution(self, tokens: Tokens) -> tuple[Evolution, Tensor | None]:
        """A_t, and Mamba-2's Delta_t where A_t has one."""
        if self.evolution == "identity":
            return evolution.Identity(), None
        ones = tokens.q.new_ones(tokens.q.shape[-2])
        if self.evolution == "constant":
            sign = -ones if self.constant < 0 else None
            growth = math.log(abs(self.constant)) * ones
            return evolution.Scalar(log_decay=growth, sign=sign), None
        log_decay: Tensor | None = None
        delta: Tensor | None = None
        if self.decay is not None:
            decay = self.decay(tokens.x)
            found, delta = decay if isinstance(decay, tuple) else (decay, None)
            log_decay = tokens.match(found)
        if self.evolution in ("scalar", "diagonal"):
            form = evolution.Scalar if self.evolution == "scalar" else evolution.Diagonal
            assert log_decay is not None, "these two have a decay"
            return form(log_decay=log_decay), delta
        beta = 2.0 * ones if self.beta is None else tokens.match(self.beta(tokens.x))
        direction = l2_normalize(tokens.k if tokens.z is None else tokens.z)
        return evolution.Householder(direction=direction, beta=beta, log_decay=log_decay), delta

    def _scaling(self, tokens: Tokens, matrices: Evolution, delta: Tensor | None) -> float | Tensor:
        if isinstance(self.scaling, float):
            return self.scaling
        inverse_sqrt = self.key_dim**-0.5
        if self.write is not None:
            gate = tokens.match(self.write(tokens.x))
            return gate if self.scaling in ("gate", "delta") else gate * inverse_sqrt
        if self.scaling == "beta":
            assert isinstance(matrices, evolution.Householder)
            return matrices.beta * inverse_sqrt
        if self.scaling == "delta":
            assert delta is not None, "without its own gate, delta is the evolution's"
            return tokens.match(delta)
        return inverse_sqrt if self.scaling == "inverse_sqrt" else 1.0

    def _normalizer(self, tokens: Tokens) -> Normalizer:
        if self.eta is not None:
            return normalizer.Given(tokens.match(self.eta(tokens.x)))
        if self.normalizer == "geometric":
            index = (tokens.index() + 1).to(torch.promote_types(tokens.q.dtype, torch.float32))
            return normalizer.Given(tokens.match((index * math.log(self.ratio)).exp()))
        forms = {"one": normalizer.One, "row_sum": normalizer.RowSum}
        return forms.get(self.normalizer, normalizer.FlooredRowSum)()


def _readout(value: str | Readout) -> Readout:
    if isinstance(value, Readout):
        return value
    return READOUTS[check_choice("readout", value, tuple(READOUTS))]


def _check_scaling(scaling: str | float) -> str | float:
    """A name of ``SCALINGS``, or a positive number."""
    if isinstance(scaling, str):
        return check_choice("scaling", scaling, SCALINGS)
    if not (math.isfinite(scaling) and scaling > 0):
        raise ValueError(
            f"scaling must be a positive number or one of {', '.join(SCALINGS)}; got {scaling!r}."
        )
    return float(scaling)


def _check_eps(eps: float) -> float:
    if not eps >= 0:
        raise ValueError(f"norm_eps is added to a mean square: at least 0; got {eps!r}.")
    return eps


def _check_factors(constant: float, ratio: float) -> tuple[float, float]:
    if constant == 0 or not math.isfinite(constant):
        raise ValueError(
            f"constant must be finite and not 0, got {constant}; to forget at once, give 1e-6."
        )
    if not (ratio > 0 and math.isfinite(ratio)):
        raise ValueError(f"ratio must be positive and finite, got {ratio}.")
    return constant, ratio
