"""The training bench as Python objects: its buttons are pressed, its threads are waited for."""

from __future__ import annotations

import time

import pytest
import torch

from coefdyn.lab.bench import TrainingBench
from coefdyn.lab.bench.trial import EVOLUTIONS, NORMALIZERS, READOUTS, SCALINGS, TASKS, Choices
from coefdyn.lab.films import TrainingFilm
from coefdyn.lab.films.film import Film
from coefdyn.lab.training import TrainOptions, train_group

PATIENCE_S = 60.0


def _bench(**choices: object) -> TrainingBench:
    return TrainingBench(Choices(**{"size": "tiny", "steps": 4, "seed": 1, **choices}))


def _train(bench: TrainingBench) -> None:
    bench.buttons["train"].click()
    assert bench.wait(PATIENCE_S)


@pytest.fixture(scope="module")
def trained() -> TrainingBench:
    """Two finished trials that differ in A_t."""
    bench = _bench()
    _train(bench)
    bench.controls["evolution"].value = "identity"
    _train(bench)
    return bench


def test_the_button_trains_and_everything_moves(trained: TrainingBench) -> None:
    first, second = trained.trials
    assert (first.state, second.state) == ("finished", "finished")
    assert first.steps == [0, 1, 2, 3, 4]
    assert first.loss[-1] < first.loss[0]
    assert first.coefficients.shape == (2, 2, 31, 31)
    assert trained.bar.value == trained.bar.max == 4
    assert "finished at step 4 of 4" in trained.words.value
    assert f"test accuracy {second.accuracy[-1]:.3f}" in trained.words.value
    assert bytes(trained.picture.value[:4]) == b"\x89PNG"
    assert not trained.buttons["train"].disabled
    assert trained.buttons["stop"].disabled


def test_it_trains_what_train_group_trains(trained: TrainingBench) -> None:
    (record,) = train_group([trained.trials[0].choices.config()], TrainOptions())
    assert trained.trials[0].accuracy[1:] == record["metrics"]["accuracy"]
    assert trained.trials[0].loss[1:] == record["metrics"]["loss"]


def test_another_head_is_another_picture(trained: TrainingBench) -> None:
    before = trained.picture.value
    trained.controls["head"].value = 2
    assert trained.picture.value != before


def test_finished_trials_become_a_film(trained: TrainingBench) -> None:
    film = trained.film()
    assert isinstance(film, TrainingFilm)
    assert [run["name"] for run in film.film["runs"]] == [
        "A 0.85 I, exp, eta row_sum, b inverse_sqrt",
        "A identity, exp, eta row_sum, b inverse_sqrt",
    ]
    assert repr(trained) == "TrainingBench(2 trials)"


def test_stop_really_stops() -> None:
    bench = _bench(steps=5_000)
    bench.buttons["train"].click()
    trial, patience = bench.trials[-1], time.monotonic() + PATIENCE_S
    while trial.done < 2 and time.monotonic() < patience:
        time.sleep(0.01)
    bench.train()
    assert "training already" in bench.words.value or trial.state != "running"
    bench.buttons["stop"].click()
    assert bench.wait(PATIENCE_S)
    assert trial.state == "stopped"
    assert not trial._thread.is_alive()
    done = trial.done
    time.sleep(0.2)
    assert 2 <= trial.done == done < 5_000
    assert not bench.buttons["train"].disabled
    with pytest.raises(ValueError, match="needs a finished trial"):
        bench.film()
    bench.buttons["clear"].click()
    assert bench.trials == []
    assert bench.picture.value == b""


def test_errors_are_said_in_words(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = _bench()

    def broken(*args: object, **kwargs: object) -> None:
        raise ValueError("b_j must be positive, got -1.")

    monkeypatch.setattr("coefdyn.lab.bench.trial.record_run", broken)
    _train(bench)
    assert bench.trials[-1].state == "failed"
    assert "failed at step 0 of 4. ValueError: b_j must be positive" in bench.words.value
    assert not bench.buttons["train"].disabled


def test_choices_that_do_not_exist_are_told() -> None:
    with pytest.raises(ValueError, match="did you mean 'softplus'"):
        TrainingBench(Choices(readout="softpluss"))
    with pytest.raises(ValueError, match="steps must lie between 1 and 5000, got 0"):
        TrainingBench(Choices(steps=0))


@pytest.mark.parametrize("task", TASKS)
def test_every_task_fits_a_film(task: str) -> None:
    assert Choices(task=task).config().task.input_length <= 64


def test_every_design_builds() -> None:
    from coefdyn.lab.training import build_model

    for name, known in (
        ("evolution", EVOLUTIONS),
        ("readout", tuple(READOUTS)),
        ("normalizer", NORMALIZERS),
        ("scaling", SCALINGS),
        ("position", ("none", "rotary", "learned")),
    ):
        for one in known:
            config = Choices(**{name: one}, size="tiny").config()
            tokens = torch.zeros(1, config.task.input_length, dtype=torch.int64)
            logits = build_model(config)(tokens)
            assert logits.shape[:2] == tokens.shape, (name, one)


def test_films_of_different_seeds_are_refused(trained: TrainingBench) -> None:
    other = _bench(seed=2)
    other.trials = [*trained.trials, *trained.trials[:1]]
    assert len(other.film().film["runs"]) == 3
    bench = _bench(steps=2)
    _train(bench)
    bench.trials += trained.trials
    with pytest.raises(ValueError, match="equal task, size, seed and steps"):
        bench.film()


def test_a_film_of_the_bench_can_be_kept(trained: TrainingBench, tmp_path) -> None:
    from coefdyn.lab.bench.trial import film_of

    film_of(trained.trials).save(tmp_path / "mine.json")
    assert Film.load(tmp_path / "mine.json").steps == (0, 1, 2, 3, 4)
