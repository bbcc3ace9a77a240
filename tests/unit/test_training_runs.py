"""Lists of runs: processes give the same numbers, a kill loses only what was in flight.

What a cluster does is in ``test_cluster.py``.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace

import pytest
from passed import RUNS
from training_runs import tiny_model, tiny_run

from coefdyn.lab.training import (
    ResultFile,
    ResultsNotWritten,
    RunOptions,
    Stopped,
    WorkerFailed,
    train_run,
    train_runs,
)

pytestmark = [
    pytest.mark.dear("processes are started, import torch, and are stopped in a run"),
    pytest.mark.reads(RUNS),
]

QUIET = RunOptions(device="cpu", workers=1, progress=False)
NIGHTLY = pytest.mark.nightly("the same in one process, and a killed worker of two")
ONE_OR_TWO = [1, pytest.param(2, marks=NIGHTLY)]

#: Trains and is killed five steps after the first finished run.
KILLED = """
import json, os, signal, sys
from coefdyn.lab.training import ResultFile, RunConfig, RunOptions, train_runs
runs = [RunConfig.from_dict(values) for values in json.loads(sys.argv[2])]
file, after = ResultFile(sys.argv[1]), [0]

def kill_minus_nine():
    after[0] += bool(file.keys())
    if after[0] == 5:
        os.kill(os.getpid(), signal.SIGKILL)
    return False

options = RunOptions(device="cpu", workers=int(sys.argv[3]), should_stop=kill_minus_nine)
train_runs(runs, file, options)
"""


def test_a_run_that_another_call_finished_meanwhile_is_not_trained(tmp_path):
    file, runs = ResultFile(tmp_path / "r.jsonl"), [tiny_run(), tiny_run(seed=1)]
    record = train_run(runs[1])

    def finished_elsewhere() -> bool:
        file.append({**record, "by": "the other"})
        return False

    found = train_runs(runs, file, replace(QUIET, should_stop=finished_elsewhere))
    assert found[1]["by"] == "the other"
    assert [one["seed"] for one in file.records() if "by" not in one] == [0]


def test_finished_runs_are_not_trained_again(tmp_path):
    file, runs = ResultFile(tmp_path / "r.jsonl"), [tiny_run(seed=seed) for seed in (0, 1, 2)]
    first = train_runs(runs[:2], file, QUIET)
    stamps = [one["timestamp"] for one in first]
    again = train_runs(runs, file, QUIET)
    assert [one["timestamp"] for one in again[:2]] == stamps
    assert len(file.records()) == 3


@pytest.mark.parametrize("workers", ONE_OR_TWO)
def test_kill_minus_nine_and_resume(tmp_path, workers):
    """SIGKILL after the first finished run; the rest is trained by a second call, nothing twice."""
    path = tmp_path / "r.jsonl"
    runs = [tiny_run(seed=seed, steps=60, evaluate_every=20) for seed in range(4)]
    plain = json.dumps([run.to_dict() for run in runs])
    ended = subprocess.run([sys.executable, "-c", KILLED, str(path), plain, str(workers)])
    assert ended.returncode == -signal.SIGKILL
    file = ResultFile(path)
    done = file.keys()
    assert 1 <= len(done) < 4
    with path.open("ab") as handle:  # what a kill in the middle of a write leaves
        handle.write(b'{"key": "abc", "metr')
    train_runs(runs, file, QUIET)
    keys = [one["key"] for one in file.records()]
    assert sorted(keys) == sorted(run.key for run in runs)
    alone = train_runs([runs[3]], options=QUIET)[0]
    assert next(one for one in file.records() if one["seed"] == 3)["metrics"] == alone["metrics"]


def test_workers_end_when_their_parent_is_killed(tmp_path):
    """A script without a guarded ``__main__`` starts them; one tells its number while it trains."""
    script = tmp_path / "script.py"
    script.write_text(
        "import json, multiprocessing, sys\n"
        "from coefdyn.lab.training import RunConfig, RunOptions, train_runs\n"
        "runs = [RunConfig.from_dict(values) for values in json.loads(sys.argv[1])]\n"
        "def tell():\n"
        "    print(*[one.pid for one in multiprocessing.active_children()], flush=True)\n"
        "train_runs(runs, options=RunOptions(device='cpu', workers=2, should_stop=tell))\n"
    )
    long = json.dumps([tiny_run(seed=seed, steps=10**6).to_dict() for seed in (0, 1)])
    parent = subprocess.Popen(
        [sys.executable, str(script), long], stdout=subprocess.PIPE, text=True
    )
    workers = [int(word) for word in parent.stdout.readline().split()]
    assert len(workers) == 2 and all(_running(one) for one in workers)
    parent.kill()
    parent.wait()
    parent.stdout.close()
    deadline = time.monotonic() + 60
    while any(_running(one) for one in workers):
        assert time.monotonic() < deadline, "a worker outlived its parent"
        time.sleep(0.05)


def _running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
        with open(f"/proc/{pid}/stat") as handle:
            return handle.read().split()[2] != "Z"
    except (ProcessLookupError, FileNotFoundError):
        return False


def test_the_budget_starts_no_further_run():
    records = train_runs(
        [tiny_run(seed=seed) for seed in range(3)],
        options=RunOptions(device="cpu", workers=1, progress=False, budget_s=0.0),
    )
    assert records == []


@pytest.mark.parametrize("workers", ONE_OR_TWO)
def test_stop_really_stops(workers):
    started = time.monotonic()
    options = RunOptions(
        device="cpu",
        workers=workers,
        progress=False,
        should_stop=lambda: time.monotonic() - started > 0.2,
    )
    with pytest.raises(Stopped):
        train_runs([tiny_run(seed=seed, steps=100_000) for seed in (0, 1)], options=options)
    assert time.monotonic() - started < 30


def test_a_full_disk_ends_the_call_and_a_later_call_goes_on(tmp_path):
    blocked = tmp_path / "blocked"
    blocked.write_text("")
    file = ResultFile(blocked / "r.jsonl")
    with pytest.raises(ResultsNotWritten):
        train_runs([tiny_run()], file, QUIET)
    blocked.unlink()
    assert len(train_runs([tiny_run()], file, QUIET)) == 1


def test_extra_entries_reach_the_file(tmp_path):
    file, run = ResultFile(tmp_path / "r.jsonl"), tiny_run()
    options = RunOptions(
        device="cpu", workers=1, progress=False, extra=lambda key: {"experiment": "x", "of": key}
    )
    train_runs([run], file, options)
    assert file.records()[0]["of"] == run.key


def test_a_run_that_fails_three_times_is_told_with_its_traceback_and_the_others_go_on(tmp_path):
    runs = [tiny_run(model=tiny_model(n_heads=3)), *(tiny_run(seed=seed) for seed in range(3))]
    file, two = ResultFile(tmp_path / "r.jsonl"), replace(QUIET, workers=2)
    with pytest.raises(WorkerFailed, match="not a multiple of n_heads=3") as told:
        train_runs(runs, file, two)
    assert f"run {runs[0].key} failed 3 times" in str(told.value)
    assert "Traceback" in str(told.value)
    assert file.keys() == {run.key for run in runs[1:]}


def test_a_worker_that_is_killed_loses_nothing_but_its_run_which_another_trains(tmp_path):
    runs, killed = [tiny_run(seed=seed, steps=60) for seed in range(3)], []

    def kill_the_first_that_trains():
        if not killed:
            for child in multiprocessing.active_children():
                child.kill()
                killed.append(child.pid)
        return False

    two = replace(QUIET, workers=2, should_stop=kill_the_first_that_trains)
    records = train_runs(runs, ResultFile(tmp_path / "r.jsonl"), two)
    assert killed
    assert [one["metrics"] for one in records] == [train_run(run)["metrics"] for run in runs]
    assert len(ResultFile(tmp_path / "r.jsonl").records()) == 3


@pytest.mark.parametrize("workers", ONE_OR_TWO)
def test_stopped_runs_go_on_from_their_checkpoints(tmp_path, workers):
    """In this process or in workers: what a stop left is read, and gone when the run is done."""
    runs, looks = [tiny_run(seed=seed) for seed in (0, 1)], iter([False] * 7 + [True])
    kept = replace(QUIET, checkpoint_folder=tmp_path)
    with pytest.raises(Stopped, match="step 8 of 12"):
        train_runs(runs, options=replace(kept, should_stop=lambda: next(looks)))
    (path,) = tmp_path.glob("*.safetensors")
    assert path.stem == runs[0].key
    again = replace(kept, workers=workers)
    whole = path.read_bytes()
    path.write_bytes(whole[:-1])
    with pytest.raises((ValueError, WorkerFailed), match="is not a readable safetensors file"):
        train_runs(runs, options=again)
    path.write_bytes(whole)
    records = train_runs(runs, options=again)
    assert not list(tmp_path.glob("*.safetensors"))
    assert [one["metrics"] for one in records] == [train_run(run)["metrics"] for run in runs]


@pytest.mark.parametrize("workers", ONE_OR_TWO)
def test_processes_apply_the_method_that_was_asked_for(workers):
    """A method that does not exist is refused by the processes, as it is in this one."""
    runs = [tiny_run(seed=seed) for seed in range(2)]
    options = RunOptions(device="cpu", workers=workers, method="nope", progress=False)
    with pytest.raises((ValueError, WorkerFailed), match="nope"):
        train_runs(runs, options=options)
