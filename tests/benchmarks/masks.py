"""What a mask costs: every structure with a window, against the same design without one."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from measure import paired_ms
from torch import Tensor
from torch.nn import functional

from coefdyn import CoefficientDynamics, evolution, mask, normalizer, readout
from coefdyn.dynamics.mask import Mask

__all__ = ["design", "leaves", "mask_rows"]

#: what an evolution and a readout make the forward pass run
STRUCTURES = (
    "identity",
    "scalar",
    "diagonal",
    "scaled_householder",
    "scaled_householder, direction of its own",
    "diagonal_plus_rank_one",
)
#: tokens that one reads under the window
WINDOWS = (16, 64)
READOUTS = {"identity": readout.identity, "relu": readout.relu, "exp": readout.exp}


def leaves(length: int, heads: Sequence[int], dim: int) -> dict[str, Tensor]:
    """Inputs of ``design`` in float64."""
    generator = torch.Generator().manual_seed(0)

    def normal(*shape: int) -> Tensor:
        return torch.randn(*heads, length, *shape, generator=generator, dtype=torch.float64)

    g = -functional.softplus(normal() - 3.0)
    gates = functional.logsigmoid(normal(dim)) / 16
    return {
        "q": normal(dim),
        "k": functional.normalize(normal(dim), dim=-1),
        "v": normal(dim),
        "z": functional.normalize(normal(dim), dim=-1),
        "beta": torch.sigmoid(normal()),
        "g": g,
        "gates": gates,
    }


def design(
    structure: str,
    phi: readout.Pointwise,
    x: dict[str, Tensor],
    only: Mask | None = None,
    scaling: float | None = None,
) -> CoefficientDynamics:
    """A design of one of ``STRUCTURES``, or "householder" without a decay, from ``leaves``.

    ``scaling`` is that of a delta rule unless a number is given.
    """
    direction = x["z"] if "own" in structure else x["k"]
    name = structure.split(",")[0]
    evolutions: dict[str, Callable[[], evolution.Evolution]] = {
        "identity": evolution.Identity,
        "scalar": lambda: evolution.Scalar(log_decay=x["g"]),
        "diagonal": lambda: evolution.Diagonal(log_decay=x["gates"]),
        "householder": lambda: evolution.Householder(direction=direction, beta=x["beta"]),
        "scaled_householder": lambda: evolution.Householder(
            direction=direction, beta=x["beta"], log_decay=x["g"]
        ),
        "diagonal_plus_rank_one": lambda: evolution.DiagonalPlusRankOne(
            log_decay=x["gates"],
            left=x["beta"][..., None] * x["z"],
            right=x["gates"].exp() * x["z"],
        ),
    }
    return CoefficientDynamics(
        q=x["q"],
        k=x["k"],
        evolution=evolutions[name](),
        scaling=x["beta"] * x["q"].shape[-1] ** -0.5 if scaling is None else scaling,
        readout=phi,
        normalizer=normalizer.One() if phi.is_linear else normalizer.RowSum(),
        mask=only,
    )


def _call(
    structure: str, phi: readout.Pointwise, x: dict[str, Tensor], only: Mask | None
) -> Callable[[], None]:
    def call() -> None:
        y = design(structure, phi, x, only).apply(x["v"])
        torch.autograd.grad(y, list(x.values()), torch.ones_like(y), materialize_grads=True)

    return call


def mask_rows(quick: bool) -> list[dict[str, object]]:
    """Forward and backward of "auto" at 2 x 4 heads, n = d_v = 32; float32."""
    rows = []
    for name, phi in READOUTS.items():
        for structure in STRUCTURES:
            length = 512 if quick else 2048
            x = {name: t.float().requires_grad_() for name, t in leaves(length, [2, 4], 32).items()}
            plain = _call(structure, phi, x, None)
            for size in WINDOWS:
                masked = _call(structure, phi, x, mask.Window(size))
                times = paired_ms(plain, masked, 3)
                row = {"readout": name, "structure": structure, "length": length, "window": size}
                cost = {"none_ms": times["ours_ms"], "mask_ms": times["peer_ms"]}
                rows.append({**row, **cost, "ratio": times["ratio"]})
    return rows
