"""What a mask costs: every structure with a window, against the same design without one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import torch
from measure import paired_ms
from torch import Tensor
from torch.nn import functional

from coefdyn import CoefficientDynamics, evolution, mask, normalizer, readout

__all__ = ["mask_rows", "print_masks"]

#: tokens that one reads under the window
WINDOWS = (16, 64)
READOUTS = {"identity": readout.identity, "relu": readout.relu, "exp": readout.exp}
STRUCTURES = (
    "identity",
    "scalar",
    "diagonal",
    "scaled_householder",
    "scaled_householder, direction of its own",
    "diagonal_plus_rank_one",
)


def _design(
    structure: str, phi: readout.Pointwise, length: int
) -> tuple[CoefficientDynamics, Tensor, list[Tensor]]:
    """A design without a mask, its values, and the leaves that it reads."""
    generator = torch.Generator().manual_seed(0)

    def normal(*shape: int) -> Tensor:
        return torch.randn(2, 4, length, *shape, generator=generator)

    n = 32
    q, k, v, z = normal(n), functional.normalize(normal(n), dim=-1), normal(n), normal(n)
    z, beta = functional.normalize(z, dim=-1), torch.sigmoid(normal())
    g, gates = -functional.softplus(normal() - 3.0), functional.logsigmoid(normal(n)) / 16
    left, right = beta[..., None] * z, gates.exp() * z
    for leaf in (q, k, v, z, beta, g, gates, left, right):
        leaf.requires_grad_()
    direction = z if "own" in structure else k
    evolutions = {
        "identity": evolution.Identity(),
        "scalar": evolution.Scalar(log_decay=g),
        "diagonal": evolution.Diagonal(log_decay=gates),
        "scaled_householder": evolution.ScaledHouseholder(
            direction=direction, beta=beta, log_decay=g
        ),
        "diagonal_plus_rank_one": evolution.DiagonalPlusRankOne(
            log_decay=gates, left=left, right=right
        ),
    }
    dynamics = CoefficientDynamics(
        q=q,
        k=k,
        evolution=evolutions[structure.split(",")[0]],
        scaling=n**-0.5,
        readout=phi,
        normalizer=normalizer.One() if phi.is_linear else normalizer.RowSum(),
    )
    held = {id(x): x for x in (q, k, v, *dynamics.evolution.tensors().values())}
    return dynamics, v, list(held.values())


def _call(dynamics: CoefficientDynamics, v: Tensor, leaves: list[Tensor]) -> Callable[[], None]:
    def call() -> None:
        y = dynamics.apply(v)
        torch.autograd.grad(y, leaves, torch.ones_like(y))

    return call


def mask_rows(quick: bool) -> list[dict[str, object]]:
    """Forward and backward of "auto" at 2 x 4 heads, n = d_v = 32; float32."""
    rows = []
    for name, phi in READOUTS.items():
        for structure in STRUCTURES:
            length = 512 if quick else 2048
            dynamics, v, leaves = _design(structure, phi, length)
            plain = _call(dynamics, v, leaves)
            for size in WINDOWS:
                masked = _call(replace(dynamics, mask=mask.Window(size)), v, leaves)
                times = paired_ms(plain, masked, 3)
                row = {"readout": name, "structure": structure, "length": length, "window": size}
                cost = {"none_ms": times["ours_ms"], "mask_ms": times["peer_ms"]}
                rows.append({**row, **cost, "ratio": times["ratio"]})
    return rows


def print_masks(rows: list[dict]) -> None:
    """One line per structure, readout and window."""
    print("\na window against no mask, auto, forward + backward, ms; heads 2 x 4, n = d_v = 32")
    print(f"{'':<52} {'L':>5} {'window':>7} {'none':>9} {'mask':>9} {'ratio':>7}")
    for row in rows:
        label = f"{row['readout']}, {row['structure']}"
        print(
            f"{label:<52} {row['length']:>5} {row['window']:>7} {row['none_ms']:9.1f}"
            f" {row['mask_ms']:9.1f} {row['ratio']:6.2f}x",
            flush=True,
        )
