"""Run groups of cases in Triton's interpreter and print every error found, one JSON object a line.

    python tests/gpu/interpreted.py GROUP ...

A process of its own: the interpreter and the compiler cannot share one. Every buffer starts as
NaN, so an output that is not written shows. Errors are relative norms against float64.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

os.environ["TRITON_INTERPRET"] = "1"
os.environ.setdefault("OMP_NUM_THREADS", "1")
sys.path[:0] = [str(Path(__file__).resolve().parents[level]) for level in (1, 2)]

import numpy as np  # noqa: E402
import torch  # noqa: E402
from comparison import check, in_float64, output_and_gradients  # noqa: E402
from designs import Inputs  # noqa: E402
from tolerances import relative_error  # noqa: E402

F32, F16, BF16 = torch.float32, torch.float16, torch.bfloat16
NORMALIZERS = ("one", "row_sum", "floored", "given")


def pointwise() -> Iterator[dict]:
    for eta in NORMALIZERS:
        for phi in ("exp", "softplus", "relu"):
            yield check("scalar", phi, eta, 17, log_scaled=eta == "floored")
        yield check("identity", "exp", eta, 17)
    for length in (1, 63, 64, 65):
        yield check("identity", "exp", "row_sum", length)
    yield check("scalar", "softplus", "row_sum", 130, n=20, dv=33)
    yield check("scalar", "exp", "row_sum", 33, batch=(2, 2))
    yield check("scalar", "exp", "row_sum", 45, resets=True)
    for dtype in (F16, BF16):
        yield check("identity", "exp", "row_sum", 40, dtype=dtype, n=16, dv=16)


def scalar() -> Iterator[dict]:
    yield check("identity", "identity", "one", 17)
    yield check("identity", "elu1", "row_sum", 33)
    for length in (1, 63, 64, 65):
        yield check("scalar", "identity", "one", length)
    yield check("scalar", "identity", "floored", 40, log_scaled=True)
    yield check("scalar", "identity", "given", 17, batch=(2, 2))
    yield check("scalar", "identity", "one", 130, n=20, dv=33)
    yield check("scalar", "identity", "one", 40, dtype=BF16, n=16, dv=16)
    yield check("scalar", "identity", "one", 45, resets=True)
    yield continued("scalar")


def householder() -> Iterator[dict]:
    yield check("householder", "identity", "one", 1)
    yield check("householder", "identity", "one", 33, own=True)
    yield check("scaled_householder", "identity", "floored", 17, log_scaled=True)
    yield check("scaled_householder", "identity", "one", 64, own=True)
    yield check("scaled_householder", "identity", "one", 65, own=True, n=20, dv=33)
    yield check("scaled_householder", "identity", "one", 20, resets=True)
    yield continued("scaled_householder")


def diagonal() -> Iterator[dict]:
    for length in (1, 17, 63, 65):
        yield check("diagonal", "identity", "one", length)
    yield check("diagonal", "identity", "floored", 40, log_scaled=True, n=20, dv=33)
    yield check("diagonal", "identity", "one", 45, resets=True)
    yield check("diagonal", "identity", "one", 24, nats=10.0)
    yield continued("diagonal")


def rank_one() -> Iterator[dict]:
    """What makes a kernel of its own, at lengths just above a chunk."""
    design = ("diagonal_plus_rank_one", "identity")
    yield check(*design, "one", 17)
    yield check(*design, "row_sum", 9)
    yield check(*design, "one", 20, resets=True)
    yield check(*design, "one", 20, nats=14.0)
    yield continued(design[0], 18)


def rank_one_long() -> Iterator[dict]:
    """The other lengths, several sequences, and sizes that are no powers of two."""
    design = ("diagonal_plus_rank_one", "identity")
    for length in (1, 16):
        yield check(*design, "one", length)
    yield check(*design, "given", 9, batch=(2, 2))
    yield check(*design, "floored", 34, log_scaled=True, n=20, dv=33)
    yield check(*design, "floored", 17, log_scaled=True)
    yield continued(design[0])


def own_readout() -> Iterator[dict]:
    for structure in ("identity", "scalar"):
        yield check(structure, "squared_relu", "floored", 17)
    yield check("scalar", "squared_relu", "row_sum", 70, dtype=F16, n=16, dv=16)
    yield compiled("scalar", "squared_relu")


def continued(structure: str, length: int = 40) -> dict[str, object]:
    """Two scans, the second from the state of the first, with gradients through that state.

    Designs start from no state, so the scans are called themselves.
    """
    from coefdyn.execution.problem import flipped_sides, flips
    from coefdyn.execution.triton import diagonal, householder, linear, rank_one

    inputs = Inputs.draw(batch=(1,), length=length, dtype=F32)
    exact, cut = in_float64(inputs), length // 2 - 1
    scan, erased = {
        "scalar": (linear.scan, lambda a: ()),
        "diagonal": (diagonal.scan, lambda a: ()),
        "scaled_householder": (householder.scan, lambda a: (a.direction, a.beta)),
        "diagonal_plus_rank_one": (rank_one.scan, flipped_sides),
    }[structure]

    def in_two(d, v):
        a, sign = d.evolution, flips(d.evolution)
        gated = (d.q * sign, d.k * sign, v, d.scaling, a.log_decay)
        erase = erased(a)
        parts, state = [], None
        for at in (slice(0, cut), slice(cut, length)):
            tokens = linear.ScanInputs(*(x[:, at] for x in gated), state, 1.0)
            out, state = scan(tokens, *(x[:, at] for x in erase))
            parts.append(out)
        return torch.cat(parts, 1)

    design = (structure, "identity", "one")
    expected = output_and_gradients(
        lambda d, v: d.apply(v, "parallel"), exact.dynamics(*design), exact
    )
    got = output_and_gradients(in_two, inputs.dynamics(*design), inputs)
    errors = {name: relative_error(got[name], expected[name]) for name in got}
    missing = sorted(expected.keys() - got.keys())
    return {"case": f"{structure} in two", "dtype": "float32", "missing": missing, "errors": errors}


def operators() -> Iterator[dict]:
    """Registered shapes and types match what the kernels return; a compiled graph holds them."""
    from coefdyn.execution.triton.diagonal import diagonal_kernel
    from coefdyn.execution.triton.householder import householder_kernel
    from coefdyn.execution.triton.linear import scalar_kernel
    from coefdyn.execution.triton.pointwise import rows_kernel
    from coefdyn.execution.triton.rank_one import rank_one_kernel

    q, gate = torch.randn(1, 5, 4, dtype=F16), -torch.rand(1, 5)
    channels = -torch.rand(1, 5, 4)
    calls = {
        "rows": (rows_kernel, (q, q, q, gate, gate, None, "exp", "row_sum", True, 0.5)),
        "scalar": (scalar_kernel, (q, q, q, None, gate, None, 0.5)),
        "householder": (householder_kernel, (q, q, q, -gate, None, gate, None, 0.5)),
        "diagonal": (diagonal_kernel, (q, q, q, None, channels, None, 0.5)),
        "rank_one": (rank_one_kernel, (q, q, q, q, None, channels, None, 0.5)),
    }
    for name, (kernel, args) in calls.items():
        torch.library.opcheck(kernel.op, args, test_utils=("test_schema", "test_faketensor"))
        yield {"case": f"operator {name}", "dtype": "float16", "missing": [], "errors": {}}
    yield compiled("scalar")


def compiled(structure: str, phi: str = "exp") -> dict[str, object]:
    """A compiled graph, entered under autocast, against the same call without either."""
    inputs = Inputs.draw(batch=(1,), length=9, dtype=F32)
    design = inputs.dynamics(structure, phi, "row_sum")
    run = lambda v: replace(design).apply(v, "triton")  # noqa: E731
    in_graph = torch.compile(run, backend="aot_eager")
    with torch.autocast("cpu", dtype=BF16):
        found = {"output": relative_error(in_graph(inputs.v), run(inputs.v))}
    return {"case": f"compiled {structure}", "dtype": "float32", "missing": [], "errors": found}


def emulated() -> Iterator[dict]:
    """Half precision as a GPU rounds it."""
    from emulated import tensor_cores

    with tensor_cores():
        for dtype in (BF16, F16):
            heads = {"dtype": dtype, "n": 64, "dv": 64}
            yield check("identity", "exp", "row_sum", 130, **heads)
            yield check("scalar", "softplus", "floored", 130, log_scaled=True, **heads)
            yield check("scalar", "relu", "given", 130, **heads)
            yield check("scalar", "identity", "floored", 130, log_scaled=True, **heads)
            yield check("householder", "identity", "one", 200, own=True, dtype=dtype, n=16, dv=16)
            yield check("scalar", "identity", "one", 1000, dtype=dtype, n=16, dv=16)
            yield check("diagonal", "identity", "one", 300, dtype=dtype, n=16, dv=16)
            yield check("diagonal_plus_rank_one", "identity", "one", 70, dtype=dtype, n=16, dv=16)


ALL = (
    pointwise,
    scalar,
    householder,
    diagonal,
    rank_one,
    rank_one_long,
    own_readout,
    operators,
    emulated,
)
GROUPS = {group.__name__: group for group in ALL}


def main(names: list[str]) -> None:
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True, warn_only=True)
    torch.utils.deterministic.fill_uninitialized_memory = True
    np.seterr(all="ignore")
    for name in names:
        for row in GROUPS[name]():
            print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
