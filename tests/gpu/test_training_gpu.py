"""Training on a GPU: the CPU's numbers, and several processes on one device."""

from __future__ import annotations

import pytest
import torch
from training_runs import tiny_model, tiny_run

from coefdyn.lab.training import RunOptions, TrainOptions, train_run, train_runs

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]


@pytest.mark.parametrize("mode", ["eager", "compiled"])
@pytest.mark.parametrize("readout", ["exp", "relu"])
def test_a_run_on_the_gpu_equals_that_on_the_cpu(mode, readout):
    model = tiny_model(readout=readout, position="rotary")
    run = tiny_run(model=model, precision="float64", clip=0.5, weight_decay=0.1)
    found = train_run(run, TrainOptions(device="cuda", mode=mode))
    assert found["mode"] == mode
    assert torch.cuda.get_device_name() in found["device"]
    assert found["final"]["loss"] == pytest.approx(train_run(run)["final"]["loss"], rel=1e-7)


def test_divergence_is_seen():
    growing = {"evolution": "constant", "constant": 30.0, "scaling": "one", "normalizer": "one"}
    run = tiny_run(model=tiny_model(**growing), learning_rate=0.1)
    assert 1 <= train_run(run, TrainOptions(device="cuda"))["diverged_at"] <= 12


def test_processes_that_share_the_gpu_give_the_numbers_of_one():
    runs = [tiny_run(seed=seed, precision="float64") for seed in range(4)]
    alone, shared = (
        train_runs(runs, options=RunOptions(device="cuda", workers=workers, progress=False))
        for workers in (1, 4)
    )
    for one, other in zip(alone, shared, strict=True):
        assert other["final"]["loss"] == pytest.approx(one["final"]["loss"], rel=1e-9)
