"""The explorer in a static page: it starts, its numbers are the library's, and it can be operated."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from browser.explorer_pages import write_page

from coefdyn.analysis.selectivity import selectivity
from coefdyn.widgets import Explorer
from coefdyn.widgets.settings import ROWS, validate
from coefdyn.widgets.tokens import build_dynamics

pytestmark = pytest.mark.browser
Open = Callable[..., Any]


@pytest.fixture
def open_page(browser: Any, tmp_path: Path) -> Iterator[Open]:
    """Opens a page with explorers; any error in it or any request to a host fails the test."""
    problems: list[str] = []
    contexts = []

    def opener(
        *explorers: Explorer, width: int = 1100, theme: str = "light", hash: str = ""
    ) -> Any:
        context = browser.new_context(viewport={"width": width, "height": 900})
        contexts.append(context)
        page = context.new_page()
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.on("console", lambda m: problems.append(m.text) if m.type == "error" else None)
        page.on("request", lambda r: problems.append(r.url) if r.url.startswith("http") else None)
        page.goto(write_page(tmp_path, *explorers, theme=theme) + hash)
        page.wait_for_selector("[data-cd=explorer]")
        return page

    yield opener
    for context in contexts:
        context.close()
    assert problems == []


def number(page: Any, hook: str) -> float:
    return float(page.get_attribute(f"[data-cd={hook}]", "data-value"))


def slide(page: Any, key: str, value: float) -> None:
    """Moves a slider as a reader's hand would: input events, then change; waits for the frame."""
    page.evaluate(
        """([key, value]) => {
          const input = document.querySelector(`[data-cd=control-${key}]`);
          input.value = value;
          input.dispatchEvent(new Event("input", { bubbles: true }));
          input.dispatchEvent(new Event("change", { bubbles: true }));
          return new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
        }""",
        [key, value],
    )


def near_zero(settings: dict[str, Any]) -> float:
    shown = settings["view"] == "normalized"
    found = selectivity(build_dynamics(settings), settings["epsilon"], normalized=shown)
    return found.near_zero_fraction


def test_slider_moves_the_numbers_the_library_gives(open_page: Open) -> None:
    page = open_page(Explorer("mamba2", length=24))
    before = number(page, "near-zero-fraction")
    slide(page, "decay", 0.5)
    settings = validate({"preset": "mamba2", "length": 24, "decay": 0.5})
    assert number(page, "near-zero-fraction") == near_zero(settings) != before
    alpha = build_dynamics(settings).coefficients()
    want = alpha[settings["row"] - 1].sum().item()
    assert number(page, "row-sum") == pytest.approx(want, rel=1e-12)
    assert page.inner_text("[data-cd=value-decay]") == "0.5"


@pytest.mark.parametrize("row", ROWS)
def test_every_row_of_table_1(row: str, open_page: Open) -> None:
    page = open_page(Explorer("softmax_attention"))
    page.click(f"[data-cd=preset-{row}]")
    page.wait_for_function(
        "r => document.querySelector(`[data-cd=preset-${r}]`).ariaPressed === 'true'", arg=row
    )
    settings = validate({"preset": row})
    assert number(page, "near-zero-fraction") == near_zero(settings)
    kinds = {
        "softmax_attention": "convex",
        "linear_attention": "convex",
    }
    assert page.inner_text("[data-cd=class]") == kinds.get(row, "linear")


def test_keyboard_moves_slider_and_cell(open_page: Open) -> None:
    page = open_page(Explorer("gla", row=5, column=3))
    page.focus("[data-cd=control-decay]")
    page.keyboard.press("ArrowLeft")
    page.wait_for_function(
        "document.querySelector('[data-cd=value-decay]').textContent === '0.915'"
    )
    page.focus("[data-cd=matrix]")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowRight")
    page.wait_for_function(
        "document.querySelector('[data-cd=reading]').textContent.startsWith('Output 6 reads token 4')"
    )


def test_pointer_picks_a_cell(open_page: Open) -> None:
    page = open_page(Explorer("gla", length=8))
    box = page.locator("[data-cd=matrix]").bounding_box()
    side = box["width"] - 24
    page.mouse.click(box["x"] + 20 + side * 1.5 / 8, box["y"] + 4 + side * 6.5 / 8)
    page.wait_for_function(
        "document.querySelector('[data-cd=reading]').textContent.startsWith('Output 7 reads token 2')"
    )


def test_several_explorers_share_a_page(open_page: Open) -> None:
    page = open_page(Explorer("gla"), Explorer("deltanet", parts=["matrix", "numbers"]))
    page.wait_for_function("document.querySelectorAll('[data-cd=explorer]').length === 2")
    values = page.eval_on_selector_all(
        "[data-cd=near-zero-fraction]", "nodes => nodes.map((n) => Number(n.dataset.value))"
    )
    assert values == [near_zero(validate({"preset": name})) for name in ("gla", "deltanet")]


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_fits_a_phone(theme: str, open_page: Open) -> None:
    page = open_page(Explorer(), width=360, theme=theme)
    assert page.evaluate("document.documentElement.scrollWidth") == 360


def test_no_serious_accessibility_finding(open_page: Open) -> None:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright")
    for theme in ("light", "dark"):
        page = open_page(Explorer("mlstm"), theme=theme)
        found = axe.Axe().run(page).response["violations"]
        serious = [v for v in found if v["impact"] in ("serious", "critical")]
        assert [(v["id"], v["nodes"][0]["html"][:200]) for v in serious] == []


FRAMES = """async () => {
  const input = document.querySelector("[data-cd=control-decay]");
  const root = document.querySelector("[data-cd=explorer]");
  const times = [];
  for (let m = 0; m < 60; m++) {
    input.value = 0.6 + 0.005 * m;
    input.dispatchEvent(new Event("input", { bubbles: true }));
    await new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
    times.push(Number(root.dataset.cdFrameMs));
  }
  return times.slice(10).sort((a, b) => a - b);
}"""


@pytest.mark.parametrize(("width", "readout"), [(8, "identity"), (16, "feature_elu")])
def test_a_frame_is_under_16_ms(width: int, readout: str, open_page: Open) -> None:
    """Compute and draw after a slider move, L = 64; the median, since the machine is shared."""
    page = open_page(Explorer("gated_deltanet", length=64, width=width, readout=readout))
    times = page.evaluate(FRAMES)
    median = times[len(times) // 2]
    print(
        f"L = 64, n = {width}, {readout}: median frame {median:.1f} ms, slowest {times[-1]:.1f} ms"
    )
    assert median < 16
