"""The same runs spread over a Ray cluster: two workers on this machine."""

from __future__ import annotations

import sys

import pytest
from training_runs import tiny_run

from coefdyn.lab.training import ResultFile, RunOptions, train_runs

ON_RAY = RunOptions(device="cpu", executor="ray", progress=False)
HERE = RunOptions(device="cpu", workers=1, progress=False)


def test_two_workers_give_the_numbers_of_this_process_and_resume(tmp_path):
    ray = pytest.importorskip("ray", reason="Ray is an optional extra: pip install coefdyn[ray]")
    runs, file = [tiny_run(seed=seed) for seed in range(3)], ResultFile(tmp_path / "r.jsonl")
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    try:
        train_runs(runs[:1], file, HERE)
        spread = train_runs(runs, file, ON_RAY)
    finally:
        ray.shutdown()
    here = train_runs(runs, options=HERE)
    assert [one["metrics"] for one in spread] == [one["metrics"] for one in here]
    assert len(file.records()) == 3


def test_without_ray_the_error_names_the_remedy(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(ImportError, match=r"pip install coefdyn\[ray\]"):
        train_runs([tiny_run()], options=ON_RAY)
