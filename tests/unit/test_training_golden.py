"""The loop against 20 steps of the one before it, and new records against themselves."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from passed import RUNS as PLACES
from training_runs import tiny_model, tiny_run

from coefdyn.lab.training import (
    ResultFile,
    RunConfig,
    RunOptions,
    TrainOptions,
    train_run,
    train_runs,
)

pytestmark = [
    pytest.mark.dear("whole runs are trained, here and in a worker process"),
    pytest.mark.reads(f"{PLACES} tests/golden/training_loop.json"),
]

#: losses, gradient norms and weights of the loop that trained the records kept before this one: one
#: flat row per run, an AdamW of its own; commit and torch stand in the file
GOLDEN = json.loads((Path(__file__).parents[1] / "golden" / "training_loop.json").read_text())
NIGHTLY = pytest.mark.nightly("the same here, and test_a_worker_that_is_killed_loses_nothing")
MIXERS = ("GatedDeltaNet", "SoftmaxAttention", "Mamba2", "MLSTM")
WHERE = [("GatedDeltaNet", False), *(pytest.param(one, True, marks=NIGHTLY) for one in MIXERS)]


#: (task, mixer, precision) -> the run
RUNS = {
    (run["task"]["task"], run["model"]["mixer"], run["train"]["precision"]): one
    for one in GOLDEN["runs"]
    for run in [one["config"]]
}


@pytest.mark.parametrize(("task", "mixer", "precision"), RUNS)
def test_twenty_steps_agree_with_the_loop_before(task, mixer, precision):
    """Warm-up, decay, clipping and MAD's plateaus: 1e-12 in float64, 1e-4 in float32.

    Initial weights are drawn in float32, and processors differ in the last bit of exp and log. In
    twenty steps this grows to 1.5e-5 (measured with AVX512, AVX2 and neither), as does the rounding
    of a float32 run; a float64 run must agree to 1e-12 where its first loss does to 1e-14.
    """
    golden = RUNS[task, mixer, precision]
    run, seen, weights = RunConfig.from_dict(golden["config"]), [], []

    def look(step, row, model):
        seen.append(row)
        weights[:] = [torch.cat([one.detach().flatten() for one in model.parameters()]).double()]

    train_run(run, TrainOptions(on_evaluation=look))
    losses = [row["train_loss"] for row in seen]
    exact = run.train.precision == "float64" and losses[0] == pytest.approx(
        golden["losses"][0], rel=1e-14
    )
    limit = 1e-12 if exact else 1e-4
    assert losses == pytest.approx(golden["losses"], rel=limit)
    assert [row["loss"] for row in seen] == pytest.approx(golden["test_losses"], rel=limit)
    assert weights[0][::97].tolist() == pytest.approx(golden["every_97th_parameter"], abs=limit)
    accuracies = [row["accuracy"] for row in seen]
    assert accuracies == pytest.approx(golden["accuracies"], abs=0 if exact else 0.005)
    if exact:  # in float32 a gradient through 12 erasures keeps 3 digits
        norms = [row["gradient_norm"] for row in seen]
        assert norms == pytest.approx(golden["gradient_norms"], rel=1e-10)


KEPT = sorted((Path(__file__).parents[2] / "data" / "results").glob("*/*.jsonl"))


@pytest.mark.parametrize("path", KEPT, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_every_kept_run_is_found_under_its_key(path):
    """Their keys hash the configuration: a field that is added or goes must not rename a run."""
    records = ResultFile(path).records()
    assert records
    for record in records:
        if "train" in record["config"]:  # what measures times alone has none
            run = RunConfig.from_dict(record["config"])
            assert run.key == record["key"]
            assert run.matches(record)


def numbers(record: dict) -> dict:
    """A record without what differs from hour to hour."""
    return {name: one for name, one in record.items() if name not in ("wall_s", "timestamp")}


@pytest.mark.parametrize(("mixer", "in_workers"), WHERE)
def test_a_run_repeats_to_the_last_digit_here_and_in_a_worker(mixer, in_workers):
    """Whatever threads and default dtype the caller has; diagnostics and validation included."""
    runs = [
        replace(
            tiny_run(seed=seed, model=tiny_model(mixer=mixer), validation=16),
            diagnostics=("near_zero_fraction", "moduli"),
        )
        for seed in (0, 1)
    ]
    first = [numbers(train_run(run)) for run in runs]
    torch.set_default_dtype(torch.float64)
    torch.set_num_threads(2)
    assert numbers(train_run(runs[0])) == first[0]
    workers = RunOptions(device="cpu", workers=2 if in_workers else 1, progress=False)
    assert [numbers(one) for one in train_runs(runs, options=workers)] == first
