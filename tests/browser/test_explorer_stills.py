"""Without a script and on paper a still stands in for every figure, with the figure's numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from anywidget import AnyWidget
from browser.explorer_pages import ASSETS, page_html

from book.tools.stills import add_to_page
from coefdyn.widgets import ChunkView, CostView, Explorer, ScoreVariance

pytestmark = pytest.mark.browser
Visit = Callable[..., Any]

FIGURES: dict[str, Callable[[], AnyWidget]] = {
    "row": lambda: Explorer("mamba2", decay=0.9, length=20),
    "parts": lambda: Explorer("softmax_attention", parts=["readout", "numbers", "card-readout"]),
    "morph": lambda: Explorer("softmax_attention", morph_to="linear_attention", morph=0.4),
}
HEAVIEST = 60_000


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("stills")


@pytest.fixture
def visit(browser: Any, tmp_path: Path, store: Path) -> Iterator[Visit]:
    """Opens a page of figures with their stills and the book's style, with or without scripts."""
    contexts = []

    def opener(
        *figures: AnyWidget, scripts: bool = True, theme: str = "light", broken: bool = False
    ) -> Any:
        page_file = tmp_path / "page.html"
        style = (ASSETS / "coefdyn.css").read_text(encoding="utf-8")
        service = (ASSETS / "page.js").read_text(encoding="utf-8")
        text = page_html(*figures, theme=theme).replace(
            "</head>", f"<style>{style}</style><script defer>{service}</script></head>"
        )
        if broken:
            text = text.replace("new DecompressionStream(", "new NoSuchStream(")
        page_file.write_text(text, encoding="utf-8")
        assert add_to_page(page_file, tmp_path, store) == len(figures)
        context = browser.new_context(java_script_enabled=scripts)
        contexts.append(context)
        page = context.new_page()
        page.goto(page_file.as_uri())
        if scripts:
            wanted = "[role=alert]" if broken else "[data-cd=explorer], [data-cd=small]"
            page.wait_for_selector(wanted)
        return page

    yield opener
    for context in contexts:
        context.close()


@pytest.mark.parametrize("name", FIGURES)
def test_without_scripts_the_still_says_settings_and_numbers(name: str, visit: Visit) -> None:
    explorer = FIGURES[name]()
    assert isinstance(explorer, Explorer)
    page = visit(explorer, scripts=False)
    image = page.locator("figure.cd-still img")
    assert image.is_visible()
    assert page.locator("[data-cd=explorer]").count() == 0
    words = image.get_attribute("alt")
    assert page.inner_text("figcaption").startswith(words), "and for those who see it"
    shown = explorer.shown()
    alpha = explorer.coefficients()
    row = explorer.settings["row"]
    assert f"row {row} sums to {alpha[row - 1].sum().item():.3g};" in words
    assert f"{shown.near_zero_fraction:.1%} of the coefficients" in words
    assert f"{explorer.settings['length']} tokens of width 2" in words
    assert ("keep per step, a 0.9," in words) is (name == "row")


def test_small_figures_say_their_numbers_in_a_sentence(visit: Visit) -> None:
    figures = (ChunkView(length=10, chunk=4, width=8), ScoreVariance(width=16), CostView(power=10))
    page = visit(*figures, scripts=False)
    said = [page.locator("p.cd-still").nth(m).inner_text() for m in range(3)]
    assert said == [figure.words() for figure in figures]
    page = visit(figures[0])
    for hook in ("sequential-steps", "inside-entries", "multiplications"):
        number = page.get_attribute(f"[data-cd={hook}]", "data-value")
        assert f" {number} " in figures[0].words()
    assert not page.locator("p.cd-still").is_visible()


def test_a_figure_that_cannot_start_leaves_its_still(visit: Visit) -> None:
    explorer = Explorer("gla")
    explorer.settings = {"length": 12}
    page = visit(explorer, broken=True)
    assert page.locator("[role=alert]").is_visible()
    assert page.locator("figure.cd-still").is_visible()


def test_stills_are_light_and_each_is_put_once(visit: Visit, tmp_path: Path, store: Path) -> None:
    visit(Explorer("gla"), Explorer("mlstm"))
    page_file = tmp_path / "page.html"
    before = page_file.read_text(encoding="utf-8")
    kept = {path: path.stat().st_mtime_ns for path in store.iterdir()}
    assert add_to_page(page_file, tmp_path, store) == 2
    assert page_file.read_text(encoding="utf-8") == before
    assert {path: path.stat().st_mtime_ns for path in store.iterdir()} == kept
    sizes = [path.stat().st_size for path in (tmp_path / "_images").iterdir()]
    assert len(sizes) == 2
    assert max(sizes) < HEAVIEST


DARK, LIGHT = ["dark", "#e8edf3"], ["light", "#18212b"]
