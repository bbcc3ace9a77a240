"""Tiny static pages with explorers in them, written the way the book writes its pages."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from anywidget import AnyWidget
from browser.kept import Kept, Visit

ASSETS = Path(__file__).resolve().parents[2] / "book" / "assets"
STATE = "application/vnd.jupyter.widget-state+json"
VIEW = "application/vnd.jupyter.widget-view+json"
BACKGROUNDS = {"light": "#ffffff", "dark": "#121212"}

#: pixels of a phone's screen
PHONE = (360, 740)

Open = Callable[..., Any]


def widget_record(explorer: AnyWidget) -> dict[str, object]:
    """Record of one widget in a saved notebook."""
    keys = ("_esm", "_css", "_anywidget_id", *explorer.trait_names(sync=True))
    kept = [key for key in dict.fromkeys(keys) if key not in ("layout", "comm", "tabbable")]
    state = {key: getattr(explorer, key) for key in kept}
    binary = [key for key, value in state.items() if isinstance(value, bytes)]
    buffers = [
        {"path": [key], "data": base64.b64encode(state.pop(key)).decode(), "encoding": "base64"}
        for key in binary
    ]
    kind = {"model_name": "AnyModel", "model_module": "anywidget"}
    return {**kind, "state": state, "buffers": buffers}


def page_html(*explorers: AnyWidget, theme: str = "light") -> str:
    """A page of the book, reduced to its widgets."""
    records = {f"model{m}": widget_record(explorer) for m, explorer in enumerate(explorers)}
    views = "".join(
        f'<script type="{VIEW}">{json.dumps({"model_id": name})}</script>' for name in records
    )
    state = json.dumps({"state": records}).replace("</", "<\\/")
    host = (ASSETS / "widget-host.js").read_text(encoding="utf-8")
    style = f"margin:16px;font-family:sans-serif;background:{BACKGROUNDS[theme]}"
    return (
        f'<!doctype html><html lang="en" data-theme="{theme}"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<title>Explorer</title></head><body style="{style}">'
        f'<main><h1 style="display:none">Explorer</h1>{views}</main>'
        f'<script type="{STATE}">{state}</script><script>{host}</script></body></html>'
    )


def write_page(folder: Path, *explorers: AnyWidget, theme: str = "light") -> str:
    """Writes the page and returns its file:// address."""
    path = folder / "page.html"
    path.write_text(page_html(*explorers, theme=theme), encoding="utf-8")
    return path.as_uri()


def until_drawn(page: Any, number: int) -> None:
    """Waits until so many explorers show their row sums; a figure is there before its numbers."""
    page.wait_for_function(
        "(number) => [...document.querySelectorAll('[data-cd=row-sum]')]"
        ".filter((sum) => sum.dataset.value).length === number",
        arg=number,
    )


@pytest.fixture
def open_page(stages: Kept, browser: Any, tmp_path: Path) -> Iterator[Open]:
    """Opens a page with explorers; any error in it or any request to a host fails the test.

    There is one page: a second one of a test takes the place of the first. With ``clock`` the test
    can take over the page's timers (:func:`hold_time`); that page, and one asked for as ``fresh``,
    no other test has had.
    """
    seen: list[Visit] = []
    own = Kept(browser)

    def opener(
        *explorers: AnyWidget,
        width: int = 1100,
        theme: str = "light",
        fragment: str = "",
        ready: str = "explorer",
        clock: bool = False,
        fresh: bool = False,
    ) -> Any:
        address = write_page(tmp_path, *explorers, theme=theme) + fragment
        pages = own if clock or fresh else stages
        visit = pages.open(address, home="file:", size=(width, 900), clock=clock)
        seen.append(visit)
        visit.page.wait_for_selector(f"[data-cd={ready}]")
        return visit.page

    yield opener
    own.close()
    stages.rest()
    assert [one for visit in seen for one in (*visit.foreign, *visit.console)] == []


@pytest.fixture
def phone(stages: Kept, tmp_path: Path) -> Iterator[Callable[[AnyWidget], Any]]:
    """Opens an explorer where there is a finger and no mouse; errors in the page fail the test."""
    seen: list[Visit] = []

    def opener(explorer: AnyWidget) -> Any:
        address = write_page(tmp_path, explorer)
        visit = stages.open(address, home="file:", size=PHONE, has_touch=True, is_mobile=True)
        seen.append(visit)
        visit.page.wait_for_selector("[data-cd=explorer]")
        return visit.page

    yield opener
    assert [one for visit in seen for one in (*visit.foreign, *visit.console)] == []


def ask(page: Any, function: str, argument: Any = None) -> Any:
    """``page.evaluate`` by way of two texts, for many finite numbers.

    Playwright wraps each number of an argument and of an answer in an object of its own, which
    takes longer than what the tests compute. Both ways a number keeps all its digits.
    """
    script = f"async (text) => JSON.stringify(await ({function})(JSON.parse(text)) ?? null)"
    return json.loads(page.evaluate(script, json.dumps(argument, allow_nan=False)))


def number(page: Any, hook: str) -> float:
    """Displayed number, with all its digits."""
    return float(page.get_attribute(f"[data-cd={hook}]", "data-value"))


def text(page: Any, hook: str) -> str:
    return page.inner_text(f"[data-cd={hook}]")


def heard(page: Any) -> dict[str, float]:
    """The words of the answer and how much of each."""
    rows = "n => n.filter(x => !x.hidden).map(x => [x.firstChild.textContent, x.dataset.value])"
    pairs = page.eval_on_selector_all(".cdx-answer", rows)
    return {word: float(value) for word, value in pairs if value is not None}


def settle(page: Any) -> None:
    """Waits for the frame that a change has asked for."""
    page.evaluate("new Promise((done) => requestAnimationFrame(() => setTimeout(done)))")


def press(page: Any, hook: str) -> None:
    """Clicks and waits for the frame that follows."""
    page.click(f"[data-cd={hook}]")
    settle(page)


def hold_time(page: Any) -> None:
    """From now on time passes in the page only by ``page.clock.run_for(milliseconds)``."""
    page.clock.pause_at(page.evaluate("Date.now()") + 60_000)


def slide(page: Any, key: str, value: float) -> None:
    """Moves a slider as a reader's hand would: input, then change; waits for the frame."""
    page.evaluate(
        """([key, value]) => {
          const input = document.querySelector(`[data-cd=control-${key}]`);
          input.value = value;
          input.dispatchEvent(new Event("input", { bubbles: true }));
          input.dispatchEvent(new Event("change", { bubbles: true }));
          return new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
        }""",
        [key, value],
    )
