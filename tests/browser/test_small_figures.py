"""The figures of one idea: their numbers, computed again with the library, and their handles."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from browser.explorer_pages import Open, number, open_page, slide, text  # noqa: F401

from coefdyn import CoefficientDynamics, evolution, normalizer, readout
from coefdyn.lab.films import TrainingFilm
from coefdyn.widgets import (
    AblationView,
    CapacityView,
    CombinationView,
    DistanceView,
    EigenvalueView,
    EmptyRowView,
    ErasingView,
    Explorer,
    FactsView,
    GrowthView,
    MemoryView,
    ReadoutView,
    StepView,
    StringView,
    TurningView,
)
from coefdyn.widgets.interpreter import evaluate
from coefdyn.widgets.small import SmallFigure

pytestmark = pytest.mark.browser

FLOAT32_MOST = torch.finfo(torch.float32).max


def _impulse(a: torch.Tensor, steps: int) -> torch.Tensor:
    """The first column of a^steps: what a strike along the first axis becomes."""
    return torch.linalg.matrix_power(a, steps)[:, 0]


def _rotation(degrees: float) -> torch.Tensor:
    turn = math.radians(degrees)
    return torch.tensor(
        [[math.cos(turn), -math.sin(turn)], [math.sin(turn), math.cos(turn)]], dtype=torch.float64
    )


def test_a_turning_state_has_the_matrix_s_eigenvalues(open_page: Open) -> None:
    page = open_page(TurningView(angle=30, keep=0.9), ready="small")
    a = 0.9 * _rotation(30)
    found = torch.linalg.eigvals(a)
    assert number(page, "eigenvalue") == pytest.approx(found.real[0].item())
    left = _impulse(a, 32).norm().item()
    assert number(page, "left-at-end") == pytest.approx(left)
    slide(page, "keep", 1.0)
    assert number(page, "left-at-end") == pytest.approx(1.0)


def test_the_eigenvalue_is_taken_in_hand(open_page: Open) -> None:
    page = open_page(TurningView(), ready="small")
    box = page.locator("[data-cd=turning]").bounding_box()
    side = min(box["height"] - 10, box["width"] * 0.42)
    x, y = box["x"] + 6 + side / 2, box["y"] + 5 + side / 2
    page.mouse.move(x + 10, y)
    page.mouse.down()
    page.mouse.move(x, y - 0.8 * side / 2.2)
    page.mouse.up()
    page.wait_for_selector("[data-cd=value-angle]:text-is('90°')")
    assert float(text(page, "value-keep")) == pytest.approx(0.8, abs=0.02)


def test_a_string_keeps_what_its_states_keep(open_page: Open) -> None:
    page = open_page(StringView(place=0.3, time=20, keep=0.97), ready="small")
    modes = torch.arange(1, 9, dtype=torch.float64)
    sizes = (0.3 * math.pi * modes).sin() / modes**2
    kept = (sizes * 0.97 ** (20 * modes)).square().sum() / sizes.square().sum()
    assert number(page, "energy") == pytest.approx(kept.item(), rel=1e-12)
    assert number(page, "first-mode") == pytest.approx(0.97**20)
    assert number(page, "fastest-mode") == pytest.approx(0.97 ** (7 * 20))
    slide(page, "time", 0)
    assert number(page, "energy") == pytest.approx(1.0)


def test_one_step_of_erasing_is_a_householder_step(open_page: Open) -> None:
    page = open_page(ErasingView(beta=1.5, angle=35), ready="small")
    z = _rotation(35)[:, 0]
    h = torch.tensor([1.0, 0.0], dtype=torch.float64)
    after = h - 1.5 * (z @ h) * z
    assert number(page, "length-after") == pytest.approx(after.norm().item())
    assert number(page, "along") == pytest.approx((z @ after).item())
    slide(page, "beta", 2)
    assert number(page, "length-after") == pytest.approx(1.0)


def test_eigenvalues_of_a_scaled_householder(open_page: Open) -> None:
    page = open_page(EigenvalueView(keep=0.9, beta=1.4), ready="small")
    z = _rotation(20)[:, 0]
    a = 0.9 * (torch.eye(2, dtype=torch.float64) - 1.4 * torch.outer(z, z))
    low, high = torch.linalg.eigvalsh(a).tolist()
    assert number(page, "along-eigenvalue") == pytest.approx(low)
    assert number(page, "across-eigenvalue") == pytest.approx(high)


def test_half_lives_are_those_of_the_explorer_s_channels(open_page: Open) -> None:
    page = open_page(MemoryView(keep=0.85, spread=0.6), ready="small")
    shown = Explorer("gla", width=4, decay=0.85, spread=0.6).dynamics()
    kept = shown.evolution.log_decay[1]
    lives = (-math.log(2) / kept).tolist()
    assert number(page, "longest") == pytest.approx(lives[0])
    assert number(page, "shortest") == pytest.approx(lives[3])


def test_only_a_moving_key_tells_positions_apart(open_page: Open) -> None:
    page = open_page(DistanceView(), ready="small")
    assert text(page, "told-apart") == "no"
    slide(page, "angle", 25)
    assert text(page, "told-apart") == "yes"
    a = _rotation(25)
    assert number(page, "near") == pytest.approx(_impulse(a, 3)[0].item())
    assert number(page, "far") == pytest.approx(_impulse(a, 9)[0].item())


def test_a_tied_step_keeps_and_writes_by_one_number(open_page: Open) -> None:
    page = open_page(StepView(step=0.5), ready="small")
    assert number(page, "kept") == pytest.approx(math.exp(-0.5))
    assert number(page, "written") == pytest.approx(0.5)
    page.select_option("[data-cd=control-writing]", "exact")
    page.wait_for_selector("[data-cd=level][data-value='1']")


@pytest.mark.parametrize(
    ("preset", "moved"),
    [("softmax_attention", {"scale": 2.0}), ("gla", {"decay": 0.8}), ("mlstm", {"floor": 2.0})],
)
def test_the_row_of_three_facts_is_the_library_s(
    open_page: Open, preset: str, moved: dict[str, float]
) -> None:
    page = open_page(FactsView(preset, controls=list(moved)), ready="small")
    for key, value in moved.items():
        slide(page, key, value)
    expected = Explorer(preset, **moved).coefficients(normalized=True)[-1]
    for word, place in (("black", 3), ("brown", 7), ("white", 11)):
        assert number(page, f"answer-{word}") == pytest.approx(expected[place].item(), rel=1e-9)
    assert page.locator("input[type=range]").count() == 1


def test_another_question_has_another_answer(open_page: Open) -> None:
    page = open_page(FactsView("deltanet", controls=["asked"]), ready="small")
    assert number(page, "answer-white") == pytest.approx(1.0)
    page.select_option("[data-cd=control-asked]", "dog")
    page.wait_for_selector("[data-cd=answer-brown][data-value='1']")
    assert number(page, "answer-white") == pytest.approx(0.0, abs=1e-12)


@pytest.mark.parametrize("kind", ["softmax", "floored", "relu", "identity"])
def test_what_an_empty_row_hands_out(open_page: Open, kind: str) -> None:
    page = open_page(EmptyRowView(shift=-3, kind=kind), ready="small")
    scores = torch.tensor([2.0, 0.5, -0.5, -1.0, -2.0], dtype=torch.float64) - 3
    expected = {
        "softmax": 1.0,
        "floored": scores.exp().sum().item(),
        "relu": 0.0,
        "identity": scores.sum().item(),
    }[kind]
    assert number(page, "weight-sum") == pytest.approx(expected)


@pytest.mark.parametrize("kind", ["convex", "conical", "affine", "linear"])
def test_combinations_are_what_their_class_promises(open_page: Open, kind: str) -> None:
    page = open_page(CombinationView(kind=kind), ready="small")
    for angle in range(0, 360, 45):
        slide(page, "angle", angle)
        weights = [number(page, "weight-first"), number(page, "weight-second")]
        scores = (torch.tensor([angle, angle - 75.0], dtype=torch.float64) * math.pi / 180).cos()
        alpha = {"convex": scores.exp(), "conical": scores.relu()}.get(kind, scores)
        eta = alpha.sum() if kind in ("convex", "affine") else 1.0
        assert weights == pytest.approx((alpha / eta).tolist())
        if kind in ("convex", "affine"):
            assert sum(weights) == pytest.approx(1.0)
        if kind in ("convex", "conical"):
            assert min(weights) >= 0


@pytest.mark.parametrize("name", ["identity", "exp", "relu", "softplus"])
def test_the_share_near_zero_is_the_normal_distribution_s(open_page: Open, name: str) -> None:
    page = open_page(ReadoutView(readout=name, spread=3, power=-1), ready="small")
    grid = torch.linspace(-30, 30, 1_200_001, dtype=torch.float64)
    phi = {"identity": grid, "exp": grid.exp(), "relu": grid.relu()}.get(name, grid.exp().log1p())
    density = torch.exp(-((grid / 3) ** 2) / 2) / (3 * math.sqrt(2 * math.pi))
    share = (density * (phi.abs() <= 0.1)).sum().item() * (60 / 1_200_000)
    assert number(page, "near-zero-share") == pytest.approx(share, abs=2e-5)


@pytest.mark.parametrize(
    "kind", ["identity-geometric", "identity-row_sum", "exp-one", "exp-row_sum"]
)
def test_growth_and_divisor_are_the_library_s(open_page: Open, kind: str) -> None:
    keep = 1.04
    page = open_page(GrowthView(keep=keep, kind=kind), ready="small")
    one = torch.ones(64, 1, dtype=torch.float64)
    phi, _, eta = kind.partition("-")
    own = CoefficientDynamics(
        q=one,
        k=one,
        evolution=evolution.Scalar(log_decay=math.log(keep) * one[:, 0]),
        scaling=1.0,
        readout=readout.exp if phi == "exp" else readout.identity,
        normalizer=normalizer.RowSum() if eta == "row_sum" else normalizer.One(),
    )
    alpha = own.coefficients()[-1, 0].item()
    weight = own.coefficients(normalized=True)[-1, 0].item()
    if eta == "geometric":
        weight /= keep**64
    assert number(page, "alpha-power") == pytest.approx(math.log10(alpha))
    assert number(page, "weight-power") == pytest.approx(math.log10(weight), abs=1e-9)


def test_the_token_of_the_overflow(open_page: Open) -> None:
    page = open_page(GrowthView(keep=1.1, kind="exp-geometric"), ready="small")
    first = next(i for i in range(1, 65) if math.exp(1.1 ** (i - 1)) > FLOAT32_MOST)
    assert number(page, "first-overflow") == first


def test_facts_in_one_state_disturb_each_other(open_page: Open) -> None:
    facts, width = 9, 6
    page = open_page(CapacityView(facts=facts, width=width, seed=3), ready="small")
    drawn = [[evaluate("drawNormal", 3, 9, j, c) for c in range(width)] for j in range(facts)]
    keys = torch.nn.functional.normalize(torch.tensor(drawn, dtype=torch.float64), dim=-1)
    wanted = torch.eye(facts, dtype=torch.float64)
    summed = ((keys @ keys.T - wanted) ** 2).sum().item() / facts
    assert number(page, "error-sum") == pytest.approx(summed, rel=1e-9)
    state = torch.zeros(width, facts, dtype=torch.float64)
    for j, key in enumerate(keys):
        state = state - torch.outer(key, key @ state) + torch.outer(key, wanted[j])
    delta = ((keys @ state - wanted) ** 2).sum().item() / facts
    assert number(page, "error-delta") == pytest.approx(delta, rel=1e-9)


def test_a_press_on_a_film_s_row_reads_that_row(open_page: Open) -> None:
    film = TrainingFilm.load("principle-3")
    first, *_, last = film.film["tokens"]
    page = open_page(film, ready="small")
    box = page.locator("[data-cd=film]").bounding_box()
    assert text(page, "value-row") == f"{last} at {film.film['length']}"
    page.mouse.click(box["x"] + 60, box["y"] + 8)
    page.wait_for_selector(f"[data-cd=value-row]:text-is('{first} at 1')")


def test_every_figure_fits_a_phone_and_answers_keys(open_page: Open) -> None:
    """All on one page: each answers keys pressed in it, and nothing is wider than the screen."""
    kinds = [kind for kind in SmallFigure.__subclasses__() if kind is not AblationView]  # buttons
    page = open_page(*(kind() for kind in kinds), width=360, ready="small")
    figures = page.locator("[data-cd=small]")
    figures.nth(len(kinds) - 1).wait_for()
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    assert figures.count() == len(kinds)
    for m, kind in enumerate(kinds):
        canvas = figures.nth(m).locator("canvas").first
        before = canvas.get_attribute("aria-label")
        figures.nth(m).locator("input[type=range]").first.focus()
        for key in ("ArrowLeft", "ArrowLeft", "ArrowRight"):  # elsewhere even from either end
            page.keyboard.press(key)
        page.wait_for_function(
            "([e, old]) => e.ariaLabel !== old", arg=[canvas.element_handle(), before]
        )
        assert canvas.get_attribute("aria-label") != before, kind


def test_every_slider_moves_within_what_python_accepts(open_page: Open) -> None:
    kinds = [kind for kind in SmallFigure.__subclasses__() if kind is not AblationView]
    page = open_page(*(kind() for kind in kinds), ready="small")
    figures = page.locator("[data-cd=small]")
    figures.nth(len(kinds) - 1).wait_for()
    ends = "all => all.map((e) => [e.dataset.cd.replace('control-', ''), +e.min, +e.max])"
    for m, kind in enumerate(kinds):
        for key, least, most in figures.nth(m).locator("input[type=range]").evaluate_all(ends):
            low, high = kind._limits[key]
            assert low <= least < most <= high, (kind, key)


def _move(figure: Any, **settings: Any) -> None:
    figure.settings = settings


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: TurningView(keep=2), r"between 0.5 and 1.05, got 2"),
        (lambda: _move(ErasingView(), angle=1.5), "whole number, got 1.5"),
        (lambda: FactsView("mamba"), "did you mean 'mamba2'"),
        (lambda: FactsView(controls=["decya"]), "did you mean 'decay'"),
        (lambda: GrowthView(keep=math.nan), "finite number"),
    ],
)
def test_wrong_settings_name_the_remedy(make: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()


def test_a_row_of_table_1_brings_its_own_numbers(open_page: Open) -> None:
    page = open_page(FactsView("softmax_attention", controls=["preset"]), ready="small")
    assert number(page, "answer-black") == pytest.approx(0.5, abs=2e-3)
    page.select_option("[data-cd=control-preset]", "gated_deltanet")
    page.wait_for_function("document.querySelector('[data-cd=answer-black]').dataset.value < 1e-9")
    expected = Explorer("gated_deltanet").coefficients(normalized=True)[-1, 11].item()
    assert number(page, "answer-white") == pytest.approx(expected, rel=1e-9)
