"""Training in a page: buttons, addresses, files and words of the figure, without any host."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from browser.axe import findings
from browser.explorer_pages import Open, number, open_page, text  # noqa: F401
from passed import FIGURES

from coefdyn.lab.contest import TASKS
from coefdyn.lab.films import TrainingFilm
from coefdyn.lab.films.film import Film
from coefdyn.lab.train import PageTraining
from coefdyn.lab.train.kept_runs import kept_run
from coefdyn.lab.train.offers import EVERY

pytestmark = pytest.mark.browser
#: for what waits a fixed time, in which a busy machine may do no step, or trains for many steps
alone = pytest.mark.alone
FADING = {"evolution": "constant", "constant": 0.7}
#: a loaded machine may need long for a step; nothing here depends on how long
PATIENCE_MS = 240_000


def open_trainer(open_page: Open, figure: PageTraining, **more: Any) -> Any:
    """The page once the untrained model has answered."""
    page = open_page(figure, ready="trainer", **more)
    page.set_default_timeout(PATIENCE_MS)
    return until(page, "s => s('train-accuracy') !== ''")


def until(page: Any, condition: str) -> Any:
    """Waits until a condition on the numbers on show holds."""
    read = "(hook) => document.querySelector(`[data-cd=${hook}]`)?.dataset.value ?? ''"
    page.wait_for_function(f"() => ({condition})({read})", timeout=PATIENCE_MS, polling=50)
    return page


def until_words(page: Any, hook: str, words: str) -> str:
    page.wait_for_function(
        "([hook, words]) => document.querySelector(`[data-cd=${hook}]`)"
        ".textContent.includes(words)",
        arg=[hook, words],
        timeout=PATIENCE_MS,
    )
    return text(page, hook)


def step_of(page: Any) -> float:
    return number(page, "train-step")


def matrix_label(page: Any) -> str:
    return str(page.get_attribute("[data-cd=train-matrix]", "aria-label"))


def steps(page: Any, count: int) -> None:
    """Presses Step so many times, each after the last one is done."""
    for _ in range(count):
        before = step_of(page)
        page.click("[data-cd=train-one]")
        until(page, f"s => Number(s('train-step')) === {before + 1}")


def steps_from_the_start(page: Any, count: int) -> None:
    """The same, once a new model has answered untrained."""
    until(page, "s => s('train-step') === '0' && s('train-accuracy') !== ''")
    page.wait_for_function("() => !document.querySelector('[data-cd=train-one]').disabled")
    steps(page, count)


def test_train_makes_the_loss_fall_and_the_matrix_move(open_page: Open) -> None:
    page = open_trainer(open_page, PageTraining(FADING))
    assert step_of(page) == 0
    steps(page, 1)
    loss, label = number(page, "train-loss"), matrix_label(page)
    assert text(page, "train-start") == "Train"
    page.click("[data-cd=train-start]")
    until(page, "s => Number(s('train-step')) >= 60")
    assert text(page, "train-start") == "Pause"
    assert number(page, "train-loss") < 0.8 * loss
    assert matrix_label(page) != label
    assert "right" in text(page, "train-answer")


@alone
def test_pause_pauses_and_reset_begins_anew(open_page: Open) -> None:
    page = open_trainer(open_page, PageTraining(FADING))
    start = (matrix_label(page), number(page, "train-accuracy"))
    page.click("[data-cd=train-start]")
    until(page, "s => Number(s('train-step')) >= 3")
    page.click("[data-cd=train-start]")
    until_words(page, "train-status", "Paused")
    page.wait_for_timeout(1500)  # the message under way ends
    held = step_of(page)
    page.wait_for_timeout(1500)
    assert step_of(page) == held
    page.click("[data-cd=train-reset]")
    until(page, "s => s('train-step') === '0' && s('train-accuracy') !== ''")
    assert (matrix_label(page), number(page, "train-accuracy")) == start


def test_a_step_is_one_step_and_the_same_from_the_same_seed(open_page: Open) -> None:
    losses = []
    for seed in (3, 3, 4):
        page = open_trainer(open_page, PageTraining("linear_attention", seed=seed))
        steps(page, 3)
        losses.append(number(page, "train-loss"))
    assert losses[0] == losses[1] != losses[2]


@pytest.mark.dear("a model of each contest is made and trained for a step")
@pytest.mark.reads(FIGURES)
def test_every_contest_takes_a_step(open_page: Open) -> None:
    page = open_trainer(open_page, PageTraining("mamba2"))
    for task in TASKS:
        page.select_option("[data-cd=control-task]", task)
        steps_from_the_start(page, 1)
        assert 0 < number(page, "train-loss") < 5, task


def test_two_designs_keep_the_same_step(open_page: Open) -> None:
    page = open_trainer(open_page, PageTraining(FADING))
    page.click("[data-cd=train-compare]")
    until(page, "s => s('train-step-2') === '0' && s('train-accuracy-2') !== ''")
    steps(page, 2)
    until(page, "s => s('train-step-2') === s('train-step')")
    assert text(page, "train-name-2") == "Softmax attention"
    page.click("[data-cd=train-compare]")
    page.wait_for_selector("[data-cd=train-matrix-2]", state="hidden")


def test_the_address_restores_the_figure(open_page: Open) -> None:
    figure = PageTraining(FADING, "gla", task="overwrite", seed=7, learning_rate=3e-3, head=3)
    page = open_trainer(open_page, PageTraining(), fragment=figure.link())
    assert text(page, "train-name") == "A = 0.7 I, φ = exp, η = row sum, b = 1/√n"
    assert text(page, "train-name-2") == "Gated linear attention"
    for hook, value in (("task", "overwrite"), ("seed", "7"), ("rate", "0.003"), ("head", "3")):
        assert page.input_value(f"[data-cd=control-{hook}]") == value
    page.select_option("[data-cd=control-task]", "parity")
    page.wait_for_function("() => location.hash.includes('task=parity')")
    page.reload()
    page.wait_for_selector("[data-cd=trainer]")
    assert page.input_value("[data-cd=control-task]") == "parity"


HOSTILE = [
    "seed=1e99&task=__proto__",
    "left=own,constructor,1,exp,row_sum,one",
    "left=own,constant,1e308,exp,row_sum,one",
    "rate=NaN&layer=0&%E0%A4%A=1&speed=toString",
    "right=<img src=x onerror=alert(1)>",
]


@pytest.mark.parametrize("part", HOSTILE)
def test_a_hostile_address_is_refused_in_words(part: str, open_page: Open) -> None:
    page = open_trainer(open_page, PageTraining(), fragment=f"#cd-train?{part}")
    assert "address was not all readable" in text(page, "train-status")
    assert page.input_value("[data-cd=control-task]") == "selective-copying"
    assert text(page, "train-name") == "Softmax attention"
    assert page.locator("[data-cd=trainer] img").count() == 0
    steps(page, 1)


def test_a_seed_that_is_none_is_refused_in_words(open_page: Open) -> None:
    page = open_trainer(open_page, PageTraining(seed=5))
    page.click("[data-cd=train-more] summary")
    page.fill("[data-cd=control-seed]", "-3")
    page.press("[data-cd=control-seed]", "Enter")
    assert "whole number from 0 to 9999" in until_words(page, "train-status", "seed")
    page.wait_for_function("() => document.querySelector('[data-cd=control-seed]').value === '5'")


@pytest.mark.dear("a model is trained until its coefficients overflow")
@pytest.mark.reads(FIGURES)
def test_principle_6_ends_where_its_kept_run_ended(open_page: Open) -> None:
    """exp, A = 1.05 I, eta = 1: the step of the still, and the sentence of the principle."""
    figure = PageTraining.contest("principle_6")
    kept = kept_run(figure.settings)
    assert kept is not None
    page = open_trainer(open_page, figure)
    page.click("[data-cd=train-start]")
    words = until_words(page, "train-answer", "Principle 6")
    assert f"Stopped at step {kept.runs[0]['stopped']}:" in words
    assert "A = 1.05 I lengthens every stored key" in words
    assert page.get_attribute("[data-cd=train-answer]", "role") == "alert"
    assert page.is_disabled("[data-cd=train-start]")
    page.click("[data-cd=train-reset]")
    page.wait_for_selector("[data-cd=train-start]:not([disabled])")


def test_weights_are_saved_and_loaded(open_page: Open, tmp_path: Path) -> None:
    page = open_trainer(open_page, PageTraining(FADING))
    steps(page, 2)
    page.click("[data-cd=train-more] summary")
    with page.expect_download() as found:
        page.click("[data-cd=train-save]")
    path = tmp_path / found.value.suggested_filename
    found.value.save_as(path)
    saved = matrix_label(page).split(":", 1)[1]
    page.click("[data-cd=train-reset]")
    until(page, "s => s('train-step') === '0' && s('train-accuracy') !== ''")
    assert matrix_label(page).split(":", 1)[1] != saved
    page.set_input_files("[data-cd=train-file]", path)
    until_words(page, "train-status", "Loaded weights after 2 steps")
    until(page, "s => s('train-step') === '2'")
    assert matrix_label(page).split(":", 1)[1] == saved
    page.click("[data-cd=left-gla]")
    until(page, "s => s('train-step') === '0' && s('train-accuracy') !== ''")
    page.set_input_files("[data-cd=train-file]", path)
    words = until_words(page, "train-status", "That file holds weights of the design A = 0.7 I")
    assert "Choose that first" in words
    assert step_of(page) == 0


def test_another_file_is_refused_in_words(open_page: Open, tmp_path: Path) -> None:
    page = open_trainer(open_page, PageTraining())
    (tmp_path / "other.safetensors").write_bytes(b"PK\x03\x04" + b"0" * 100)
    page.set_input_files("[data-cd=train-file]", tmp_path / "other.safetensors")
    until_words(page, "train-status", "not loaded")
    steps(page, 1)


HIDE = """(hidden) => {
  Object.defineProperty(document, "hidden", { configurable: true, get: () => hidden });
  document.dispatchEvent(new Event("visibilitychange"));
}"""


@alone
def test_a_hidden_tab_waits_and_goes_on(open_page: Open) -> None:
    page = open_trainer(open_page, PageTraining(FADING))
    page.click("[data-cd=train-start]")
    until(page, "s => Number(s('train-step')) >= 2")
    page.evaluate(HIDE, True)
    until_words(page, "train-status", "hidden, so training waits")
    page.wait_for_timeout(1500)
    held = step_of(page)
    page.wait_for_timeout(1000)
    assert step_of(page) == held
    page.evaluate(HIDE, False)
    until(page, f"s => Number(s('train-step')) > {held}")


@alone
def test_a_battery_halves_the_work_and_it_is_said(open_page: Open) -> None:
    page = open_page(PageTraining(FADING), ready="trainer", fresh=True)
    page.add_init_script("navigator.getBattery = () => Promise.resolve({ charging: false })")
    page.reload()
    page.wait_for_selector("[data-cd=trainer]")
    until(page, "s => s('train-accuracy') !== ''")
    page.click("[data-cd=train-start]")
    until_words(page, "train-pace", "the device runs on its battery")


@alone
def test_the_film_plays_here_and_in_python(open_page: Open, tmp_path: Path) -> None:
    page = open_trainer(open_page, PageTraining(FADING, "softmax_attention"))
    assert page.is_disabled("[data-cd=train-film]")
    page.click("[data-cd=train-start]")
    until(page, f"s => Number(s('train-step')) >= {2 * EVERY}")
    page.click("[data-cd=train-start]")
    page.wait_for_timeout(1500)
    with page.expect_download() as found:
        page.click("[data-cd=train-film-save]")
    path = tmp_path / "film.json"
    found.value.save_as(path)
    film = Film.load(path)
    assert film.steps[:3] == (0, EVERY, 2 * EVERY)
    assert (film.layers, film.heads, len(film.runs)) == (2, 4, 2)
    assert TrainingFilm.load(path).film["runs"][1]["name"] == "Softmax attention"
    assert "this page" not in film.source() and "seed 0" in film.source()
    alpha = film.coefficients(0)
    assert alpha[0].sum(-1).sub(1).abs().max() < 0.1  # rows sum to one, up to a byte's rounding
    page.click("[data-cd=train-film]")
    page.wait_for_selector("[data-cd=film]")
    page.focus("[data-cd=control-frame]")
    page.keyboard.press("End")
    page.wait_for_function(
        "(want) => Number(document.querySelector('[data-cd=accuracy]').dataset.value) === want",
        arg=film.runs[0].accuracy[-1],
    )
    page.click("[data-cd=train-film]")
    assert page.locator("[data-cd=film]").count() == 0


def test_it_fits_a_phone_and_axe_finds_nothing_serious(open_page: Open) -> None:
    figure = PageTraining(FADING, "softmax_attention")
    page = open_trainer(open_page, figure, width=360, theme="dark")
    steps(page, 1)
    assert page.evaluate("document.documentElement.scrollWidth") == 360
    small = page.evaluate(
        "() => [...document.querySelectorAll('[data-cd=trainer] :is(button, select)')]"
        ".filter((e) => e.checkVisibility() && e.getBoundingClientRect().height < 44)"
        ".map((e) => e.dataset.cd)"
    )
    assert small == []
    assert findings(page) == []


def test_the_keyboard_trains_and_pauses(open_page: Open) -> None:
    page = open_trainer(open_page, PageTraining(FADING))
    page.focus("[data-cd=train-start]")
    page.keyboard.press("Enter")
    until(page, "s => Number(s('train-step')) >= 1")
    page.keyboard.press("Space")
    until_words(page, "train-status", "Paused")


def test_what_a_first_run_does_without_is_folded(open_page: Open) -> None:
    page = open_trainer(open_page, PageTraining())
    assert not page.is_visible("[data-cd=control-seed]")
    assert not page.is_visible("[data-cd=control-positions]")
    page = open_page(PageTraining(), ready="trainer", fragment="#cd-train?seed=9")
    page.wait_for_selector("[data-cd=control-seed]")
    assert page.input_value("[data-cd=control-seed]") == "9"
    page = open_trainer(open_page, PageTraining(positions="rotary"))
    assert page.is_visible("[data-cd=control-positions]"), "the run is about positions"
