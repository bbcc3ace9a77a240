"""The Triton kernels compiled ahead of time for sm_80 and sm_90: registers and spills bounded."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[1] / "gpu" / "aot.py"
#: shared memory one block may have, bytes
SHARED = {80: 163 * 1024, 90: 227 * 1024}
#: spilled bytes per thread; the widest tiles of a backward pass spill a little
STACK = 256


@pytest.mark.parametrize(
    ("arch", "head", "problems"),
    [(80, 64, ["softmax", "scalar"]), (90, 128, ["softmax", "householder", "diagonal"])],
)
def test_kernels_compile_without_large_spills(arch, head, problems):
    pytest.importorskip("triton", reason="triton is a Linux package")
    command = [sys.executable, str(SCRIPT), "--arch", str(arch), "--heads", str(head), "--only"]
    done = subprocess.run([*command, *problems], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-4000:]
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert {row["problem"] for row in rows} == set(problems)
    for row in rows:
        print(row)
        assert row["stack_bytes"] <= STACK, row
        assert row["registers"] <= 255, row
        assert row["shared_bytes"] <= SHARED[arch], row
