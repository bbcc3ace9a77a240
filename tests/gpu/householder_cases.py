"""Pointwise readouts of Householder evolutions in Triton's interpreter; see ``interpreted.py``.

python tests/gpu/interpreted_householder.py
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from comparison import check, gradients, in_float64
from designs import NORMALIZERS, Inputs
from tolerances import relative_error
from torch.nn import functional

from coefdyn.execution.triton import householder_pointwise as launches
from coefdyn.execution.triton.householder_pointwise import householder_rows_kernel

__all__ = ["householder_pointwise"]

F32, F16, BF16 = torch.float32, torch.float16, torch.bfloat16
SCALED = "scaled_householder"


def householder_pointwise() -> Iterator[dict]:
    for eta in NORMALIZERS:
        for phi in ("exp", "softplus", "relu"):
            yield check(SCALED, phi, eta, 37, log_scaled=eta == "floored")
        yield check("householder", "exp", eta, 37)
    for length in (1, 31, 32, 33, 97):
        yield check("householder", "exp", "row_sum", length)
    yield check(SCALED, "softplus", "row_sum", 70, n=20, dv=33)
    yield check(SCALED, "exp", "row_sum", 37, n=130, dv=20)
    yield check(SCALED, "exp", "row_sum", 65, own=True)
    yield check(SCALED, "squared_relu", "floored", 65)
    for phi in ("exp", "softplus"):
        yield check(SCALED, phi, "row_sum", 90, resets=True)
    yield check(SCALED, "exp", "row_sum", 70, dtype=F16, n=16, dv=16)
    yield check(SCALED, "softplus", "row_sum", 130, dtype=BF16, n=16, dv=16)
    for kind in ("correlated", "repeated", "reflecting"):
        yield dependent(kind)
    yield identity_rows()
    yield from in_groups()
    yield operator()
    yield compiled()


def compared(case: str, inputs: Inputs, build, run=None) -> dict[str, object]:
    """A row for inputs that ``check`` does not draw."""
    exact = gradients(lambda d, v: d.apply(v, "parallel"), build, in_float64(inputs))
    got = gradients(run or (lambda d, v: d.apply(v, "triton")), build, inputs)
    errors = {name: relative_error(got[name], exact[name]) for name in got}
    missing = sorted(exact.keys() - got.keys())
    return {"case": case, "dtype": "float32", "missing": missing, "errors": errors}


def dependent(kind: str) -> dict[str, object]:
    """Unit directions and beta that make I + tril(beta Z Z^T, -1) hard to invert."""
    inputs = Inputs.draw(batch=(1,), length=100, n=8, seed=11)
    leaves = {name: x.detach() for name, x in inputs.leaves.items()}
    z, beta = leaves["direction"], torch.ones_like(leaves["beta"])
    if kind == "correlated":
        z, beta = functional.normalize(z[:, :1] + 0.05 * z, dim=-1), 0.99 * beta
    if kind == "repeated":
        z = z[:, :3].repeat_interleave(40, 1)[:, :100]
    if kind == "reflecting":
        z, beta = functional.normalize(z[:, :1] + 0.3 * z, dim=-1), 1.999 * beta
    leaves |= {"direction": z, "beta": beta}
    leaves = {name: x.to(F32).requires_grad_() for name, x in leaves.items()}
    inputs = Inputs(leaves, {name: x.to(F32) for name, x in inputs.signs.items()})
    return compared(kind, inputs, lambda x: x.dynamics("householder", "softplus", "one"))


def identity_rows() -> dict[str, object]:
    """phi(s) = s by the rows: a design takes the scan, so the operator is called itself."""
    inputs = Inputs.draw(batch=(1,), length=70, dtype=F32)

    def rows(d, v):
        parts = (d.q, d.k, d.evolution.direction, d.evolution.beta, v, d.scaling)
        return householder_rows_kernel(*parts, None, None, "identity", "row_sum", False, 1.0)[0]

    design = ("householder", "identity", "row_sum")
    return compared("identity rows", inputs, lambda x: x.dynamics(*design), rows)


def in_groups() -> Iterator[dict]:
    """One head at a time; one row block at a time, then two."""
    room = launches.WORKSPACE
    for row_blocks in (1, 2):
        launches.WORKSPACE = row_blocks * 4 * 160 * 16 * 4
        yield check(SCALED, "exp", "row_sum", 130, batch=(2,), n=16)
    launches.WORKSPACE = room


def operator() -> dict[str, object]:
    """Registered shapes and types match what the kernels return."""
    q, gate = torch.randn(1, 5, 4, dtype=F16), torch.rand(1, 5)
    args = (q, q, q, gate, q, gate, -gate, gate, "exp", "floored", True, 0.5)
    kernel = householder_rows_kernel
    torch.library.opcheck(kernel.op, args, test_utils=("test_schema", "test_faketensor"))
    grads = (*kernel.op(*args), torch.randn(1, 5, 4))
    torch.library.opcheck(
        kernel.back,
        (*args[:8], *grads, *args[8:]),
        test_utils=("test_schema", "test_faketensor"),
    )
    return {"case": "operator", "dtype": "float16", "missing": [], "errors": {}}


def compiled() -> dict[str, object]:
    """A compiled graph under autocast gives what eager execution gives."""
    inputs = Inputs.draw(batch=(1,), length=40, dtype=F32)
    design = inputs.dynamics(SCALED, "exp", "row_sum")
    names = ("q", "k", "v", "scaling", "log_decay", "direction", "beta")
    leaves = [inputs.leaves[name] for name in names]

    def run(v):
        return design.apply(v, "triton")

    expected = torch.autograd.grad(run(inputs.v).square().sum(), leaves)
    with torch.autocast("cpu", dtype=BF16):
        y = torch.compile(run, backend="aot_eager")(inputs.v)
    got = torch.autograd.grad(y.square().sum(), leaves)
    errors = {"output": relative_error(y, run(inputs.v))}
    for place, (found, wanted) in enumerate(zip(got, expected, strict=True)):
        errors[f"gradient {place}"] = relative_error(found, wanted)
    return {"case": "compiled", "dtype": "float32", "missing": [], "errors": errors}
