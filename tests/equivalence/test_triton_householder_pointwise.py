"""Pointwise readouts of Householder evolutions: interpreted against float64, and compiled."""

from __future__ import annotations

import pytest
from gpu.processes import assert_interpreted, assert_small

pytest.importorskip("triton", reason="triton is a Linux package")


def test_interpreted_kernels_agree_with_float64():
    assert_interpreted("householder_pointwise", 37)


@pytest.mark.parametrize(("arch", "head"), [(80, 64), (90, 128), (90, 256)])
def test_kernels_compile_without_large_spills(arch, head):
    assert_small(arch, head, ["householder_exp"])
