"""Cost and memory against L for linear readouts: both must be linear up to L = 131072."""

from __future__ import annotations

from collections.abc import Callable

import torch
from masks import design, leaves
from measure import cpu_ms, peak_mib

from coefdyn import readout

__all__ = ["growth_rows"]

LENGTHS = (2048, 8192, 32768, 131072)
STRUCTURES = ("identity", "scalar", "diagonal", "scaled_householder")


def _run(structure: str, length: int, dim: int) -> Callable[[], None]:
    x = {name: t.float().requires_grad_() for name, t in leaves(length, [1], dim).items()}
    dynamics = design(structure, readout.identity, x, scaling=dim**-0.5)
    read = [
        x["q"],
        x["k"],
        x["v"],
        *(t for t in dynamics.evolution.tensors().values() if t is not x["k"]),
    ]

    def call() -> None:
        y = dynamics.apply(x["v"], method="chunked")
        torch.autograd.grad(y, read, torch.ones_like(y))

    return call


def growth_rows(quick: bool) -> list[dict[str, float | str | None]]:
    """Forward and backward of one sequence (batch 1, one head, n = d_v = 64) at each length."""
    rows = []
    for structure in STRUCTURES:
        for length in LENGTHS[: 2 if quick else None]:
            call = _run(structure, length, 64)
            call()
            time_ms = min(cpu_ms(call) for _ in range(3))
            rows.append(
                {
                    "structure": structure,
                    "length": length,
                    "ms": time_ms,
                    "us_per_token": 1e3 * time_ms / length,
                    "peak_mib": peak_mib(call),
                }
            )
    return rows
