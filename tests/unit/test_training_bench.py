"""The bench's runs in a kernel: what the figure asks, the answers, and the library's own run."""

from __future__ import annotations

import json
from typing import Any

import pytest
import torch

from coefdyn.lab.bench import TrainingBench
from coefdyn.lab.bench.kernel_run import KernelRun
from coefdyn.lab.tasks import config_from_dict
from coefdyn.lab.train.offers import EVERY, SIZE, contests
from coefdyn.lab.training import RunConfig, TrainConfig, train_group
from coefdyn.models import ModelConfig

LOOK = {"layer": 2, "head": 3, "sequence": 4}
FADING = {"evolution": "constant", "constant": 0.7}


def start(design: dict[str, Any] = FADING, **more: Any) -> KernelRun:
    given = {"size": SIZE, "positions": "none", "seed": 1, "rate": 1e-2, **more}
    return KernelRun(task=contests()["noisy-recall"]["config"], design=design, **given)


def ask(run: KernelRun, kind: str, *files: bytes, **more: Any) -> tuple[dict[str, Any], list]:
    told, made = run.answer({"kind": kind, "look": LOOK, **more}, list(files))
    json.dumps(told, allow_nan=False)  # what a message to the page has to be
    return told, made


def test_a_run_is_the_librarys() -> None:
    """The same losses on the test set as `train_group` at a constant learning rate."""
    run = start()
    told, _ = ask(run, "work", count=2 * EVERY)
    config = RunConfig(
        task=config_from_dict(contests()["noisy-recall"]["config"]),
        model=ModelConfig(width=32, layers=2, mlp=64, options={**FADING, "n_heads": 4}),
        train=TrainConfig(
            steps=2 * EVERY,
            batch=16,
            learning_rate=1e-2,
            schedule="constant",
            warmup=20,
            evaluate_every=EVERY,
        ),
        seed=1,
    )
    (record,) = train_group([config])
    assert [mark["t"] for mark in told["marks"]] == [EVERY, 2 * EVERY]
    losses = [mark["loss"] for mark in told["marks"]]
    assert losses == pytest.approx(record["metrics"]["loss"], rel=1e-3)
    assert len(told["losses"]) == told["t"] == 2 * EVERY
    assert told["losses"][-1] < 0.8 * told["losses"][0]


def test_it_begins_untrained_and_shows_what_is_looked_at() -> None:
    told, _ = ask(start(), "start")
    length = told["look"]["length"]
    assert (told["t"], len(told["marks"]), told["trouble"]) == (0, 1, None)
    matrix = torch.tensor(told["look"]["matrix"]).view(length, length)
    torch.testing.assert_close(matrix.sum(-1), torch.ones(length))
    assert matrix.triu(1).abs().max() == 0
    assert len(told["marks"][0]["bytes"]) == 2 * 4 * length * (length + 1) // 2
    other, _ = start().answer({"kind": "look", "look": {**LOOK, "head": 1}}, [])
    assert other["look"]["matrix"] != told["look"]["matrix"]
    assert other["look"]["inputs"] == told["look"]["inputs"]


def test_weights_go_out_and_come_back() -> None:
    pytest.importorskip("safetensors")
    run, other = start(), start(seed=2)
    ask(run, "work", count=3)
    _, (file,) = ask(run, "save", notes={"task": "noisy-recall"})
    notes, _ = ask(other, "notes", file)
    assert notes["notes"] == {"task": "noisy-recall", "step": "3"}
    told, _ = ask(other, "load", file)
    assert told["t"] == 3
    for name, weight in run.model.state_dict().items():
        assert torch.equal(weight, other.model.state_dict()[name])
    with pytest.raises(ValueError, match="another design or size"):
        ask(start({"evolution": "scalar"}), "load", file)
    with pytest.raises(ValueError, match="no safetensors file"):
        ask(other, "load", b"no weights")


def test_a_number_beyond_float32_ends_the_run_with_its_place() -> None:
    grown = {"evolution": "constant", "constant": 1.2, "normalizer": "one", "scaling": 20.0}
    run = start(grown, rate=3e-2)
    told, _ = ask(run, "work", count=100)
    assert told["trouble"]["t"] == told["t"] + 1 < 100
    assert told["trouble"]["part"] in ("coefficients", "gradient")
    again, _ = ask(run, "work", count=5)
    assert again["t"] == told["t"] and again["losses"] == []


def test_a_question_that_no_run_knows_is_refused() -> None:
    with pytest.raises(ValueError, match="'dance'"):
        start().answer({"kind": "dance", "look": LOOK}, [b""])


def test_the_bench_answers_each_lane_and_forgets_those_that_ended(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bench = TrainingBench("gla")
    assert bench.kernel is True
    told: list[dict[str, Any]] = []
    monkeypatch.setattr(bench, "send", lambda content, buffers=None: told.append(content))
    run = {"task": contests()["parity"]["config"], "design": {}, "size": SIZE, "rate": 1e-2}
    begin = {"kind": "start", "look": LOOK, "run": {**run, "positions": "none", "seed": 0}}

    def hear(**message: Any) -> None:
        bench._hear(bench, message, [])

    hear(lane="a", **begin)
    hear(lane="b", **{**begin, "run": {**begin["run"], "design": {"readout": "epx"}}})
    bench._thread.submit(int).result()
    hear(lane="a", kind="work", count=2, look=LOOK)
    bench._thread.submit(int).result()
    hear(lane="a", kind="end")
    hear(lane="a", kind="work", count=2, look=LOOK)
    bench._thread.submit(int).result()
    assert [(one["lane"], one["kind"], one.get("t")) for one in told] == [
        ("a", "start", 0),
        ("b", "start", None),
        ("a", "work", 2),
    ]
    assert "did you mean 'exp'" in told[1]["error"]
