"""``parallel`` for outputs against all coefficients first: the triangular system has d_v columns
instead of L. ``python tests/benchmarks/outputs.py`` prints both times and their ratio."""

from __future__ import annotations

import torch
from measure import paired_ms
from torch.nn import functional

from coefdyn import CoefficientDynamics, evolution, normalizer, readout


def design(length: int, dim: int) -> tuple[CoefficientDynamics, torch.Tensor]:
    """A Gated DeltaNet head."""
    generator = torch.Generator().manual_seed(0)
    q, k, v = (torch.randn(length, dim, generator=generator) for _ in range(3))
    k = functional.normalize(k, dim=-1)
    beta, gate = (torch.rand(length, generator=generator) for _ in range(2))
    a = evolution.Householder(direction=k, beta=beta, log_decay=-0.1 * gate)
    dynamics = CoefficientDynamics(
        q=q,
        k=k,
        evolution=a,
        scaling=dim**-0.5,
        readout=readout.identity,
        normalizer=normalizer.One(),
    )
    return dynamics, v


@torch.no_grad()
def main() -> None:
    torch.set_num_threads(1)
    for length in (256, 1024, 2048, 4096):
        d, v = design(length, 16)
        found = paired_ms(
            lambda d=d, v=v: d.apply(v, "parallel"), lambda d=d, v=v: d.coefficients() @ v, 3
        )
        print(f"L={length:5d}:", {name: round(value, 2) for name, value in found.items()})


if __name__ == "__main__":
    main()
