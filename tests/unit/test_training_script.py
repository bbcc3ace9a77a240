"""The script that trains on a GPU, driven on the CPU: arguments, budget, resume, failures."""

from __future__ import annotations

import importlib.util
import json
import time
from pathlib import Path

import pytest
import torch
from training_runs import TASK, tiny_model

from coefdyn.lab.experiments.plan import Plan, Variant
from coefdyn.lab.experiments.principle_3 import EXPERIMENT
from coefdyn.lab.training import TrainConfig

SCRIPT = Path(__file__).parents[1] / "gpu" / "training.py"


@pytest.fixture
def script():
    spec = importlib.util.spec_from_file_location("gpu_training", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def arguments(tmp_path, monkeypatch):
    """A figure of two variants and two seeds that trains in a moment."""
    variants = [
        Variant(
            facets={"readout": phi, "evolution": "identity", "position": "none"},
            task=TASK,
            model=tiny_model(readout=phi),
        )
        for phi in ("exp", "relu")
    ]
    train = TrainConfig(steps=6, batch=16, evaluate_every=3, stop_accuracy=None)
    plan = Plan(variants=tuple(variants), train=train, learning_rates=(1e-3,), seeds=(0, 1))
    monkeypatch.setitem(EXPERIMENT.plans, "paper", lambda: plan)
    names = {"table": "table.json", "out": "results", "checkpoints": "checkpoints"}
    paths = [part for name, file in names.items() for part in (f"--{name}", str(tmp_path / file))]
    return [*paths, "--device", "cpu", "--steps", "2", "--runs", "2", "--no-compile"]


def two_ways(calls, broken=()):
    def make(name):
        def way():
            calls.append(name)
            time.sleep(0.01)
            if name in broken:
                raise RuntimeError("no room")

        return name, way

    return lambda device, *, steps, runs, compiled: [make("alone"), make("processes")]


def test_the_figure_goes_on_where_a_spent_budget_stopped_it(script, arguments, tmp_path, capsys):
    figure = [*arguments, "--only", "figure"]
    assert script.main([*figure, "--budget", "0"]) == 0
    assert "run again" in capsys.readouterr().out
    assert script.main(figure) == 0
    assert capsys.readouterr().out.endswith("done\n")
    lines = (tmp_path / "results" / "principle-3" / "paper.jsonl").read_text().splitlines()
    assert len({json.loads(line)["key"] for line in lines}) == len(lines) == 4
    assert script.main(figure) == 0
    again = (tmp_path / "results" / "principle-3" / "paper.jsonl").read_text().splitlines()
    assert again == lines


def test_the_table_keeps_what_was_timed_and_tries_again_what_failed(
    script, arguments, tmp_path, monkeypatch, capsys
):
    table, calls = [*arguments, "--only", "throughput"], []
    monkeypatch.setattr(script, "ways", two_ways(calls, broken=("processes",)))
    assert script.main([*table, "--budget", "-1"]) == 0
    assert calls == []
    assert script.main(table) == 1
    content = json.loads((tmp_path / "table.json").read_text())
    assert content["failed"] == {"processes": "RuntimeError: no room"}
    monkeypatch.setattr(script, "ways", two_ways(calls))
    assert script.main(table) == 0
    assert calls == ["alone", "processes", "processes"]
    assert "factor" in capsys.readouterr().out
    content = json.loads((tmp_path / "table.json").read_text())
    assert set(content["seconds"]) == {"alone", "processes"}
    assert content["failed"] == {}
    assert content["provenance"]["torch"] == torch.__version__


def test_another_setting_begins_another_table(script, arguments, monkeypatch):
    table, calls = [*arguments, "--only", "throughput"], []
    monkeypatch.setattr(script, "ways", two_ways(calls))
    script.main(table)
    script.main([*table, "--steps", "3"])
    assert calls == ["alone", "processes"] * 2


def test_without_a_gpu_it_says_so(script, capsys, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert script.main([]) == 2
    assert "needs a CUDA device" in capsys.readouterr().out
