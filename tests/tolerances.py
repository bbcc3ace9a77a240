"""The one table of tolerances: (method, dtype, quantity) -> relative error allowed, and why.

Errors are relative norms against a float64 reference on the same (rounded) inputs; a NaN or an
infinity never passes. A test takes its limit from here and nowhere else; no test loosens it.

Methods: those of ``coefdyn.execution``, plus "mixer" (a whole layer, projections included) and
"peer" (an independent implementation). Quantities: "output", "gradient", "step" (token by token
against the whole sequence), "future" (influence of later tokens on earlier outputs).
"""

from __future__ import annotations

from typing import NamedTuple

import torch

__all__ = ["FOUND", "TOLERANCES", "Tolerance", "assert_agree", "relative_error", "tolerance"]

#: (method, dtype, quantity) -> [comparisons so far, largest error]; ``pytest --errors`` prints it
FOUND: dict[tuple[str, str, str], list[float]] = {}
METHODS = ("auto", "reference", "recurrent", "parallel", "chunked", "triton")


class Tolerance(NamedTuple):
    """A relative error, and the reason why it is not smaller."""

    value: float
    reason: str


F64, F32, BF16, F16 = torch.float64, torch.float32, torch.bfloat16, torch.float16

_SUM64 = "sums of up to 1000 terms of eps 1e-16 in another order; row sums of signed terms cancel"
_GRAD64 = "as the output, once more through the chain rule"
_SUM32 = "sums of up to 1000 terms of eps 6e-8 in another order, exponents of cumulated decays"
_GRAD32 = "as the output, and differences of nearly equal numbers in the gradient of a decay"
_LOW = "inputs are taken as rounded and computed in float32; the result is rounded once"

#: the same for every execution method
_EXECUTION = {
    (F64, "output"): Tolerance(1e-11, _SUM64),
    (F64, "gradient"): Tolerance(1e-10, _GRAD64),
    (F64, "step"): Tolerance(1e-11, _SUM64),
    (F32, "output"): Tolerance(2e-5, _SUM32),
    (F32, "gradient"): Tolerance(2e-4, _GRAD32),
    (F32, "step"): Tolerance(2e-5, _SUM32),
    (BF16, "output"): Tolerance(4e-3, _LOW + ": half a unit of 8 bits"),
    (BF16, "gradient"): Tolerance(1e-2, _LOW + ", the incoming gradient too"),
    (F16, "output"): Tolerance(6e-4, _LOW + ": half a unit of 11 bits"),
    (F16, "gradient"): Tolerance(2e-3, _LOW + ", the incoming gradient too"),
}

TOLERANCES: dict[tuple[str, torch.dtype, str], Tolerance] = {
    (method, dtype, quantity): limit
    for method in METHODS[1:]
    for (dtype, quantity), limit in _EXECUTION.items()
}
TOLERANCES |= {
    ("mixer", F64, "output"): Tolerance(1e-11, _SUM64),
    ("mixer", F64, "gradient"): Tolerance(1e-10, _GRAD64),
    ("mixer", F64, "step"): Tolerance(1e-11, _SUM64),
    ("mixer", F64, "future"): Tolerance(1e-13, "later tokens may change the order of sums only"),
    ("mixer", F32, "output"): Tolerance(1e-5, _SUM32),
    ("mixer", F32, "gradient"): Tolerance(5e-5, _GRAD32),
    ("mixer", BF16, "output"): Tolerance(
        3e-2, "five to ten roundings of eps 4e-3 in a row: projection, convolution, norm, gate"
    ),
    ("mixer", BF16, "gradient"): Tolerance(
        8e-2, "as the output, there and back through gates and norms"
    ),
    ("mixer", F16, "output"): Tolerance(4e-3, "as bfloat16, of 3 bits more"),
    ("mixer", F16, "gradient"): Tolerance(1e-2, "as bfloat16, of 3 bits more"),
    ("peer", F64, "output"): Tolerance(1e-11, "another order of the same sums"),
    ("peer", F64, "gradient"): Tolerance(1e-10, _GRAD64),
    ("peer", F32, "output"): Tolerance(5e-6, "both sides compute in float32, in another order"),
    ("peer", F32, "gradient"): Tolerance(2e-5, _GRAD32 + "; on both sides"),
}


def tolerance(method: str, dtype: torch.dtype, quantity: str) -> float:
    """The relative error allowed; KeyError if nobody has argued for one."""
    return TOLERANCES[method, dtype, quantity].value


def relative_error(got: torch.Tensor, expected: torch.Tensor) -> float:
    """|got - expected| / |expected| in float64; infinite if either holds NaN or infinity."""
    got, expected = got.detach().double(), expected.detach().double()
    assert got.shape == expected.shape, f"shapes {tuple(got.shape)} and {tuple(expected.shape)}"
    if not (torch.isfinite(got).all() and torch.isfinite(expected).all()):
        return float("inf")
    scale = expected.norm().item()
    return (got - expected).norm().item() / scale if scale else got.norm().item()


def assert_agree(
    got: torch.Tensor,
    expected: torch.Tensor,
    *,
    method: str,
    dtype: torch.dtype,
    quantity: str,
    what: str = "",
) -> None:
    """got equals expected within the table's relative error, as far as float16 can hold them."""
    if dtype == torch.float16:
        most = torch.finfo(dtype).max
        got, expected = got.clamp(-most, most), expected.clamp(-most, most)
    error, limit = relative_error(got, expected), tolerance(method, dtype, quantity)
    named = what.partition(" ")[0]
    named = named if named in METHODS else method
    key = (named, str(dtype).removeprefix("torch."), quantity)
    count, largest = FOUND.get(key, [0, 0.0])
    FOUND[key] = [count + 1, max(largest, error)]
    assert error <= limit, (
        f"{what or quantity}: relative error {error:.2e} > {limit:.0e} ({method}, {dtype}, "
        f"{quantity}: {TOLERANCES[method, dtype, quantity].reason})"
    )
