"""A first look at every Triton kernel on the device; ``tests/gpu/run.py`` looks at all of it."""

from __future__ import annotations

import pytest
import torch
from gpu.run import DESIGNS, judged
from gpu.run import check as compare

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("case", DESIGNS, ids=str)
def test_a_kernel_agrees_with_float64_on_the_device(case, dtype):
    structure, phi, eta, options = case
    row = judged(
        compare(structure, phi, eta, 130, dtype=dtype, device="cuda", n=64, dv=64, **options)
    )
    assert row["ok"], row
