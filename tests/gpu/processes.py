"""Kernel checks in processes of their own: the interpreter and the compiler cannot share one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import torch
from tolerances import tolerance

__all__ = ["assert_interpreted", "assert_small"]

HERE = Path(__file__).parent
#: shared memory one block may have, bytes
SHARED = {80: 163 * 1024, 90: 227 * 1024}
#: spilled bytes per thread; the widest tiles of a backward pass spill a little
STACK = 256


def _lines(script: str, *arguments: str) -> list[dict]:
    command = [sys.executable, str(HERE / script), *arguments]
    interpret = {"TRITON_INTERPRET": "1"} if script == "interpreted.py" else {}
    here = {k: v for k, v in os.environ.items() if k != "TRITON_INTERPRET"}
    done = subprocess.run(
        command, capture_output=True, text=True, env={**here, "OMP_NUM_THREADS": "1", **interpret}
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


def assert_interpreted(groups: dict[str, int]) -> None:
    """So many cases of groups of interpreted.py, all within the table of tolerances."""
    rows = _lines("interpreted.py", *groups)
    assert len(rows) == sum(groups.values())
    for row in rows:
        assert not row["missing"], f"{row['case']}: no gradient for {row['missing']}"
        for name, error in row["errors"].items():
            quantity = "output" if name == "output" else "gradient"
            limit = tolerance("triton", getattr(torch, row["dtype"]), quantity)
            assert error <= limit, f"{row['case']}, {name}: relative error {error:.1e} > {limit}"


def assert_small(arch: int, head: int, problems: list[str], dtype: str = "bfloat16") -> None:
    """The kernels of these problems of aot.py compile, with bounded registers and spills."""
    size = ("--arch", str(arch), "--heads", str(head), "--dtype", dtype)
    rows = _lines("aot.py", *size, "--only", *problems)
    assert {row["problem"] for row in rows} == set(problems)
    for row in rows:
        print(row)
        assert row["stack_bytes"] <= STACK, row
        assert row["registers"] <= 255, row
        assert row["shared_bytes"] <= SHARED[arch], row
