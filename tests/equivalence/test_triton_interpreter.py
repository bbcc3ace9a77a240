"""The Triton kernels by the interpreter, against float64: outputs and every gradient."""

from __future__ import annotations

import pytest
from gpu.processes import assert_interpreted
from passed import KERNELS

NIGHTLY = pytest.mark.nightly("half precision and rank one in the other groups")


@pytest.mark.dear("an interpreter runs every instruction of the kernels in Python")
@pytest.mark.reads(KERNELS)
@pytest.mark.parametrize(
    "groups",
    [
        {"pointwise": 25, "scalar": 12, "householder": 7, "diagonal": 8, "operators": 6},
        {"rank_one": 5},
        pytest.param({"rank_one_long": 6, "emulated": 16}, marks=NIGHTLY),
    ],
    ids="-".join,
)
def test_interpreted_kernels_agree_with_float64(groups):
    """One process for several groups, since each imports torch and Triton."""
    pytest.importorskip("triton", "3.5", reason="the kernels need triton 3.5, a Linux package")
    assert_interpreted(groups)
