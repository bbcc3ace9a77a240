"""The script that verifies and times kernels, driven on the CPU: order, failures, resume, peers."""

from __future__ import annotations

import json
import sys
import time
from types import SimpleNamespace

import pytest
import torch

pytest.importorskip("triton", "3.5", reason="the kernels need triton 3.5, a Linux package")

from gpu import run as script  # noqa: I001  puts the folder of the scripts on the path
import timings


def test_what_the_times_need_is_verified_first():
    keys = list(script.cases())
    first = [key for key in keys if script.timed_first(key)]
    assert len(first) == len(script.DESIGNS) * len(timings.HEADS) * 2
    assert keys[: len(script.DESIGNS)] == first[: len(script.DESIGNS)]
    cells = {tuple(key.split()[:2]) for key in first}
    assert {(p.structure, p.phi) for p in timings.problems()} <= cells
    assert next(timings.problems()).length == 4096
    assert any(length % 16 == 0 for length in script.LENGTHS[:2]), "as the lengths that are timed"
    assert not any("exp one" in key for key in keys if "float16 " in key and "bfloat" not in key)


@pytest.fixture
def there(tmp_path, monkeypatch):
    """A machine whose kernels of one structure fail; each job is answered in this process."""
    calls: list[tuple] = []

    def answered(part, key, peaks=None):
        calls.append((part, key))
        if part == "verified":
            return {"ok": not key.startswith("diagonal"), "output": 0.0}
        if key.startswith("householder"):
            return {"ok": False, "error": "RuntimeError: no room"}
        return {"triton": {"forward_ms": 1.0}}

    def here(jobs, perform, *, processes, until, limit):
        for job in jobs:
            if time.monotonic() > until:
                return
            yield job, perform(*job)

    monkeypatch.setitem(sys.modules, "fla", None)
    monkeypatch.setattr(script, "HEADS", (64, 128, 256))
    monkeypatch.setattr(script, "perform", answered)
    monkeypatch.setattr(script, "through", here)
    monkeypatch.setattr(script, "provenance", lambda: {"device": "none", "commit": "a"})
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    out = tmp_path / "gpu.json"
    monkeypatch.setattr(sys, "argv", ["run.py", "--out", str(out)])
    return SimpleNamespace(calls=calls, out=out)


def test_failures_are_said_written_and_tried_again_and_what_is_there_is_kept(there, capsys):
    assert script.main() == 1
    told = capsys.readouterr().out
    assert "fla is not installed" in told
    assert "not all is there" in told
    content = json.loads(there.out.read_text())
    assert set(content["verified"]) == set(script.cases())
    assert not any(key.startswith("diagonal") for key in content["timed"])
    parts = [part for part, _ in there.calls]
    last = len(parts) - parts[::-1].index("timed")
    assert parts.index("timed") < last < parts.index("verified", last) + 1 < len(parts)
    there.calls.clear()
    assert script.main() == 1
    assert there.calls
    assert all(key.startswith(("diagonal", "householder")) for _, key in there.calls)


def test_a_spent_budget_writes_no_result_and_says_so(there, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", [*sys.argv, "--budget", "-1"])
    assert script.main() == 0
    assert there.calls == []
    assert "run again" in capsys.readouterr().out


def test_ours_and_the_peers_are_timed_on_the_same_tensors(monkeypatch):
    """Every call that a GPU would time, at a small size; only the clock is not the device's."""
    monkeypatch.setitem(sys.modules, "fla", None)
    monkeypatch.setattr(timings, "BATCH", 1)
    monkeypatch.setattr(timings, "HEADS_COUNT", 2)
    monkeypatch.setattr(timings, "DEVICE", "cpu")
    monkeypatch.setattr(timings, "median_ms", lambda run: (run(), timings.Time(2.0, 1.0))[1])
    peak = {"tflops": 1.0, "terabytes_per_s": 1.0}
    apply = timings.CoefficientDynamics.apply
    monkeypatch.setattr(
        timings.CoefficientDynamics, "apply", lambda self, v, method: apply(self, v, "auto")
    )
    for structure, phi in timings.CELLS:
        row = timings.time_problem(timings.Problem(structure, phi, 16, 64), peak)
        assert row["triton"]["both_ms"] == 2.0
        assert row["triton"]["both_host_ms"] == 1.0
        assert row["roofline_share"]["both"] > 0
        assert ("torch_sdpa" in row) == ((structure, phi) == ("identity", "exp"))
        assert ("flex_attention" in row) == (structure == "identity")
    assert (
        "error"
        not in timings.time_problem(timings.Problem("identity", "exp", 16, 64), peak)["torch_sdpa"]
    )
