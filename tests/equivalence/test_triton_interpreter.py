"""The Triton kernels by the interpreter, against float64: outputs and every gradient."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from tolerances import tolerance

SCRIPT = Path(__file__).parents[1] / "gpu" / "interpreted.py"
EXPECTED = {"pointwise": 25, "scalar": 12, "householder": 7, "diagonal": 7, "operators": 5}


def run(group: str) -> list[dict]:
    """All cases of one group, in a process of their own."""
    done = subprocess.run(
        [sys.executable, str(SCRIPT), group],
        capture_output=True,
        text=True,
        env={**os.environ, "TRITON_INTERPRET": "1", "OMP_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


@pytest.mark.parametrize("group", EXPECTED)
def test_interpreted_kernels_agree_with_float64(group):
    pytest.importorskip("triton", reason="triton is a Linux package")
    rows = run(group)
    assert len(rows) == EXPECTED[group]
    for row in rows:
        assert not row["missing"], f"{row['case']}: no gradient for {row['missing']}"
        for name, error in row["errors"].items():
            quantity = "output" if name == "output" else "gradient"
            limit = tolerance("triton", getattr(torch, row["dtype"]), quantity)
            assert error <= limit, f"{row['case']}, {name}: relative error {error:.1e} > {limit}"
