"""Training on a GPU: replicas, captured steps and the promised throughput."""

from __future__ import annotations

import pytest
import torch
from training_runs import tiny_model, tiny_run

from coefdyn.lab.throughput import measure
from coefdyn.lab.training import RunOptions, TrainOptions, train_group, train_runs

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]

SETTINGS = ((1e-3, 0.0, 0), (3e-3, 0.1, 1), (1e-2, 0.1, 0))


def replicas(**model):
    return [
        tiny_run(
            seed=seed,
            model=tiny_model(**model),
            learning_rate=rate,
            weight_decay=decay,
            precision="float64",
        )
        for rate, decay, seed in SETTINGS
    ]


@pytest.mark.parametrize("mode", ["eager", "captured", "graph"])
@pytest.mark.parametrize("readout", ["exp", "relu"])
def test_replicas_on_the_gpu_equal_single_runs_on_the_cpu(mode, readout):
    runs = replicas(readout=readout, position="rotary")
    together = train_group(runs, TrainOptions(device="cuda", mode=mode))
    for run, record in zip(runs, together, strict=True):
        (alone,) = train_group([run])
        assert record["mode"] == mode
        assert record["final"]["loss"] == pytest.approx(alone["final"]["loss"], rel=1e-7)


@pytest.mark.parametrize("mode", ["eager", "captured", "graph"])
def test_variants_on_streams_of_one_program_equal_single_runs_on_the_cpu(mode):
    """More parts than streams, rows of two lengths, ten times over: a race would show."""
    designs = (
        {"readout": "exp"},
        {"readout": "relu", "position": "rotary"},
        {"readout": "softplus", "position": "learned"},
        {"readout": "exp", "evolution": "constant", "constant": 0.95},
        {"readout": "psi_elu1"},
        {"readout": "identity", "evolution": "scalar", "normalizer": "one"},
    )
    runs = [run for design in designs for run in replicas(**design)]
    alone = [train_group([run])[0]["final"]["loss"] for run in runs]
    for _ in range(1 if mode == "graph" else 10):
        together = train_group(runs, TrainOptions(device="cuda", mode=mode))
        assert {record["mode"] for record in together} == {mode}
        found = [record["final"]["loss"] for record in together]
        assert found == pytest.approx(alone, rel=1e-7)


def test_divergence_is_seen_inside_a_captured_step():
    growing = {"evolution": "constant", "constant": 30.0, "scaling": "one", "normalizer": "one"}
    runs = [tiny_run(seed=seed, model=tiny_model(**growing), learning_rate=0.1) for seed in (0, 1)]
    records = train_group(runs, TrainOptions(device="cuda", mode="captured"))
    assert all(1 <= record["diverged_at"] <= 12 for record in records)


def test_runs_are_grouped_on_the_gpu():
    other = tiny_run(model=tiny_model(readout="relu"), precision="float64")
    runs = [*replicas(), other, tiny_run()]
    records = train_runs(runs, options=RunOptions(device="cuda", progress=False))
    assert [record["replicas"] for record in records] == [4, 4, 4, 4, 1]
    assert all(torch.cuda.get_device_name() in record["device"] for record in records)


@pytest.mark.bench
def test_replicas_are_eight_times_as_fast_as_runs_in_sequence():
    rows = measure("cuda", steps=1000, replicas=10)
    assert rows[0].seconds / min(row.seconds for row in rows) >= 8
