"""A recorded film in a page: every scrubber moves numbers, and they are the file's."""

from __future__ import annotations

import pytest
from browser.axe import findings
from browser.explorer_pages import (  # noqa: F401
    Open,
    hold_time,
    number,
    open_page,
    slide,
    text,
)

from coefdyn.lab.films import TrainingFilm
from coefdyn.lab.films.film import Film

pytestmark = pytest.mark.browser

NAME = "principle-3"


@pytest.fixture(scope="module")
def film() -> Film:
    return Film.load(NAME)


def _strongest(film: Film, run: int, frame: int, layer: int, head: int, row: int) -> float:
    alpha = film.coefficients(run)[frame, layer - 1, head - 1, row - 1]
    return alpha[alpha.abs().argmax()].item()


def test_the_film_has_several_of_everything(film: Film) -> None:
    assert len(film.steps) > 8
    assert film.layers > 1
    assert film.heads > 1
    for run in range(len(film.runs)):
        frames = film.coefficients(run)
        for axis in (0, 1, 2):
            first, second = frames.select(axis, 0), frames.select(axis, 1)
            assert (first - second).abs().max() > 0.01, "two layers, heads or steps are the same"


def test_scrubbing_shows_the_files_numbers(open_page: Open, film: Film) -> None:
    page = open_page(TrainingFilm.load(NAME), ready="small")
    last = len(film.steps) - 1
    for run, frame, layer, head, row in ((0, last, 1, 1, 31), (1, 0, 2, 3, 12), (2, 6, 2, 2, 23)):
        page.select_option("[data-cd=control-run]", str(run))
        for key, value in (("frame", frame), ("layer", layer), ("head", head), ("row", row)):
            slide(page, key, value)
        assert number(page, "accuracy") == film.runs[run].accuracy[frame]
        assert number(page, "loss") == film.runs[run].loss[frame]
        want = _strongest(film, run, frame, layer, head, row)
        assert number(page, "strongest") == pytest.approx(want, rel=1e-9)
        assert text(page, "value-row") == f"{film.tokens[row - 1]} at {row}"
        label = page.get_attribute("[data-cd=film]", "aria-label")
        assert f"{film.runs[run].name}: coefficients at training step {film.steps[frame]}" in label


FRAME_MS = 400


def test_play_runs_to_the_end_and_stop_stops(open_page: Open, film: Film) -> None:
    page = open_page(TrainingFilm.load(NAME), ready="small", clock=True)
    hold_time(page)
    page.click("[data-cd=play]")
    page.clock.run_for(2.5 * FRAME_MS)
    assert text(page, "value-frame") == str(film.steps[2])
    page.click("[data-cd=play]")
    page.clock.run_for(10 * FRAME_MS)
    assert text(page, "value-frame") == str(film.steps[2])
    page.click("[data-cd=play]")
    page.clock.run_for((len(film.steps) - 3.5) * FRAME_MS)
    assert (text(page, "value-frame"), text(page, "play")) == (f"{film.steps[-2]:,}", "Stop")
    page.clock.run_for(2 * FRAME_MS)
    assert (text(page, "value-frame"), text(page, "play")) == (f"{film.steps[-1]:,}", "Play")


def test_it_fits_a_phone_and_axe_finds_nothing_serious(open_page: Open) -> None:
    page = open_page(TrainingFilm.load(NAME), ready="small", width=360, theme="dark")
    assert page.evaluate("document.documentElement.scrollWidth") == 360
    assert text(page, "provenance").startswith("Recorded: seed 0")
    page.set_viewport_size({"width": 1100, "height": 900})
    assert findings(page) == []


def test_python_settings_are_checked() -> None:
    shown = TrainingFilm.load(NAME, run=1, head=2)
    assert shown.settings == {"run": "1", "head": 2}
    shown.settings = {"frame": 3}
    assert shown.settings == {"run": "1", "head": 2, "frame": 3}
    with pytest.raises(ValueError, match="layer must lie between 1 and 2, got 3"):
        shown.settings = {"layer": 3}
    with pytest.raises(ValueError, match=r"frame must be a whole number, got 1\.7"):
        shown.settings = {"frame": 1.7}
    with pytest.raises(ValueError, match="did you mean 'frame'"):
        shown.settings = {"frames": 3}
    with pytest.raises(ValueError, match=r"recorded films: .*principle-3"):
        TrainingFilm.load("principle-33")
