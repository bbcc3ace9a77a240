"""Cost and memory against L for linear readouts: both must be linear up to L = 131072."""

from __future__ import annotations

import torch
from measure import cpu_ms, peak_mib
from torch.nn import functional

from coefdyn import CoefficientDynamics, evolution, normalizer, readout

__all__ = ["growth_rows", "print_growth"]

LENGTHS = (2048, 8192, 32768, 131072)
STRUCTURES = ("identity", "scalar", "diagonal", "scaled_householder")


def _evolution(structure: str, k: torch.Tensor) -> evolution.Evolution:
    length, n = k.shape[-2:]
    generator = torch.Generator().manual_seed(1)
    g = -0.1 * torch.rand(1, length, generator=generator)
    if structure == "identity":
        return evolution.Identity()
    if structure == "scalar":
        return evolution.Scalar(log_decay=g.requires_grad_())
    if structure == "diagonal":
        gates = -0.1 * torch.rand(1, length, n, generator=generator)
        return evolution.Diagonal(log_decay=gates.requires_grad_())
    beta = torch.rand(1, length, generator=generator)
    return evolution.Householder(
        direction=k, beta=beta.requires_grad_(), log_decay=g.requires_grad_()
    )


def _run(structure: str, length: int, dim: int):
    generator = torch.Generator().manual_seed(0)
    q, k, v = (torch.randn(1, length, dim, generator=generator) for _ in range(3))
    q, v, k = q.requires_grad_(), v.requires_grad_(), functional.normalize(k, dim=-1)
    k.requires_grad_()
    dynamics = CoefficientDynamics(
        q=q,
        k=k,
        evolution=_evolution(structure, k),
        scaling=dim**-0.5,
        readout=readout.identity,
        normalizer=normalizer.One(),
    )
    leaves = [q, k, v, *(x for x in dynamics.evolution.tensors().values() if x is not k)]

    def call() -> None:
        y = dynamics.apply(v, method="chunked")
        torch.autograd.grad(y, leaves, torch.ones_like(y))

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


def print_growth(rows: list[dict]) -> None:
    """One line per structure: microseconds per token at each length, then KiB per token."""
    print(
        "\nforward + backward, one sequence, one head, n = d_v = 64: us per token (KiB per token)"
    )
    print(f"{'':<22}" + "".join(f"{f'L={length}':>18}" for length in LENGTHS))
    for structure in STRUCTURES:
        cells = []
        for row in rows:
            if row["structure"] == structure:
                kib = 0.0 if row["peak_mib"] is None else 1024 * row["peak_mib"] / row["length"]
                cells.append(f"{row['us_per_token']:.2f} ({kib:.1f})")
        print(f"{structure:<22}" + "".join(f"{cell:>18}" for cell in cells), flush=True)
