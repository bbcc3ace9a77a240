"""The explorer's deeper views, read as numbers and words, and the state in the address."""

from __future__ import annotations

import math

import pytest
import torch
from browser.explorer_pages import (  # noqa: F401
    Open,
    number,
    open_page,
    press,
    settle,
    slide,
    text,
)

from coefdyn import CoefficientDynamics, evolution, normalizer, readout
from coefdyn.mixers import GatedDeltaNet
from coefdyn.widgets import Explorer

pytestmark = pytest.mark.browser


def test_inspect_takes_a_cell_apart(open_page: Open) -> None:
    explorer = Explorer("mamba2", panel="inspect", row=7, column=4)
    page = open_page(explorer)
    steps = page.eval_on_selector_all(
        "[data-cd=product] tbody th", "n => n.map(x => x.textContent)"
    )
    assert steps == ["4", "5", "6", "7"]
    lengths = page.eval_on_selector_all(
        "[data-cd=product] tbody td:last-child", "n => n.map(x => Number(x.textContent))"
    )
    want = explorer.dynamics().states(3)[:4].norm(dim=-1)
    assert lengths == pytest.approx(want.tolist(), rel=5e-3)
    assert text(page, "sentence").startswith("Token 4 is written with strength b = ")
    assert "3 steps of A shrink it to" in text(page, "sentence")


def test_a_factor_is_told_along_its_direction_and_beside_it(open_page: Open) -> None:
    """Two channels are the least: one along z, one beside it."""
    page = open_page(Explorer("deltanet", tokens="random", panel="inspect", row=7, column=4))
    assert "× 1, along z × " in text(page, "product")


def test_instability_shows(open_page: Open) -> None:
    page = open_page(Explorer("mamba2", scaling="one", variation=0.0, panel="stability"))
    assert text(page, "overflow") == "never"
    slide(page, "decay", 1.1)
    assert number(page, "overflow") == pytest.approx(
        88.72 / torch.log(torch.tensor(1.1)).item(), rel=0.05
    )
    assert "outside the unit circle" in text(page, "stability-verdict")
    explorer = Explorer("mamba2", scaling="one", variation=0.0, decay=1.1)
    for name in ("one", "row_sum", "geometric", "floored"):
        explorer.settings = {"normalizer": name}
        last = explorer.dynamics().coefficients(normalized=True)[-1]
        assert number(page, f"eta-{name}") == pytest.approx(last.abs().max().item(), rel=1e-9)


def test_positions_separate_or_not(open_page: Open) -> None:
    page = open_page(Explorer("linear_attention", panel="positions", tokens="random"))
    outcomes = {}
    for case in ("identity", "decay", "reflection", "turning"):
        press(page, f"position-{case}")
        first, second = number(page, "position-first"), number(page, "position-second")
        outcomes[case] = abs(first - second) > 1e-12
    assert outcomes == {"identity": False, "decay": True, "reflection": False, "turning": True}


def test_geometry_is_dragged_by_hand_and_by_key(open_page: Open) -> None:
    page = open_page(Explorer("mamba2", panel="geometry"))
    before = number(page, "row-sum")
    handle = page.locator("[data-cd=handle-q]")
    handle.scroll_into_view_if_needed()
    box = handle.bounding_box()
    page.mouse.move(box["x"] + 14, box["y"] + 14)
    page.mouse.down()
    page.mouse.move(box["x"] + 74, box["y"] - 30, steps=4)
    page.mouse.up()
    page.wait_for_function("location.hash.includes('q13=')")
    assert number(page, "row-sum") != before
    moved = handle.get_attribute("aria-label")
    handle.focus()
    page.keyboard.press("ArrowUp")
    page.wait_for_selector(f"[data-cd=handle-q]:not([aria-label='{moved}'])")
    press(page, "geometry-projection")
    assert text(page, "geometry-words").startswith("A projects")


def test_the_words_on_geometry_count_the_decay(open_page: Open) -> None:
    explorer = Explorer(
        "gated_deltanet", decay=0.8, variation=0.0, beta=1.25, panel="geometry", row=12
    )
    along, rest = sorted(x.real for x in explorer.shown().eigenvalues)
    page = open_page(explorer)
    want = f"A multiplies the part along z by −{abs(along):.3g}, the rest by {rest:.3g}."
    assert text(page, "geometry-words").startswith(want)
    slide(page, "beta", 2)
    assert text(page, "geometry-words").startswith("A reflects and multiplies by 0.8.")
    slide(page, "beta", 1)
    want = "A projects: the part along z is gone, the rest is multiplied by 0.8."
    assert text(page, "geometry-words").startswith(want)
    slide(page, "row", 13)
    want = "This word stores nothing, so it erases nothing: A multiplies the state by 0.8."
    assert text(page, "geometry-words").startswith(want)


def test_between_two_normalizers_neither_is_current(open_page: Open) -> None:
    current = "n => n.filter(x => x.dataset.current === 'true').map(x => x.dataset.cd)"
    for share, want in ((0, ["eta-floored"]), (0.5, []), (1, ["eta-one"])):
        page = open_page(Explorer("mlstm", panel="stability", morph_to="gla", morph=share))
        assert page.eval_on_selector_all("[data-cd^=eta-]", current) == want


def test_three_dimensions_count_states_near_the_plane(open_page: Open) -> None:
    explorer = Explorer("gla", panel="geometry", tokens="random", length=32, width=3, row=20)
    page = open_page(explorer)
    d = explorer.dynamics()
    states = torch.stack([d.states(j)[19 - j] for j in range(20)])
    cosines = torch.nn.functional.cosine_similarity(states, d.q[19], dim=-1)
    near = int((cosines.abs() <= 0.05).sum())
    assert f"has {near} of its 20 states within 0.05" in text(page, "geometry-words")
    box = page.locator("[data-cd=geometry]").bounding_box()
    page.mouse.move(box["x"] + 60, box["y"] + 60)
    page.mouse.down()
    page.mouse.move(box["x"] + 120, box["y"] + 90, steps=3)
    page.mouse.up()
    settle(page)
    assert f"has {near} of its 20 states" in text(page, "geometry-words")


def test_a_number_that_stays_is_an_answer_too(open_page: Open) -> None:
    """The overflow horizon is infinite at first ("never"), and a smaller decay leaves it there."""
    question = {"id": "o", "question": "When?", "number": "overflow", "control": "decay"}
    page = open_page(Explorer("mamba2", scaling="one", predict=question))
    press(page, "predict-stays")
    today = page.evaluate("new Date().toLocaleDateString('sv')")
    want = f"You said it stays ({today}). Now move “Keep per step, a” and watch."
    assert text(page, "predict-outcome") == want
    page.reload()
    page.wait_for_selector("[data-cd=predict-stays][aria-pressed=true]")
    assert text(page, "predict-outcome") == want
    slide(page, "decay", 0.7)
    assert text(page, "predict-outcome") == "It is now never: it stays. As you said. Why?"
    slide(page, "decay", 1.2)
    assert f"it falls. You said it stays ({today})." in text(page, "predict-outcome")


@pytest.mark.parametrize("kept", ['{"answer": "up"}', "{"])
def test_a_spoilt_answer_is_asked_again(kept: str, open_page: Open) -> None:
    question = {"id": "o", "question": "When?", "number": "row-sum", "control": "decay"}
    page = open_page(Explorer("mamba2", predict=question))
    press(page, "predict-falls")
    page.evaluate("(text) => localStorage.setItem(Object.keys(localStorage)[0], text)", kept)
    page.reload()
    page.wait_for_selector("[data-cd=predict-outcome]")
    assert text(page, "predict-outcome").startswith("Say first;")
    assert page.is_disabled("[data-cd=control-decay]")


def test_two_coefficients_too_large_to_compare_are_not_called_alike(open_page: Open) -> None:
    page = open_page(
        Explorer("softmax_attention", structure="scalar", scaling="one", decay=1.25, variation=0.0,
                 scale=6.0, panel="positions", duplicate=3, column=1, length=64, row=64)
    )  # fmt: skip
    assert (number(page, "position-first"), number(page, "position-second")) == (math.inf, math.inf)
    assert text(page, "positions-verdict").startswith("Both coefficients are too large")


def test_heads_are_chosen_in_the_page(open_page: Open) -> None:
    torch.manual_seed(0)
    mixer = GatedDeltaNet(d_model=18, n_heads=3).double()
    x = torch.randn(9, 18, dtype=torch.float64)
    alpha = mixer.dynamics(x)[0].coefficients().detach()
    page = open_page(Explorer.from_mixer(mixer, x, row=6), fragment="#cd?preset=own&row=6&head=2")
    labels = "e => [...e.options].map((option) => option.text)"
    assert page.eval_on_selector("[data-cd=control-head]", labels) == ["[0]", "[1]", "[2]"]
    assert number(page, "row-sum") == pytest.approx(alpha[1, 5].sum().item(), rel=1e-9)
    page.select_option("[data-cd=control-head]", "3")
    page.wait_for_function("location.hash.includes('head=3')")
    assert number(page, "row-sum") == pytest.approx(alpha[2, 5].sum().item(), rel=1e-9)
    page.go_back()
    page.wait_for_function("document.querySelector('[data-cd=control-head]').value === '2'")


def test_eigenvalues_of_a_dense_matrix_are_complex(open_page: Open) -> None:
    turn = torch.tensor([[0.6, -0.5], [0.5, 0.6]], dtype=torch.float64).expand(4, 2, 2)
    q = torch.ones(4, 2, dtype=torch.float64)
    dynamics = CoefficientDynamics(
        q=q, k=q, evolution=evolution.Dense(matrix=turn), scaling=1.0,
        readout=readout.identity, normalizer=normalizer.One(),
    )  # fmt: skip
    page = open_page(Explorer.from_dynamics(dynamics, panel="stability"))
    assert text(page, "eigenvalues") == "0.6 ± 0.5 i"
    assert "0.6 ± 0.5 i" in page.get_attribute("[data-cd=eigenvalue-plane]", "aria-label")
    painted = """() => {
      const canvas = document.querySelector("[data-cd=eigenvalue-plane]");
      const [w, h] = [canvas.width, canvas.height];
      const scale = Math.min(w, h) / 2 / 1.45;
      const at = (re, im) => [...canvas.getContext("2d")
        .getImageData(w / 2 + re * scale, h / 2 - im * scale, 1, 1).data].join();
      return [at(0.6, 0.5), at(0.6, -0.5), at(0.6, 0.25), at(0.781, 0.1)];
    }"""
    above, below, beside, off = page.evaluate(painted)
    assert above == below != beside
    assert off == beside
