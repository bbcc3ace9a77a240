"""The loop: divergence is a result, runs resume exactly, records hold what they say."""

from __future__ import annotations

import json
import math
from collections import OrderedDict
from dataclasses import replace
from functools import partial

import pytest
import torch
from passed import RUNS
from training_runs import TASK, tiny_model, tiny_run

from coefdyn.lab.tasks import ParityConfig
from coefdyn.lab.training import (
    RunConfig,
    Stopped,
    TrainConfig,
    TrainOptions,
    build_model,
    compiled,
    loop,
    train_run,
)
from coefdyn.lab.training.checkpoint import load_checkpoint, save_checkpoint
from coefdyn.lab.training.diagnostics import run_diagnostics
from coefdyn.models import SequenceModel

MACHINE_CODE = pytest.mark.nightly(
    "aot_eager, and test_a_compiled_model_has_the_logits_of_the_model"
)


def test_seeds_differ():
    first, other = (train_run(tiny_run(seed=seed, steps=2)) for seed in (0, 1))
    assert other["metrics"]["loss"] != first["metrics"]["loss"]


def test_training_leaves_the_global_random_state_alone():
    torch.manual_seed(3)
    expected = torch.rand(2)
    torch.manual_seed(3)
    train_run(tiny_run(steps=2))
    assert torch.rand(2).equal(expected)


def test_training_lowers_the_loss():
    record = train_run(tiny_run(steps=60, evaluate_every=20, learning_rate=1e-2))
    losses = record["metrics"]["train_loss"]
    assert losses[-1] < losses[0] - 0.1


def test_divergence_is_recorded_with_its_step():
    """A growing A_t with exp and eta = 1 overflows (Principle 6); the row sum keeps it finite."""
    growing = {"evolution": "constant", "constant": 30.0, "scaling": "one"}
    run = tiny_run(model=tiny_model(normalizer="one", **growing), learning_rate=0.1)
    record = train_run(run)
    assert 1 <= record["diverged_at"] <= 12
    assert record["steps_done"] == record["diverged_at"]
    json.dumps(record, allow_nan=False)
    fine = train_run(tiny_run(model=tiny_model(normalizer="row_sum", **growing)))
    assert fine["diverged_at"] is None
    assert fine["steps_done"] == 12


def test_the_divergence_step_is_the_first_bad_one(monkeypatch):
    """The loss of step 5 is NaN: the run ends with the evaluation at 6, with step 4's weights."""
    calls, seen = [], []
    plain = loop.masked_loss

    def poisoned(logits, targets):
        calls.append(1)
        return plain(logits, targets) * (math.nan if len(calls) == 5 else 1.0)

    def look(step, row, model):
        seen.append((step, [one.detach().clone() for one in model.parameters()]))

    options = TrainOptions(on_evaluation=look)
    monkeypatch.setattr(loop, "masked_loss", poisoned)
    record = train_run(tiny_run(), options)
    assert record["diverged_at"] == record["steps_done"] == 5
    assert record["metrics"]["step"] == [6] and len(calls) == 5
    monkeypatch.undo()
    train_run(tiny_run(evaluate_every=4), options)
    assert [step for step, _ in seen[:2]] == [6, 4]
    assert all(a.equal(b) for a, b in zip(seen[0][1], seen[1][1], strict=True))


def test_a_solved_run_ends_early():
    record = train_run(tiny_run(stop_accuracy=-1.0))
    assert record["solved"]
    assert record["steps_done"] == 6


def test_records_hold_provenance_and_curves():
    record = train_run(tiny_run())
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
        train_run(run, options(on_step=lambda done, total: done == 9))
    assert path.exists()
    steps = []
    resumed = train_run(run, options(on_step=lambda done, total: steps.append(done)))
    assert steps[0] == 10
    assert not path.exists()
    whole = train_run(run)
    assert resumed["metrics"] == whole["metrics"]


def test_a_checkpoint_of_another_run_is_refused_and_kept(tmp_path):
    path = tmp_path / "run.safetensors"
    with pytest.raises(Stopped):
        train_run(
            tiny_run(seed=1),
            TrainOptions(checkpoint=path, checkpoint_every=4, on_step=lambda d, n: d == 5),
        )
    held = path.read_bytes()
    with pytest.raises(ValueError, match=rf"holds the run {tiny_run(seed=1).key} and not"):
        train_run(tiny_run(), TrainOptions(checkpoint=path))
    assert path.read_bytes() == held


@pytest.mark.parametrize("harm", ["step", "tensor", "shape"])
def test_a_checkpoint_that_lacks_something_is_told(tmp_path, harm):
    """A note, a tensor, or numbers: in words that name the file, which stays."""
    run, path = tiny_run(), tmp_path / "run.safetensors"
    options = TrainOptions(checkpoint=path, on_step=lambda done, total: done == 5)
    with pytest.raises(Stopped):
        train_run(run, options)
    tensors, notes = load_checkpoint(path)
    if harm == "step":
        notes["state"] = notes["state"].replace("step", "stop")
    elif harm == "tensor":
        del tensors[min(tensors)]
    else:
        tensors = {name: tensor.flatten()[:0] for name, tensor in tensors.items()}
    save_checkpoint(path, tensors, notes)
    with pytest.raises(ValueError, match=r"run\.safetensors is damaged .* delete it"):
        train_run(run, TrainOptions(checkpoint=path))
    assert path.exists()


def test_checkpoints_without_safetensors_are_refused_before_the_first_step(tmp_path, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    steps = []
    options = TrainOptions(checkpoint=tmp_path / "r", on_step=lambda *done: steps.append(done))
    with pytest.raises(ImportError, match=r"coefdyn\[checkpoints\]"):
        train_run(tiny_run(), options)
    assert not steps


def test_run_configs_survive_json_and_name_misspelt_keys():
    run = tiny_run(betas=(0.9, 0.95))
    values = json.loads(json.dumps(run.to_dict()))
    assert RunConfig.from_dict(values) == run
    assert RunConfig.from_dict(values).key == run.key
    values["train"]["batchs"] = 3
    with pytest.raises(ValueError, match="did you mean 'batch'"):
        RunConfig.from_dict(values)


def test_keys_tell_runs_apart():
    run = tiny_run()
    others = [
        tiny_run(seed=1),
        tiny_run(learning_rate=0.5),
        tiny_run(model=tiny_model(readout="relu")),
        replace(run, task=replace(run.task, test_examples=16)),
    ]
    assert len({one.key for one in (run, *others)}) == 5
    assert replace(run, method="chunked").key == run.key, "rounding only"


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
        train_run(tiny_run(batch=65))


def test_diagnostics_are_those_of_the_definition():
    run = RunConfig(
        task=TASK,
        model=tiny_model(readout="relu"),
        train=TrainConfig(steps=2, batch=16),
        diagnostics=("near_zero_fraction", "large_to_near_zero", "zero_counts"),
    )
    record = train_run(run)
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


@pytest.mark.parametrize("mode", ["fast", "compile"])
def test_modes_that_cannot_be_met_raise(mode):
    with pytest.raises(ValueError, match="mode"):
        train_run(tiny_run(), TrainOptions(mode=mode))


@pytest.mark.compile
@pytest.mark.reads(RUNS)
@pytest.mark.dear("torch.compile traces and lowers the steps of two models")
@pytest.mark.parametrize(
    ("method", "other", "backend"),
    [
        ("chunked", {"mixer": "Mamba2"}, "aot_eager"),
        pytest.param("chunked", {"mixer": "Mamba2"}, "inductor", marks=MACHINE_CODE),
        pytest.param("parallel", {"readout": "relu"}, "inductor", marks=MACHINE_CODE),
    ],
)
def test_the_compiled_step_gives_the_same_numbers(method, other, backend, monkeypatch):
    """Equal models share what was compiled, and others do not: torch takes ReLU's step for exp's.

    Chunk by chunk the kernels have backward passes of their own.
    """
    monkeypatch.setattr(torch, "compile", partial(torch.compile, backend=backend))
    runs = [
        tiny_run(seed=seed, model=model, precision="float64", steps=4)
        for model in (tiny_model(layers=1, mlp=None), tiny_model(layers=1, mlp=None, **other))
        for seed in (0, 1)
    ]
    monkeypatch.setattr(compiled, "_COMPILED", OrderedDict())
    for run in runs:
        found = train_run(run, TrainOptions(mode="compiled", method=method))
        plain = train_run(run, TrainOptions(method=method))
        assert found["mode"] == "compiled"
        assert found["final"]["loss"] == pytest.approx(plain["final"]["loss"], rel=1e-9)
    assert len(compiled._COMPILED) == 2


def test_losses_are_summed_in_float32_under_bfloat16():
    """A bfloat16 loss has three digits; perplexities of Table 3 differ in the third."""
    loss = loop.ModelLoss(build_model(tiny_run()), "parallel", "bfloat16")
    tokens = torch.zeros(1, 11, dtype=torch.int64)
    assert loss.logits(tokens).dtype == torch.float32
    loss(tokens, tokens).backward()
    assert {one.grad.dtype for one in loss.parameters()} == {torch.float32}


def test_weight_decay_leaves_alone_what_a_mixer_exempts():
    model = build_model(tiny_run(model=tiny_model(mixer="Mamba2")))
    exempt = model.no_weight_decay_names()
    decayed, others = loop._optimizer(model, TrainConfig(steps=1, weight_decay=0.1)).param_groups
    assert exempt and len(others["params"]) == len(exempt)
    assert (decayed["weight_decay"], others["weight_decay"]) == (0.1, 0.0)
    held = {id(one) for one in others["params"]}
    assert held == {id(one) for name, one in model.named_parameters() if name in exempt}


def test_with_a_validation_split_the_test_split_is_looked_at_once(monkeypatch):
    looked = []
    measure = loop._Run._measure

    def spy(run, split):
        looked.append(split)
        return measure(run, split)

    monkeypatch.setattr(loop._Run, "_measure", spy)
    record = train_run(tiny_run(validation=16))
    assert looked == ["validation", "validation", "test"]
    assert record["validation"]["accuracy"] == record["metrics"]["accuracy"][-1]
    assert record["validation"]["loss"] != record["final"]["loss"], "other sequences"
    plain = train_run(tiny_run())
    assert "validation" not in plain
    assert plain["final"]["loss"] == pytest.approx(record["final"]["loss"]), "the same weights"
