"""The Triton kernels compiled ahead of time for sm_80 and sm_90: registers and spills bounded."""

from __future__ import annotations

import pytest
from gpu.processes import assert_small
from passed import KERNELS

pytestmark = [
    pytest.mark.dear("the compiler of each kernel and device runs to its machine code"),
    pytest.mark.reads(KERNELS),
]
NIGHTLY = pytest.mark.nightly("kernels of every structure, each for one of the two devices")


@pytest.mark.parametrize(
    ("arch", "head", "problems"),
    [
        (90, 128, ["softmax", "householder", "diagonal", "rank_one"]),
        (80, 256, ["softplus_scalar"]),
        pytest.param(80, 64, ["softmax", "scalar", "row_sums"], marks=NIGHTLY),
        pytest.param(90, 256, ["softplus_scalar"], marks=NIGHTLY),
    ],
)
def test_kernels_compile_without_large_spills(arch, head, problems):
    pytest.importorskip("triton", "3.5", reason="the kernels need triton 3.5, a Linux package")
    assert_small(arch, head, problems)


@NIGHTLY
@pytest.mark.parametrize(
    ("arch", "dtype", "problems"),
    [(80, "float16", ["scalar", "diagonal", "rank_one"]), (90, "float32", ["softplus_scalar"])],
)
def test_factors_of_twice_the_size_fit_too(arch, dtype, problems):
    pytest.importorskip("triton", "3.5", reason="the kernels need triton 3.5, a Linux package")
    assert_small(arch, 128, problems, dtype)
