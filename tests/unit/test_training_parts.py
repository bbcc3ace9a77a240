"""Optimiser, schedule, metrics, seeds, progress, checkpoints: each against its definition."""

from __future__ import annotations

import math
import platform
import subprocess
import sys

import numpy as np
import pytest
import torch
from accuracies import macro_accuracy, micro_accuracy
from torch.nn import functional
from training_runs import TASK

from coefdyn.lab.tasks import WikiTextConfig, hub_text, splits
from coefdyn.lab.training.checkpoint import load_checkpoint, save_checkpoint
from coefdyn.lab.training.data import RunData
from coefdyn.lab.training.metrics import PredictionTally, StepMeter, masked_loss
from coefdyn.lab.training.schedule import learning_rates
from coefdyn.lab.training.seeds import derive_seed, generator
from coefdyn.progress import Progress, clock_text


def test_cosine_schedule_with_warmup_is_its_formula():
    rates = learning_rates(0.1, steps=10, warmup=4, floor=0.01)
    assert len(rates) == 10
    assert rates[:4] == pytest.approx([0.025, 0.05, 0.075, 0.1])
    assert rates[7] == pytest.approx(0.01 + (0.1 - 0.01) * (1 + math.cos(math.pi * 3 / 6)) / 2)
    assert learning_rates(0.1, steps=4, warmup=1, kind="constant") == [0.1] * 4


def test_cosine_held_per_epoch_equals_torchs_scheduler():
    parameter = torch.nn.Parameter(torch.zeros(1))
    optimizer = torch.optim.SGD([parameter], lr=1e-2)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=5, eta_min=1e-6)
    expected = []
    for _ in range(5):
        expected += [optimizer.param_groups[0]["lr"]] * 3
        optimizer.step()
        scheduler.step()
    rates = learning_rates(1e-2, steps=15, floor=1e-6, steps_per_epoch=3)
    assert rates == pytest.approx(expected)


@pytest.mark.parametrize("bad", [{"kind": "linear"}, {"warmup": 5}])
def test_schedule_refuses(bad):
    with pytest.raises(ValueError, match=r"schedule|warmup"):
        learning_rates(1.0, steps=5, **bad)


def test_tally_agrees_with_the_tasks_metrics_and_with_chunks():
    torch.manual_seed(1)
    logits, targets = torch.randn(6, 5, 4), torch.randint(0, 4, (6, 5))
    targets[:, ::2] = -100
    tally = PredictionTally(4, torch.device("cpu"))
    for start in (0, 2, 4):
        tally.add(logits[start : start + 2], targets[start : start + 2])
    found, guess = tally.results(), logits.argmax(-1)
    loss = masked_loss(logits, targets).item()
    assert found["accuracy"] == pytest.approx(micro_accuracy(guess, targets).item())
    assert found["accuracy_macro"] == pytest.approx(macro_accuracy(guess, targets, 4).item())
    assert found["loss"] == pytest.approx(loss, rel=1e-6)
    assert found["perplexity"] == pytest.approx(math.exp(loss), rel=1e-6)


def test_tally_counts_nan_as_wrong():
    logits = functional.one_hot(torch.zeros(2, 3, dtype=torch.int64), 4).float()
    logits[0] = math.nan
    tally = PredictionTally(4, torch.device("cpu"))
    tally.add(logits, torch.zeros(2, 3, dtype=torch.int64))
    found = tally.results()
    assert found["accuracy"] == 0.5
    assert math.isnan(found["loss"])


def test_the_meter_counts_from_one_evaluation_to_the_next():
    meter = StepMeter()
    for loss, norm in ((1.0, 5.0), (2.0, 3.0)):
        meter.add(loss, norm)
    names = ("train_loss", "gradient_norm", "gradient_norm_max")
    assert meter.take() == dict(zip(names, (1.5, 4.0, 5.0), strict=True))
    assert all(math.isnan(value) for value in meter.take().values())


def test_seeds_differ_by_label_and_repeat():
    assert derive_seed(0, "order", 1) == derive_seed(0, "order", 1)
    assert len({derive_seed(s, "order", e) for s in range(20) for e in range(20)}) == 400
    first, second = (torch.rand(3, generator=generator(5, "x")) for _ in range(2))
    assert first.equal(second)


@pytest.mark.parametrize("seed", [3, 5])
def test_data_is_kept_small_and_handed_out_as_the_task_draws_it(seed):
    data = RunData(TASK, seed, 16, torch.device("cpu"))
    assert {tensor.dtype for tensor in (*data._train, *data._held["test"])} == {torch.int16}
    inputs, targets = data.train_batch(0)
    assert (inputs.dtype, targets.dtype) == (torch.int64, torch.int64)
    drawn = splits(TASK, seed)
    order = torch.randperm(TASK.train_examples, generator=generator(seed, "order", 0))[:16]
    assert inputs.equal(drawn.train.inputs[order])
    assert targets.equal(drawn.train.targets[order])
    shown = torch.cat([chunk[0] for chunk in data.chunks("test", 10)])
    assert shown.equal(drawn.test.inputs)


def test_an_endless_task_is_drawn_anew_at_each_step(monkeypatch):
    """130 000 steps of 8 windows of 1024 tokens: nothing is kept but the test windows."""
    text = np.arange(50_000, dtype=np.uint16)
    monkeypatch.setattr(hub_text, "wikitext_ids", lambda split: text)
    task = WikiTextConfig(train_examples=115_000, test_examples=4)
    several = [RunData(task, seed, 8, torch.device("cpu")) for seed in (0, 1)]
    starts = []
    for data in several:
        assert data._train is None
        assert data._held["test"].inputs.dtype == torch.int32
        for t in (0, 129_999):
            inputs, targets = data.train_batch(t)
            assert inputs.shape == (8, 1024)
            assert targets.equal(inputs + 1)
            starts.append(inputs[:, 0])
    assert len(torch.cat(starts).unique()) == 32
    again = RunData(task, 1, 8, torch.device("cpu")).train_batch(129_999)
    assert again[0].equal(several[1].train_batch(129_999)[0])
    assert several[0].steps_per_epoch == 115_000 // 8


def test_progress_is_quiet_without_a_terminal_and_tells_the_time_left(capsys):
    with Progress(10, "training") as bar:
        bar.update(5)
        assert "50%" in bar.line()
        assert "left" in bar.line("note")
    assert capsys.readouterr().err == ""
    assert [clock_text(s) for s in (5.0, 65.0, 3665.0)] == ["0:05", "1:05", "1:01:05"]


def test_progress_draws_on_one_line_and_takes_it_away(capsys):
    with Progress(4, "training", show=True) as bar:
        for done in range(5):
            bar.update(done)
    text = capsys.readouterr().err
    assert "100%" in text
    assert "\n" not in text
    assert text.endswith("\r")


def test_checkpoints_come_back_and_hold_no_code(tmp_path):
    path = tmp_path / "deep" / "one.safetensors"
    save_checkpoint(path, {"a": torch.arange(3.0)}, {"step": "7"})
    tensors, notes = load_checkpoint(path)
    assert tensors["a"].tolist() == [0.0, 1.0, 2.0]
    assert notes == {"step": "7"}
    assert [one.name for one in path.parent.iterdir()] == ["one.safetensors"]


def test_a_damaged_checkpoint_is_named(tmp_path):
    path = tmp_path / "one.safetensors"
    path.write_bytes(b"not a checkpoint")
    with pytest.raises(ValueError, match=r"one\.safetensors is not a readable"):
        load_checkpoint(path)
    with pytest.raises(ValueError, match="is a folder; a checkpoint is a file"):
        load_checkpoint(tmp_path)


# The process starts with every large tensor mapped anew, since what glibc does without a word
# depends on how the heap happens to lie. A median over the steps, since the kernel sometimes
# takes a huge page apart: 512 faults, once.
ALLOCATES = """
import ctypes, resource, statistics, torch
from coefdyn.lab.training.memory import keep_freed_memory
M_MMAP_THRESHOLD = -3
assert ctypes.CDLL(None).mallopt(M_MMAP_THRESHOLD, 1 << 17)
def step():
    held = [torch.zeros(megabytes << 18) for megabytes in (1, 3, 5, 7)]
    return [tensor.add(1).sum().item() for tensor in held]
def faults_so_far(): return resource.getrusage(resource.RUSAGE_SELF).ru_minflt
def faults_per_step():
    faults = []
    for _ in range(25):
        before = faults_so_far()
        step()
        faults.append(faults_so_far() - before)
    return int(statistics.median(faults[5:]))
print(faults_per_step(), keep_freed_memory(), faults_per_step())
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="asks glibc's allocator")
def test_freed_memory_is_used_again_without_a_page_fault():
    command = [sys.executable, "-c", ALLOCATES]
    told = subprocess.run(command, capture_output=True, check=True, text=True).stdout.split()
    assert told[1:] == ["True", "0"] and int(told[0]) > 1000
