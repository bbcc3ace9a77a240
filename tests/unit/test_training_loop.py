"""The loop: replicas equal single runs, divergence is a result, runs repeat and resume exactly."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import pytest
import torch
from training_runs import TASK, tiny_model, tiny_run

from coefdyn.lab.tasks import ParityConfig
from coefdyn.lab.training import (
    RunConfig,
    Stopped,
    TrainConfig,
    TrainOptions,
    build_model,
    loop,
    step,
    train_group,
)
from coefdyn.lab.training.checkpoint import load_checkpoint, save_checkpoint
from coefdyn.lab.training.diagnostics import run_diagnostics
from coefdyn.lab.training.step import Stepper
from coefdyn.models import SequenceModel

SETTINGS = ((1e-3, 0.0, 0), (3e-3, 0.1, 1), (1e-2, 0.1, 0))


def three_replicas(**model) -> list[RunConfig]:
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


@pytest.mark.parametrize(
    "model",
    [
        {"evolution": "constant", "position": "learned"},
        {"readout": "relu", "position": "rotary"},
        {"readout": "psi_elu1"},
        {"evolution": "householder_learned", "readout": "identity", "normalizer": "one",
         "block": "gated"},
    ],
)  # fmt: skip
def test_each_replica_equals_its_own_single_run(model):
    """In float64, where rounding cannot be amplified: the same numbers to 1e-9."""
    runs = three_replicas(**model)
    together = train_group(runs)
    for run, record in zip(runs, together, strict=True):
        (alone,) = train_group([run])
        assert record["key"] == alone["key"]
        for name, values in alone["metrics"].items():
            assert record["metrics"][name] == pytest.approx(values, rel=1e-9, abs=1e-9), name


@pytest.mark.parametrize("mixer", ["SoftmaxAttention", "GLA", "Mamba2", "GatedDeltaNet", "MLSTM"])
def test_every_kind_of_mixer_trains_as_replicas(mixer):
    model = tiny_model(mixer=mixer)
    runs = [tiny_run(seed=seed, model=model, precision="float64", steps=4) for seed in (0, 1)]
    for run, record in zip(runs, train_group(runs), strict=True):
        (alone,) = train_group([run])
        assert record["final"]["loss"] == pytest.approx(alone["final"]["loss"], rel=1e-9)


def test_a_run_repeats_bit_for_bit():
    first, second = (train_group([tiny_run()])[0] for _ in range(2))
    assert first["metrics"] == second["metrics"]
    other = train_group([tiny_run(seed=1)])[0]
    assert other["metrics"]["loss"] != first["metrics"]["loss"]


def test_training_leaves_the_global_random_state_alone():
    torch.manual_seed(3)
    expected = torch.rand(2)
    torch.manual_seed(3)
    train_group([tiny_run(steps=2)])
    assert torch.rand(2).equal(expected)


def test_training_lowers_the_loss():
    (record,) = train_group([tiny_run(steps=60, evaluate_every=20, learning_rate=1e-2)])
    losses = record["metrics"]["train_loss"]
    assert losses[-1] < losses[0] - 0.1


def test_divergence_is_recorded_with_its_step():
    """A growing A_t with exp and eta = 1 overflows (Principle 6); the row sum keeps it finite."""
    growing = {"evolution": "constant", "constant": 30.0, "scaling": "one"}
    run = tiny_run(model=tiny_model(normalizer="one", **growing), learning_rate=0.1)
    (record,) = train_group([run])
    assert 1 <= record["diverged_at"] <= 12
    assert record["steps_done"] == record["diverged_at"]
    json.dumps(record, allow_nan=False)
    (fine,) = train_group([tiny_run(model=tiny_model(normalizer="row_sum", **growing))])
    assert fine["diverged_at"] is None
    assert fine["steps_done"] == 12


def test_one_replica_of_a_group_turns_nan_and_its_neighbours_do_not_notice():
    runs = [
        tiny_run(seed=seed, learning_rate=rate, precision="float64")
        for seed, rate in ((0, 1e-3), (1, 1e300), (2, 3e-3))
    ]
    records = train_group(runs)
    assert records[1]["diverged_at"] is not None
    assert records[1]["metrics"]["step"] == [6]
    for place in (0, 2):
        (alone,) = train_group([runs[place]])
        assert records[place]["final"] == pytest.approx(alone["final"], rel=1e-9)


def test_the_divergence_step_is_the_first_bad_one(monkeypatch):
    """Poison the loss of step 5 (1-based) and look at the books and the weights."""
    seen = {}
    plain_step = Stepper._step

    def poisoned(self, inputs, targets, rate, shrink, epsilon, t):
        good = self.ensemble.loss_and_gradients
        if int(t) == 4:

            def bad(a, b):
                losses, gradients = good(a, b)
                return losses * math.nan, gradients

            self.ensemble.loss_and_gradients = bad
            seen["before"] = self.ensemble.flat.clone()
        plain_step(self, inputs, targets, rate, shrink, epsilon, t)
        self.ensemble.loss_and_gradients = good
        seen["after"] = self.ensemble.flat.clone()

    monkeypatch.setattr(Stepper, "_step", poisoned)
    (record,) = train_group([tiny_run()])
    assert record["diverged_at"] == 5
    assert seen["after"].equal(seen["before"])


def test_a_solved_replica_ends_early():
    (record,) = train_group([tiny_run(stop_accuracy=-1.0)])
    assert record["solved"]
    assert record["steps_done"] == 6


def test_records_hold_provenance_and_curves():
    (record,) = train_group([tiny_run()])
    assert record["metrics"]["step"] == [6, 12]
    for name in ("device", "torch", "triton", "python", "revision", "timestamp", "wall_s"):
        assert record[name] not in (None, ""), name
    for name in ("train_loss", "gradient_norm", "gradient_norm_max", "loss", "perplexity"):
        assert len(record["metrics"][name]) == 2
    assert 0 <= record["final"]["accuracy"] <= 1
    assert 0 <= record["final"]["accuracy_macro"] <= 1
    assert RunConfig.from_dict(record["config"]) == tiny_run()


def test_training_goes_on_from_a_checkpoint_exactly(tmp_path):
    run, path = tiny_run(), tmp_path / "run.safetensors"

    def options(**changes):
        return TrainOptions(checkpoint=path, checkpoint_every=4, **changes)

    with pytest.raises(Stopped, match="step 9 of 12"):
        train_group([run], options(on_step=lambda done, total: done == 9))
    assert path.exists()
    steps = []
    (resumed,) = train_group([run], options(on_step=lambda done, total: steps.append(done)))
    assert steps[0] == 10
    assert not path.exists()
    (whole,) = train_group([run])
    assert resumed["metrics"] == whole["metrics"]


def test_a_checkpoint_of_another_run_is_refused_and_kept(tmp_path):
    path = tmp_path / "run.safetensors"
    with pytest.raises(Stopped):
        train_group(
            [tiny_run(seed=1)],
            TrainOptions(checkpoint=path, checkpoint_every=4, on_step=lambda d, n: d == 5),
        )
    held = path.read_bytes()
    with pytest.raises(ValueError, match=rf"holds the runs {tiny_run(seed=1).key} and not"):
        train_group([tiny_run()], TrainOptions(checkpoint=path))
    assert path.read_bytes() == held


@pytest.mark.parametrize("harm", ["step", "tensor", "shape"])
def test_a_checkpoint_that_lacks_something_is_told(tmp_path, harm):
    """A note, a tensor, or numbers: in words that name the file, which stays."""
    run, path = tiny_run(), tmp_path / "run.safetensors"
    options = TrainOptions(checkpoint=path, on_step=lambda done, total: done == 5)
    with pytest.raises(Stopped):
        train_group([run], options)
    tensors, notes = load_checkpoint(path)
    if harm == "step":
        del notes["step"]
    elif harm == "tensor":
        del tensors[min(tensors)]
    else:
        tensors = {name: tensor[:0] for name, tensor in tensors.items()}
    save_checkpoint(path, tensors, notes)
    with pytest.raises(ValueError, match=r"run\.safetensors is damaged .* delete it"):
        train_group([run], TrainOptions(checkpoint=path))
    assert path.exists()


def test_checkpoints_without_safetensors_are_refused_before_the_first_step(tmp_path, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    steps = []
    options = TrainOptions(checkpoint=tmp_path / "r", on_step=lambda *done: steps.append(done))
    with pytest.raises(ImportError, match=r"coefdyn\[checkpoints\]"):
        train_group([tiny_run()], options)
    assert not steps


@pytest.mark.parametrize("changes", [{"steps": 13}, {"batch": 8}, {"precision": "float64"}])
def test_runs_with_other_training_settings_are_refused(changes):
    with pytest.raises(ValueError, match="use train_runs"):
        train_group([tiny_run(), tiny_run(**changes)])


def test_run_configs_survive_json_and_name_misspelt_keys():
    run = tiny_run(betas=(0.9, 0.95))
    values = json.loads(json.dumps(run.to_dict()))
    assert RunConfig.from_dict(values) == run
    assert RunConfig.from_dict(values).key == run.key
    values["train"]["batchs"] = 3
    with pytest.raises(ValueError, match="did you mean 'batch'"):
        RunConfig.from_dict(values)


def test_keys_tell_runs_apart_and_groups_join_models_and_the_sweep():
    run = tiny_run()
    assert tiny_run(seed=1).key != run.key
    assert tiny_run(seed=1).group == run.group
    assert tiny_run(learning_rate=0.5, weight_decay=0.1).group == run.group
    assert tiny_run(model=tiny_model(readout="relu")).group == run.group
    assert tiny_run(clip=1.0).group != run.group
    task = replace(run.task, test_examples=16)
    assert replace(run, task=task).group != run.group


def test_a_record_of_a_changed_default_is_not_taken_for_this_run():
    run = tiny_run()
    record = {"key": run.key, "config": run.to_dict()}
    assert run.matches(record)
    record["config"]["train"]["epsilon"] = 1e-6
    assert not run.matches(record)


@pytest.mark.parametrize(
    "bad",
    [
        {"steps": 0},
        {"warmup": -1},
        {"learning_rate": -1.0},
        {"final_learning_rate": -1.0},
        {"epsilon": -1.0},
        {"betas": (2.0, 3.0)},
        {"clip": -1.0},
        {"precision": "float8"},
        {"schedule": "step"},
    ],
)
def test_train_config_refuses(bad):
    with pytest.raises(ValueError, match=next(iter(bad))):
        TrainConfig(**{"steps": 5, **bad})


def test_a_batch_larger_than_the_data_is_refused():
    with pytest.raises(ValueError, match=f"train_examples={TASK.train_examples}"):
        train_group([tiny_run(batch=65)])


def test_diagnostics_are_those_of_the_definition():
    run = RunConfig(
        task=TASK,
        model=tiny_model(readout="relu"),
        train=TrainConfig(steps=2, batch=16),
        diagnostics=("near_zero_fraction", "large_to_near_zero", "zero_counts"),
    )
    (record,) = train_group([run])
    raw, normalized = record["diagnostics"]["raw"], record["diagnostics"]["normalized"]
    assert 0.2 < raw["near_zero_fraction"] < 0.8  # ReLU cuts about half of the scores
    assert normalized["near_zero_fraction"] <= raw["near_zero_fraction"] + 0.2
    counts = torch.tensor(raw["zero_counts"])
    assert counts.shape == (2, 2, TASK.input_length)
    assert (counts <= torch.arange(1, TASK.input_length + 1)).all()


def test_unknown_diagnostics_are_named():
    model = build_model(tiny_run())
    with pytest.raises(ValueError, match="known: near_zero_fraction"):
        run_diagnostics(["entropy"], model, torch.zeros(1, 2, dtype=torch.int64))


class CountsSoFar(SequenceModel):
    """Knows the parity of the first tokens, and afterwards says 0."""

    def __init__(self, known: int) -> None:
        torch.nn.Module.__init__(self)  # nothing of a model but its answers
        self.known = torch.nn.Parameter(torch.tensor(known), requires_grad=False)

    def forward(self, inputs):
        parity = inputs.cumsum(-1) % 2
        parity[:, self.known :] = 0
        return torch.nn.functional.one_hot(parity, 2).float()


@pytest.mark.parametrize("known", [40, 30, 10, 1])
def test_accuracy_beyond_the_trained_length_is_of_four_times_as_many_tokens(known):
    inputs = torch.zeros(1, 2, dtype=torch.int64)
    model, task = CountsSoFar(known), ParityConfig(seq_len=10)
    found = run_diagnostics(("longer",), model, inputs, task=task)
    guessed = (40 - known) / 40  # and half of the guesses are right
    assert found["longer"]["accuracy"] == pytest.approx(1 - guessed / 2, abs=0.02)
    by_position = found["longer"]["by_position"]
    assert len(by_position) == 40 and by_position[:known] == [1.0] * known
    assert all(abs(share - 0.5) < 0.15 for share in by_position[known:])


def test_the_longer_sequences_need_a_task():
    with pytest.raises(ValueError, match="give it the task"):
        run_diagnostics(("longer",), CountsSoFar(1), torch.zeros(1, 2, dtype=torch.int64))


@pytest.mark.parametrize("mode", ["fast", "captured", "graph"])
def test_modes_that_cannot_be_met_raise(mode):
    with pytest.raises(ValueError, match="mode"):
        train_group([tiny_run()], TrainOptions(mode=mode))


@pytest.mark.compile
def test_the_compiled_step_gives_the_same_numbers():
    model = tiny_model(layers=1, mlp=None)
    runs = [tiny_run(seed=seed, model=model, precision="float64", steps=4) for seed in (0, 1)]
    compiled = train_group(runs, TrainOptions(mode="compiled"))
    eager = train_group(runs, TrainOptions(mode="eager"))
    for one, other in zip(compiled, eager, strict=True):
        assert one["mode"] == "compiled"
        assert one["final"]["loss"] == pytest.approx(other["final"]["loss"], rel=1e-9)


@pytest.mark.compile
def test_one_run_is_compiled_also_where_vmap_has_no_kernel():
    """Chunk by chunk, with kernels whose backward passes torch does not compile below vmap."""
    run = tiny_run(
        model=tiny_model(mixer="Mamba2", layers=1, mlp=None), precision="float64", steps=3
    )
    compiled, eager = (
        train_group([run], TrainOptions(mode=mode, method="chunked"))[0]
        for mode in ("compiled", "eager")
    )
    assert compiled["mode"] == "compiled"
    assert compiled["final"]["loss"] == pytest.approx(eager["final"]["loss"], rel=1e-9)


def test_with_a_validation_split_the_test_split_is_looked_at_once(monkeypatch):
    looked = []
    measure = loop._Group._measure

    def spy(group, split):
        looked.append(split)
        return measure(group, split)

    monkeypatch.setattr(loop._Group, "_measure", spy)
    (record,) = train_group([tiny_run(validation=16)])
    assert looked == ["validation", "validation", "test"]
    assert record["validation"]["accuracy"] == record["metrics"]["accuracy"][-1]
    assert record["validation"]["loss"] != record["final"]["loss"], "other sequences"
    (plain,) = train_group([tiny_run()])
    assert "validation" not in plain
    assert plain["final"]["loss"] == pytest.approx(record["final"]["loss"]), "the same weights"


def test_long_runs_compile_on_a_cpu_with_a_compiler(monkeypatch):
    cpu, long = torch.device("cpu"), step.COMPILING_PAYS_STEPS
    monkeypatch.setattr(step, "compiler", lambda: "/usr/bin/g++")
    assert step.default_mode(cpu, long) == "compiled"
    assert step.default_mode(cpu, long - 1) == "eager"
    monkeypatch.setattr(step, "compiler", lambda: None)
    assert step.default_mode(cpu, long) == "eager"
