"""Pointwise readouts with a decay per channel: interpreted against float64, and compiled."""

from __future__ import annotations

import pytest
from gpu.processes import assert_interpreted, assert_small

pytest.importorskip("triton", reason="triton is a Linux package")


def test_interpreted_kernels_agree_with_float64():
    assert_interpreted("diagonal_pointwise", 25)


@pytest.mark.parametrize(
    ("arch", "head", "problem"),
    [(80, 64, "diagonal_softplus"), (80, 128, "diagonal_exp"), (90, 256, "diagonal_softplus")],
)
def test_kernels_compile_without_large_spills(arch, head, problem):
    assert_small(arch, head, [problem])
