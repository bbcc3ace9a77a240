"""The smaller figures: their numbers, recomputed in Python; and the links of the book's prose."""

from __future__ import annotations

import html
import math
import re
from pathlib import Path
from typing import Any

import pytest
import torch
from browser.axe import findings
from browser.explorer_pages import Open, number, open_page, press, slide, text  # noqa: F401

from coefdyn.lab.films import TrainingFilm
from coefdyn.widgets import ChunkView, CostView, Explorer, SampledSwing, ScoreVariance
from coefdyn.widgets.interpreter import evaluate
from coefdyn.widgets.source import arithmetic_source

pytestmark = pytest.mark.browser

BOOK = Path(__file__).resolve().parents[2] / "book"


def test_score_variance_is_what_python_measures(open_page: Open) -> None:
    page = open_page(ScoreVariance(width=6, scaling="inverse_sqrt_n", seed=3), ready="small")
    draw = (
        "(seed) => [1, 2].map((stream) => Array.from({ length: 400 }, (_, m) =>"
        " Array.from({ length: 6 }, (__, c) => drawNormal(seed, stream, m, c))))"
    )
    draws = torch.tensor(evaluate(draw, 3), dtype=torch.float64)
    scores = draws.prod(dim=0).sum(dim=-1) / 6**0.5
    assert number(page, "score-variance") == pytest.approx(scores.var().item(), rel=1e-9)
    assert number(page, "variance-theory") == pytest.approx(1.0)
    weight = scores[:16].softmax(dim=0).max().item()
    assert number(page, "largest-weight") == pytest.approx(weight, rel=1e-9)
    slide(page, "width", 12)
    assert number(page, "variance-theory") == pytest.approx(1.0)


def test_chunks_count_steps_and_work(open_page: Open) -> None:
    page = open_page(ChunkView(length=10, chunk=4, width=8), ready="small")
    assert number(page, "sequential-steps") == 3
    assert number(page, "inside-entries") == 10 + 10 + 3
    assert number(page, "multiplications") == 23 * 16 + (8 + 6) * 64
    slide(page, "chunk", 10)
    assert number(page, "sequential-steps") == 1
    assert number(page, "multiplications") == 55 * 16


@pytest.mark.parametrize("rule", ["tangent", "bilinear", "hold"])
def test_a_step_of_the_swing_is_the_matrix_s(rule: str, open_page: Open) -> None:
    """Eigenvalues of the sampled 2 x 2 matrix, by torch."""
    page = open_page(SampledSwing(step=0.3, friction=0.2, rule=rule), ready="small")
    for step in (0.3, 1.2):
        slide(page, "step", step)
        A = step * torch.tensor([[0.0, 1.0], [-4.0, -0.4]], dtype=torch.float64)
        eye = torch.eye(2, dtype=torch.float64)
        matrix = {
            "tangent": eye + A,
            "bilinear": torch.linalg.solve(eye - A / 2, eye + A / 2),
            "hold": torch.linalg.matrix_exp(A),
        }[rule]
        upper = torch.linalg.eigvals(matrix)[0]
        assert number(page, "swing-kept") == pytest.approx(upper.abs().item(), rel=1e-9)
        assert number(page, "swing-angle") == pytest.approx(upper.angle().abs().item(), rel=1e-9)
        assert number(page, "swing-true") == pytest.approx(math.exp(-0.2 * step))
        swing = SampledSwing(step=step, friction=0.2, rule=rule)
        assert swing.shown()["swing-kept"] == pytest.approx(upper.abs().item(), rel=1e-9)


def test_the_picture_of_chunks_walks(open_page: Open) -> None:
    page = open_page(ChunkView(length=10, chunk=4), ready="small")
    for expected in ("1", "2", "3", "1"):
        press(page, "next-step")
        page.wait_for_selector(f"[data-cd=value-step]:text-is('{expected}')")


def test_chunk_sliders_reach_what_there_is(open_page: Open) -> None:
    """No stretch of a slider does nothing, and none names a chunk or step that is not there."""
    page = open_page(ChunkView(length=10, chunk=40, step=30), ready="small")
    assert text(page, "value-chunk") == "10"
    assert text(page, "value-step") == "1"
    press(page, "next-step")
    assert text(page, "value-step") == "1"
    slide(page, "chunk", 4)
    most = "e => e.max"
    assert page.eval_on_selector("[data-cd=control-step]", most) == "3"
    slide(page, "length", 40)
    assert page.eval_on_selector("[data-cd=control-chunk]", most) == "40"
    assert text(page, "value-chunk") == "4"
    assert page.eval_on_selector("[data-cd=control-step]", most) == "10"


def test_no_serious_accessibility_finding(open_page: Open) -> None:
    question = {"id": "a", "question": "?", "number": "row-sum", "control": "decay"}
    for theme in ("light", "dark"):
        small = (ScoreVariance(), ChunkView(), CostView(), SampledSwing())
        figures = (*small, TrainingFilm.load("principle-3"), Explorer(predict=question))
        page = open_page(*figures, theme=theme, ready="explorer")
        assert findings(page) == [], theme


def test_cost_is_a_roofline(open_page: Open) -> None:
    page = open_page(CostView(power=10, width=32, chunk=64), ready="small")
    length, width, chunk, peak, bandwidth = 1024, 32, 64, 989e12, 4.8e12
    traffic = 8 * width * length
    full = 2 * length * (length + 1) // 2 * 2 * width
    assert number(page, "cost-at-once") == pytest.approx(max(full / peak, traffic / bandwidth))
    count = length // chunk
    inside = count * chunk * (chunk + 1) // 2
    work = 2 * (inside * 2 * width + 2 * (length - chunk) * width**2)
    traffic += 8 * width**2 * (count - 1)
    assert number(page, "cost-in-chunks") == pytest.approx(max(work / peak, traffic / bandwidth))
    assert number(page, "cost-intensity") == pytest.approx(work / traffic)
    assert number(page, "steps-in-chunks") == count
    slide(page, "power", 20)
    assert number(page, "cost-at-once") > 100 * number(page, "cost-in-chunks")


def test_one_ingredient_explorer_shows_its_card_only(open_page: Open) -> None:
    page = open_page(Explorer("softmax_attention", parts=["readout", "numbers", "card-readout"]))
    assert page.locator("fieldset").count() == 1
    before = number(page, "near-zero-fraction")
    page.select_option("[data-cd=control-readout]", "relu")
    page.wait_for_function(
        "b => Number(document.querySelector('[data-cd=near-zero-fraction]').dataset.value) > b",
        arg=before,
    )


def test_every_link_of_the_prose_opens_its_setting(browser: Any) -> None:
    """Addresses written out in chapters are understood without a single note."""
    found = {}
    link = re.compile(r"#cd(?!-train\?)(?:-[\w-]+)?\?([^\"'\s)>{]+)[\"'\s)>]")
    for path in BOOK.rglob("*.md"):
        if "_build" in path.parts:
            continue
        for query in link.findall(path.read_text("utf-8")):
            found[html.unescape(query)] = path.name
    page = browser.new_page()
    page.add_script_tag(content=arithmetic_source())
    notes = page.evaluate("(all) => all.map((query) => decodeSettings(query).notes)", list(found))
    page.close()
    wrong = {query: note for query, note in zip(found, notes, strict=True) if note}
    assert wrong == {}
