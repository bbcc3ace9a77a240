"""Runs on a cluster of dask: the same records as here, whatever happens to its workers."""

from __future__ import annotations

import os
import signal
import sys
import time
from dataclasses import replace

import pytest
from cluster_trial import Parts, apart, numbers
from training_runs import tiny_model, tiny_run

from coefdyn import mixers
from coefdyn.lab.contest import Contest, Entrant
from coefdyn.lab.training import (
    ResultFile,
    RunOptions,
    Stopped,
    WorkerFailed,
    train_run,
    train_runs,
)
from coefdyn.lab.training import cluster as cluster_module
from coefdyn.lab.training.there import facts
from coefdyn.mixers.registry import register_mixer

pytest.importorskip("distributed")

pytestmark = [
    pytest.mark.dear("a scheduler and workers are started, and import torch"),
    pytest.mark.reads("coefdyn"),
]


@pytest.fixture(scope="module")
def parts(tmp_path_factory):
    """A scheduler and two workers, which do not see the client's folder where that can be had."""
    folder, client = tmp_path_factory.mktemp("parts"), tmp_path_factory.mktemp("client")
    started = Parts(folder, client, count=2)
    started.tend()
    yield started
    started.close()


@pytest.fixture
def there(parts):
    """Options of runs on that cluster, whose dead workers are replaced before."""
    parts.tend()
    return RunOptions(device="cpu", cluster=parts.address, progress=False)


def test_records_equal_those_of_this_process_and_are_written_once(there, tmp_path):
    runs = [tiny_run(seed=seed) for seed in range(4)]
    file, said = ResultFile(tmp_path / "r.jsonl"), {"experiment": "x"}
    records = train_runs(runs, file, replace(there, extra=lambda key: said))
    assert [numbers(one) for one in records] == [numbers(train_run(run)) for run in runs]
    assert [one["experiment"] for one in file.records()] == ["x"] * 4
    assert file.keys() == {run.key for run in runs}


def test_a_run_that_returns_its_checkpoint_goes_on_to_the_very_numbers(there, parts, monkeypatch):
    """Three steps of a run in one worker, the next ones wherever."""
    monkeypatch.setattr(cluster_module, "RETURN_S", 0.0)
    run, begun = tiny_run(seed=5), len(parts.log.read_text())
    options = replace(there, checkpoint_folder=parts.hidden)
    (record,) = train_runs([run], options=options)
    assert numbers(record) == numbers(train_run(run))
    parts_of_it = parts.log.read_text()[begun:].count(run.key)
    assert parts_of_it == (12 if apart() else 1)
    assert not list(parts.hidden.iterdir())


def test_a_killed_worker_loses_no_record(there, parts, tmp_path):
    runs, killed = [tiny_run(seed=seed, steps=60) for seed in range(20, 24)], []

    def kill_one():
        if not killed and runs[0].key in parts.log.read_text():
            killed.append(os.killpg(parts.workers[0].pid, signal.SIGKILL))
        return False

    file = ResultFile(tmp_path / "r.jsonl")
    records = train_runs(runs, file, replace(there, should_stop=kill_one))
    assert killed
    assert len(file.records()) == 4
    assert [numbers(one) for one in records] == [numbers(train_run(run)) for run in runs]


@pytest.mark.nightly("test_a_killed_worker_loses_no_record")
def test_runs_whose_workers_all_went_are_offered_to_those_that_come(there, parts, tmp_path):
    """dask offers a run without a worker to each that comes, and none of them is fit by then."""
    runs, killed = [tiny_run(seed=seed, steps=60) for seed in range(50, 54)], []

    def kill_all():
        if not killed and runs[0].key in parts.log.read_text():
            killed.extend(os.killpg(one.pid, signal.SIGKILL) for one in parts.workers)
            for one in parts.workers:
                one.wait()
            parts.tend()
        return False

    records = train_runs(runs, options=replace(there, should_stop=kill_all))
    assert len(killed) == 2
    assert [numbers(one) for one in records] == [numbers(train_run(run)) for run in runs]


def test_stop_frees_the_workers(there):
    """Within a second here; and there, where a short run is trained soon after."""
    started = time.monotonic()
    stop = replace(there, should_stop=lambda: time.monotonic() - started > 1)
    with pytest.raises(Stopped):
        train_runs([tiny_run(seed=seed, steps=10**6) for seed in (30, 31, 32)], options=stop)
    assert len(train_runs([tiny_run(seed=33)], options=there)) == 1


def test_a_run_that_fails_three_times_is_told_and_the_others_go_on(there, parts, tmp_path):
    broken, good = tiny_run(model=tiny_model(n_heads=3)), tiny_run(seed=40)
    file = ResultFile(tmp_path / "r.jsonl")
    with pytest.raises(WorkerFailed, match="not a multiple of n_heads=3") as told:
        train_runs([broken, good], file, there)
    assert "Traceback" in str(told.value)
    assert file.keys() == {good.key}
    assert parts.log.read_text().count(broken.key) == 3


@register_mixer
class OwnOnACluster(mixers.LinearAttention):
    """A reader's own class, which no worker can import."""


def test_a_mixer_of_ones_own_travels_with_its_run(there):
    run = tiny_run(model=tiny_model(mixer="OwnOnACluster"))
    (record,) = train_runs([run], options=there)
    assert record["metrics"] == train_run(run)["metrics"]


def test_a_contest_runs_on_the_cluster_of_the_environment(there, monkeypatch):
    task = tiny_run().task
    contest = Contest(
        task=task,
        entrants={
            "one": Entrant(mixer="LinearAttention", options={"n_heads": 2}),
            "two": Entrant(mixer="GLA", options={"n_heads": 2}),
        },
        steps=16,
        width=16,
        mlp=16,
    )
    here = contest.run(device="cpu")
    monkeypatch.setenv("DASK_SCHEDULER_ADDRESS", there.cluster)
    away = contest.run(device="cpu")
    for name, trained in here.trained.items():
        assert away.trained[name].curve == trained.curve
        weights = away.trained[name].model.state_dict()
        for key, tensor in trained.model.state_dict().items():
            assert tensor.equal(weights[key])


def test_a_worker_of_another_torch_is_refused_and_both_are_named(there, monkeypatch):
    monkeypatch.setattr(cluster_module, "facts", lambda: {**facts(), "torch": "1.0"})
    with pytest.raises(ValueError, match=rf"torch {facts()['torch']} there, 1\.0 here"):
        train_runs([tiny_run()], options=there)


def test_a_gpu_is_asked_for_by_name(there):
    with pytest.raises(ValueError, match=r'started without --resources "GPU=0\.5"'):
        train_runs([tiny_run()], options=replace(there, device="cuda", workers=2))


def test_a_number_of_processes_means_this_machine(monkeypatch):
    monkeypatch.setenv("DASK_SCHEDULER_ADDRESS", "tcp://127.0.0.1:1")
    assert RunOptions(workers=2).scheduler() is None
    assert RunOptions().scheduler() == "tcp://127.0.0.1:1"


def test_what_cannot_be_had_is_told(monkeypatch):
    monkeypatch.setattr(cluster_module, "ANSWER_S", 0.5)
    for address, kind, words in (
        ("tcp://192.0.2.7:8786", ValueError, "not encrypted"),
        ("tcp://127.0.0.1:1", OSError, "127.0.0.1:1"),
    ):
        with pytest.raises(kind, match=words):
            train_runs([tiny_run()], options=RunOptions(cluster=address, progress=False))
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(ImportError, match=r"coefdyn\[cluster\]"):
        train_runs([tiny_run()], options=RunOptions(cluster="tcp://127.0.0.1:1"))
