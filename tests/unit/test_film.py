"""Training films: what is recorded, how it is kept, and what it says about its origin."""

from __future__ import annotations

import base64
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from book.tools.stills import still_of
from coefdyn.lab.contest.contest import coefficients_of
from coefdyn.lab.films.figure import film_still
from coefdyn.lab.films.film import Film, dequantise, films_folder, quantise
from coefdyn.lab.films.recording import FILMS, film_runs, record_film
from coefdyn.lab.films.widget import TrainingFilm, saved_film
from coefdyn.lab.tasks import NoisyRecallConfig, splits
from coefdyn.lab.training import RunConfig, Stopped, TrainConfig, TrainOptions, train_run
from coefdyn.models import ModelConfig
from coefdyn.plots import use_style

FILES = sorted(films_folder().glob("*.json"))
HEADS = 1


def _run(evolution: str = "constant", *, seed: int = 3) -> RunConfig:
    options = {"n_heads": 2, "evolution": evolution, "readout": "exp", "normalizer": "row_sum"}
    task = replace(NoisyRecallConfig.quick(), train_examples=16, test_examples=8, seq_len=16)
    return RunConfig(
        task=task,
        model=ModelConfig(width=8, layers=2, mlp=8, options=options),
        train=TrainConfig(steps=4, batch=8, evaluate_every=2, learning_rate=1e-2),
        seed=seed,
    )


@pytest.fixture(scope="module")
def film() -> Film:
    return record_film({"A = I": _run("identity"), "A = 0.95 I": _run()}, "two runs", heads=HEADS)


@pytest.mark.parametrize("signed", [False, True])
def test_an_error_is_at_most_a_254th_of_the_largest(signed: bool) -> None:
    generator = torch.Generator().manual_seed(0)
    given = torch.randn(5, 2, 3, 9, 9, generator=generator, dtype=torch.float64).tril() * 40
    given = given if signed else given.abs()
    given[0, 0, 0] = 0.0
    frames, scales = quantise(given)
    assert len(frames) == 5 * 2 * 3 * 45
    error = (dequantise(frames, scales, tuple(given.shape)) - given).abs().amax((-2, -1))
    largest = given.abs().amax((-2, -1))
    assert bool((error <= largest / 254 * (1 + 1e-12)).all())
    assert bool((error[largest == 0] == 0).all())


def test_coefficients_must_be_finite() -> None:
    with pytest.raises(ValueError, match="finite"):
        quantise(torch.full((1, 3, 3), float("nan")))


def test_recorded_matrices_are_the_models_own(film: Film) -> None:
    """The same training, looked at directly: every frame but the untrained one."""
    config, seen = _run(), []
    tokens = splits(config.task, config.seed).test.inputs[0]

    def look(step: int, row: dict, model) -> None:
        seen.append(coefficients_of(model, tokens, HEADS).double())

    record = train_run(config, TrainOptions(on_evaluation=look))
    kept = film.coefficients(1)
    assert film.steps == (0, 2, 4)
    for mine, want in zip(kept[1:], seen, strict=True):
        bound = want.abs().amax((-2, -1), keepdim=True) / 254 + 1e-7
        assert bool(((mine - want).abs() <= bound).all())
    assert film.runs[1].accuracy[1:] == pytest.approx(record["metrics"]["accuracy"], abs=1e-6)
    assert film.runs[1].loss[1:] == pytest.approx(record["metrics"]["loss"], abs=1e-6)


def test_the_model_moves_and_stays_causal(film: Film) -> None:
    first, _, last = film.coefficients(1)
    assert (first - last).abs().max() > 1e-3
    assert bool((film.coefficients(0).triu(1) == 0).all())
    sums = film.coefficients(0).sum(-1)
    torch.testing.assert_close(sums, torch.ones_like(sums), atol=film.length / 254, rtol=0)


def test_a_film_says_where_it_comes_from(film: Film) -> None:
    for run in film.runs:
        assert {"device", "torch", "python", "revision", "timestamp"} <= set(run.provenance)
        assert RunConfig.from_dict(run.config).seed == 3
    assert "seed 3" in film.source()
    assert f"torch {torch.__version__}" in film.source()


def test_a_saved_film_comes_back(film: Film, tmp_path: Path) -> None:
    film.save(tmp_path / "two.json")
    assert Film.load(tmp_path / "two.json") == film
    with pytest.raises(ValueError, match=r"there is no film at .*none\.json"):
        Film.load(tmp_path / "none.json")


def test_runs_of_different_seeds_are_refused() -> None:
    with pytest.raises(ValueError, match="equal task, seed, steps"):
        record_film({"a": _run(), "b": _run(seed=4)}, "no film")


def test_recording_stops_when_asked() -> None:
    with pytest.raises(Stopped):
        record_film({"cut": _run()}, "no film", on_step=lambda done, total: done == 1)


def test_broken_sizes_are_told(film: Film) -> None:
    short = replace(film.runs[0], frames=film.runs[0].frames[:-1])
    with pytest.raises(ValueError, match="bytes, but 3 steps of 2 layers"):
        replace(film, runs=(short,))


def test_curves_are_whole(film: Film) -> None:
    with pytest.raises(ValueError, match="has 1 values of accuracy, but 3 steps"):
        replace(film, runs=(replace(film.runs[0], accuracy=(0.5,)),))
    with pytest.raises(ValueError, match="steps of a film must increase"):
        replace(film, steps=(0, 4, 2))


def test_a_page_that_shows_a_film_has_a_still(film: Film) -> None:
    """`make book` reads it back from the page that holds it."""
    widget = TrainingFilm(film, run=1)
    frames = {"path": ["frames"], "data": base64.b64encode(widget.frames).decode()}
    state = {"film": widget.film, "settings": widget.settings, "_anywidget_id": "x.TrainingFilm"}
    record = {"state": state, "buffers": [frames]}
    assert bool((saved_film(record).coefficients(1) == film.coefficients(1)).all())
    still = still_of(record)
    assert still is not None and f"{film.runs[1].accuracy[-1]:.3f} at step 4" in still.words


def test_every_plan_makes_runs_of_one_sequence() -> None:
    for name in FILMS:
        runs = list(film_runs(name).values())
        assert len({(run.task.input_length, run.seed, run.train.steps) for run in runs}) == 1


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_committed_films_are_small_and_reproducible(path: Path) -> None:
    """Under 300 kB, of a known plan, with the configurations that this code would train."""
    assert path.stat().st_size < 300_000
    film = Film.load(path)
    planned = film_runs(path.stem)
    assert [run.name for run in film.runs] == list(planned)
    for run in film.runs:
        recorded = RunConfig.from_dict(run.config)
        want = planned[run.name]
        assert recorded == replace(want, train=replace(want.train, stop_accuracy=None))
        assert all(run.provenance[key] for key in ("timestamp", "device"))


@pytest.mark.parametrize("styled", [False, True])
def test_the_still_shows_the_films_matrices(film: Film, styled: bool) -> None:
    """Whatever style is set: ours puts titles to the left."""
    if styled:
        use_style()
    still = film_still(film, run=1, layer=2)
    want = film.coefficients(1)[:, 1, 0]
    assert len(still.axes) == 3
    for axes, matrix in zip(still.axes, want, strict=True):
        shown = torch.tensor(axes.images[0].get_array().filled(0.0))
        torch.testing.assert_close(shown, matrix)
    still.canvas.draw()
    titles = {still.axes[-1].get_title(loc=place) for place in ("left", "center", "right")}
    assert titles == {"", f"step 4, accuracy {film.runs[1].accuracy[-1]:.3f}"}
    with pytest.raises(IndexError):
        film_still(film, run=2)
