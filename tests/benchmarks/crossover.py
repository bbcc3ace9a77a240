"""Fastest method at each length: the measurement behind method="auto"."""

from __future__ import annotations

import statistics

import torch
from measure import cpu_ms
from torch.nn import functional

from coefdyn import CoefficientDynamics, evolution, normalizer, readout

__all__ = ["crossover_rows", "print_crossover"]

LENGTHS = (16, 64, 256, 1024)
#: name -> (leading axes, n, d_v); "channels" is S6: every channel a head of its own
SHAPES = {"heads": ((2, 4), 32, 32), "channels": ((32, 64), 16, 1)}
READOUTS = {"identity": readout.identity, "exp": readout.exp, "softplus": readout.softplus}
STRUCTURES = ("identity", "scalar", "diagonal", "householder", "scaled_householder")


def _dynamics(
    structure: str, phi: readout.Pointwise, length: int, shape: str = "heads"
) -> CoefficientDynamics:
    generator = torch.Generator().manual_seed(0)
    batch, n, _ = SHAPES[shape]
    lead = (*batch, length)

    def normal(*shape: int) -> torch.Tensor:
        return torch.randn(*lead, *shape, generator=generator)

    z = functional.normalize(normal(n), dim=-1).requires_grad_()
    beta, g = torch.sigmoid(normal()).requires_grad_(), (-0.1 * normal().abs()).requires_grad_()
    gates = (-0.1 * normal(n).abs()).requires_grad_()
    evolutions = {
        "identity": evolution.Identity(),
        "scalar": evolution.Scalar(log_decay=g),
        "diagonal": evolution.Diagonal(log_decay=gates),
        "householder": evolution.Householder(direction=z, beta=beta),
        "scaled_householder": evolution.Householder(direction=z, beta=beta, log_decay=g),
    }
    return CoefficientDynamics(
        q=normal(n).requires_grad_(),
        k=z,
        evolution=evolutions[structure],
        scaling=n**-0.5,
        readout=phi,
        normalizer=normalizer.One() if phi.is_linear else normalizer.RowSum(),
    )


def _time(dynamics: CoefficientDynamics, method: str, value_dim: int) -> float:
    v = dynamics.q.detach()[..., :value_dim].clone().requires_grad_()
    leaves = {id(x): x for x in (dynamics.q, dynamics.k, v, *dynamics.evolution.tensors().values())}

    def call() -> None:
        y = dynamics.apply(v, method=method)
        torch.autograd.grad(y, list(leaves.values()), torch.ones_like(y))

    call()
    return statistics.median(cpu_ms(call) for _ in range(5))


def crossover_rows(quick: bool) -> list[dict[str, float | int | str]]:
    """Forward and backward, every method that can do it, heads and then channels."""
    lengths = LENGTHS[: 2 if quick else None]
    heads = [(name, s, n, "heads") for name in READOUTS for s in STRUCTURES for n in lengths]
    channels = [("identity", "diagonal", n, "channels") for n in LENGTHS[:2]]
    rows = []
    for name, structure, length, shape in [*heads, *channels]:
        dynamics = _dynamics(structure, READOUTS[name], length, shape)
        row = {"readout": name, "structure": structure, "length": length, "shape": shape}
        linear = ["recurrent"] if READOUTS[name].is_linear else []
        for method in ("parallel", "chunked", *linear):
            row[method] = _time(dynamics, method, SHAPES[shape][2])
        rows.append(row)
    return rows


def print_crossover(rows: list[dict]) -> None:
    """Milliseconds of each method; the fastest is marked."""
    print("\nforward + backward, ms; heads 2 x 4, n = d_v = 32; channels 32 x 64, n = 16, d_v = 1")
    print(
        f"{'shape':<10} {'readout':<10} {'structure':<20} {'L':>5}"
        f"{'parallel':>11}{'chunked':>11}{'recurrent':>11}"
    )
    for row in rows:
        times = {m: row[m] for m in ("parallel", "chunked", "recurrent") if m in row}
        best = min(times, key=times.get)
        cells = "".join(
            f"{(f'{times[m]:.2f}' + ('*' if m == best else ' ')) if m in times else '-':>11}"
            for m in ("parallel", "chunked", "recurrent")
        )
        design = f"{row['shape']:<10} {row['readout']:<10} {row['structure']:<20}"
        print(f"{design} {row['length']:>5}{cells}", flush=True)
