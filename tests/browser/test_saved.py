"""A page unpacks the state of its figures to what the notebook keeps, bit by bit."""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import nbformat
import pytest
import torch
from browser.explorer_pages import ASSETS, STATE, VIEW, page_html

from book.tools.chapters import BOOK
from book.tools.figure_states import pack_states
from book.tools.programs import models_of
from coefdyn.widgets import Explorer

pytestmark = pytest.mark.browser
Load = Callable[..., Any]
VIEW_OF = f'<script type="{VIEW}">{{{{"model_id": "{{}}"}}}}</script>'

#: A figure that writes down what it is given; the numbers as JavaScript writes them, to all digits.
ECHO = """export default { render({ model, el }) {
  const bytes = model.get("frames");
  el.dataset.frames = [...new Uint8Array(bytes.buffer)].join();
  el.dataset.signs = model.get("values").signs.map((x) => Object.is(x, -0)).join();
  el.dataset.values = JSON.stringify(model.get("values"));
  el.textContent = "drawn";
} };"""


def values() -> dict[str, Any]:
    draw = torch.Generator().manual_seed(0)
    singles = torch.randn(2, 3, 16, generator=draw)
    return {
        "singles": singles.double().tolist(),
        "doubles": torch.randn(64, generator=draw, dtype=torch.float64).tolist(),
        "edges": [1e-45, 3.4e38, 1e-300, 1e300, math.pi, 1 / 3, 0.1, 5e-324],
        "signs": [-0.0, 0.0, 1.0, -1.0, 0.5, -0.5, 2.0, -2.0],
        "ragged": [[0.5, 0.25], [], [0.125]],
        "words": ["η", "</script>", "@same"],
        "whole": list(range(20)),
    }


@pytest.fixture
def load(browser: Any, tmp_path: Path) -> Iterator[Load]:
    """Opens a page, packed, from a file; without ``DecompressionStream`` if that is asked for."""
    pages = []

    def opener(text: str, *, wanted: str, without_gzip: bool = False) -> Any:
        path = tmp_path / "page.html"
        path.write_text(text, encoding="utf-8")
        pack_states(tmp_path)
        assert '{"packed"' in path.read_text(encoding="utf-8")
        page = browser.new_page()
        pages.append(page)
        if without_gzip:
            page.add_init_script("delete window.DecompressionStream")
        page.goto(path.as_uri())
        page.wait_for_selector(wanted)
        return page

    yield opener
    for page in pages:
        page.close()


def test_a_figure_gets_what_the_notebook_keeps(load: Load) -> None:
    frames = bytes(range(256)) * 3
    buffer = {"path": ["frames"], "data": base64.b64encode(frames).decode(), "encoding": "base64"}
    record = {"state": {"_esm": ECHO, "values": values()}, "buffers": [buffer]}
    state = json.dumps({"state": {"one": record}}).replace("</", "<\\/")
    host = (ASSETS / "widget-host.js").read_text(encoding="utf-8")
    page = load(
        '<!doctype html><html><head><meta charset="utf-8"></head><body>'
        f'<main><script type="{VIEW}">{{"model_id": "one"}}</script></main>'
        f'<script type="{STATE}">{state}</script><script>{host}</script></body></html>',
        wanted="[data-values]",
    )
    found = page.locator("[data-values]")
    assert json.loads(found.get_attribute("data-values")) == values()
    assert found.get_attribute("data-signs") == "true" + ",false" * 7
    assert bytes(map(int, found.get_attribute("data-frames").split(","))) == frames


def test_a_viewer_that_knows_no_program_shows_one_line(browser: Any, tmp_path: Path) -> None:
    """A committed notebook's own module, run as nbviewer and other hosts of widgets would."""
    notebook = nbformat.read(BOOK / "since" / "many_heads.ipynb", as_version=4)
    state = json.dumps({"state": models_of(notebook)}).replace("</", "<\\/")
    views = [
        VIEW_OF.format(name) for name, one in models_of(notebook).items() if "_esm" in one.state
    ]
    assert len(views) == 1
    host = (ASSETS / "widget-host.js").read_text(encoding="utf-8")
    path = tmp_path / "page.html"
    path.write_text(
        f'<!doctype html><meta charset="utf-8"><main>{views[0]}</main>'
        f'<script type="{STATE}">{state}</script><script>{host}</script>',
        encoding="utf-8",
    )
    page = browser.new_page()
    page.goto(path.as_uri())
    line = page.locator(".coefdyn-widget", has_text="interactive")
    line.wait_for()
    assert line.inner_text() == (
        'An interactive figure. It runs on the page "Many heads" of the book Coefficient '
        "Dynamics, and under make lab."
    )
    page.close()


def test_a_page_that_cannot_unpack_says_so_at_every_figure(load: Load) -> None:
    text = page_html(Explorer("gla"), Explorer("mamba2"))
    page = load(text, wanted="[role=alert]", without_gzip=True)
    alerts = page.locator("[role=alert]")
    assert alerts.count() == 2
    assert "could not start" in alerts.first.inner_text()
