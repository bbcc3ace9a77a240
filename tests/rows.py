"""Table 1 built from the public contract alone: leaf tensors to a CoefficientDynamics, per row."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from coefdyn import CoefficientDynamics, evolution, normalizer, readout

__all__ = ["LEAVES", "ROWS", "draw", "elu1"]

#: leaves of each row beside q, k and v, with their trailing axes
LEAVES: dict[str, dict[str, str]] = {
    "SoftmaxAttention": {},
    "LinearAttention": {},
    "NormalizedAttention": {"eta": "L"},
    "GLA": {"channel_gate": "Ln"},
    "Mamba2": {"delta": "L", "log_a": ""},
    "DeltaNet": {"beta": "L"},
    "GatedDeltaNet": {"beta": "L", "delta": "L"},
    "MLSTM": {"forget": "L", "write": "L"},
}


def elu1(x: Tensor) -> Tensor:
    return functional.elu(x) + 1


def draw(
    row: str,
    length: int,
    *,
    batch: tuple[int, ...] = (2, 3),
    n: int = 8,
    dv: int = 6,
    dtype: torch.dtype = torch.float64,
    seed: int = 0,
) -> dict[str, Tensor]:
    """Random leaves of a row, all with gradients; keys of the delta rules have unit norm."""
    generator = torch.Generator().manual_seed(seed)
    sizes = {"L": length, "n": n, "v": dv}

    def normal(axes: str) -> Tensor:
        shape = (*batch, *(sizes[axis] for axis in axes))
        return torch.randn(shape, generator=generator, dtype=torch.float64)

    leaves = {"q": normal("Ln"), "k": normal("Ln"), "v": normal("Lv")}
    if row in ("DeltaNet", "GatedDeltaNet"):
        leaves["k"] = functional.normalize(leaves["k"], dim=-1)
    leaves |= {name: normal(axes) for name, axes in LEAVES[row].items()}
    if row == "MLSTM":
        leaves["forget"] = leaves["forget"] + 3.0
    return {name: value.to(dtype).requires_grad_() for name, value in leaves.items()}


def _dynamics(x: dict[str, Tensor], **ingredients: object) -> CoefficientDynamics:
    root = x["q"].shape[-1] ** -0.5
    choices = {
        "evolution": evolution.Identity(),
        "scaling": root,
        "readout": readout.identity,
        "normalizer": normalizer.One(),
        **ingredients,
    }
    return CoefficientDynamics(q=x["q"], k=x["k"], **choices)


def softmax_attention(x: dict[str, Tensor]) -> CoefficientDynamics:
    return _dynamics(x, readout=readout.exp, normalizer=normalizer.RowSum())


def linear_attention(x: dict[str, Tensor]) -> CoefficientDynamics:
    psi = readout.FeatureMap(elu1, name="elu1")
    return _dynamics(x, readout=psi, normalizer=normalizer.RowSum())


def normalized_attention(x: dict[str, Tensor]) -> CoefficientDynamics:
    return _dynamics(x, normalizer=normalizer.Given(x["eta"].exp()))


def gla(x: dict[str, Tensor]) -> CoefficientDynamics:
    log_decay = functional.logsigmoid(x["channel_gate"]) / 16
    return _dynamics(x, evolution=evolution.Diagonal(log_decay=log_decay))


def mamba2(x: dict[str, Tensor]) -> CoefficientDynamics:
    delta = functional.softplus(x["delta"])
    log_decay = -delta * x["log_a"].exp()[..., None]
    return _dynamics(x, evolution=evolution.Scalar(log_decay=log_decay), scaling=delta)


def deltanet(x: dict[str, Tensor]) -> CoefficientDynamics:
    beta = x["beta"].sigmoid()
    reflect = evolution.Householder(direction=x["k"], beta=beta)
    return _dynamics(x, evolution=reflect, scaling=beta * x["q"].shape[-1] ** -0.5)


def gated_deltanet(x: dict[str, Tensor]) -> CoefficientDynamics:
    beta, log_decay = x["beta"].sigmoid(), -functional.softplus(x["delta"])
    reflect = evolution.Householder(direction=x["k"], beta=beta, log_decay=log_decay)
    return _dynamics(x, evolution=reflect, scaling=beta * x["q"].shape[-1] ** -0.5)


def mlstm(x: dict[str, Tensor]) -> CoefficientDynamics:
    return _dynamics(
        x,
        evolution=evolution.Scalar(log_decay=functional.logsigmoid(x["forget"])),
        log_scaling=x["write"],
        normalizer=normalizer.FlooredRowSum(1.0),
    )


ROWS = {
    "SoftmaxAttention": softmax_attention,
    "LinearAttention": linear_attention,
    "NormalizedAttention": normalized_attention,
    "GLA": gla,
    "Mamba2": mamba2,
    "DeltaNet": deltanet,
    "GatedDeltaNet": gated_deltanet,
    "MLSTM": mlstm,
}
