"""Fastest method at each length: the measurement behind method="auto"."""

from __future__ import annotations

import statistics

import torch
from masks import design, leaves
from measure import cpu_ms

from coefdyn import CoefficientDynamics, readout

__all__ = ["crossover_rows"]

LENGTHS = (16, 64, 256, 1024)
#: name -> (leading axes, n, d_v); "channels" is S6: every channel a head of its own
SHAPES = {"heads": ((2, 4), 32, 32), "channels": ((32, 64), 16, 1)}
READOUTS = {"identity": readout.identity, "exp": readout.exp, "softplus": readout.softplus}
STRUCTURES = ("identity", "scalar", "diagonal", "householder", "scaled_householder")


def _dynamics(
    structure: str, phi: readout.Pointwise, length: int, shape: str = "heads"
) -> CoefficientDynamics:
    batch, n, _ = SHAPES[shape]
    x = {name: t.float().requires_grad_() for name, t in leaves(length, batch, n).items()}
    return design(structure, phi, x, scaling=n**-0.5)


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
