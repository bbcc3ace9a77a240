"""The Triton kernels by the interpreter, against float64: outputs and every gradient."""

from __future__ import annotations

import pytest
from gpu.processes import assert_interpreted

EXPECTED = {"pointwise": 25, "scalar": 12, "householder": 7, "diagonal": 8, "operators": 6}
EXPECTED |= {"rank_one": 9, "emulated": 16}
NIGHTLY = pytest.mark.nightly("half precision in the groups pointwise and scalar")
GROUPS = [pytest.param(name, marks=NIGHTLY if name == "emulated" else ()) for name in EXPECTED]


@pytest.mark.dear("an interpreter runs every instruction of the kernels in Python")
@pytest.mark.parametrize("group", GROUPS)
def test_interpreted_kernels_agree_with_float64(group):
    pytest.importorskip("triton", "3.5", reason="the kernels need triton 3.5, a Linux package")
    assert_interpreted(group, EXPECTED[group])
