"""Sizes of the built pages, compared with the book's first version; run by hand.

    python tests/browser/measure_tables.py [--site book/_build/html] [--repeats 3] [--only loads]

from the top of the repository.

- ``weights``: kilobytes of every page without its pictures, uncompressed, the heaviest first, by
  what they are; read from the files (`weights.py`), so that this table needs no browser.

Three tables more, each entry "then > now"; what was measured then is in `first_version.json`.

- ``loads``: kilobytes with pictures, times in milliseconds, how far the layout shifted, the longest
  task.
- ``views``: how many pixels of screen hold an explorer's matrix and one control that has been
  scrolled to; what is more than the window's 852 (phone: 692) cannot be seen together. How many
  controls lie below the window's edge when the explorer's top is at its upper edge, how many are on
  show, and the explorer's height.
- ``chapters``: where the first picture, the first figure with controls and the full explorer stand,
  in screens of 900 pixels; lines of code on show in the reading "Code", and their share of the
  height.
"""

from __future__ import annotations

import argparse
import json
import statistics
from pathlib import Path
from typing import Any

from measure import DEVICES, chromium, load, served
from weights import MOST_KILOBYTES, pages_below, weigh

from book.tools.html import HTML

THEN = Path(__file__).with_name("first_version.json")
DESKTOP, PHONE = DEVICES
#: What the book's header leaves of a window.
ROOM = {DESKTOP.name: DESKTOP.height - 48, PHONE.name: PHONE.height - 48}
CONTROLS = ("decay", "beta", "scale", "normalizer", "length")
LOADED = {"whole_kB": 0, "paint": 0, "ready": 0, "load": 0, "shift": 3, "task": 0}
VIEWED = {**dict.fromkeys(CONTROLS, 0), "below": 0, "controls": 0, "height": 0}
PLACED = {"screens": 1, "picture": 1, "figure": 1, "explorer": 1, "lines": 0, "share": 0}
#: By the name of a view: its page, the panel that is open, the device.
VIEWS = {
    "gated_deltanet, desktop": ("architectures/gated_deltanet.html", "", DESKTOP),
    "gated_deltanet with Stability, desktop": (
        "architectures/gated_deltanet.html",
        "stability",
        DESKTOP,
    ),
    "index, desktop": ("index.html", "", DESKTOP),
    "gated_deltanet, phone": ("architectures/gated_deltanet.html", "", PHONE),
}
ONE_FRAME = "() => new Promise((done) => requestAnimationFrame(() => setTimeout(done)))"
#: A control by name: that of a card before others; the words, where words decide the length.
FIND = """(name) => {
  const root = document.querySelector("[data-cd=explorer]");
  const text = root.querySelector("[data-cd=control-text]");
  if (name === "length" && text?.checkVisibility()) return text;
  return root.querySelector(`.cdx-card [data-cd=control-${name}]`)
    ?? root.querySelector(`[data-cd=control-${name}]`);
}"""
#: Opens whatever holds the control, a card's tab on a phone or a fold.
REACH = """(control) => {
  const root = document.querySelector("[data-cd=explorer]");
  const card = control.closest("fieldset.cdx-card")?.dataset.ingredient;
  const tab = card && root.querySelector(`[data-cd=tab-${card}]`);
  if (tab?.checkVisibility()) tab.click();
  for (let e = control.closest("details"); e; e = e.parentElement.closest("details")) e.open = true;
}"""
#: Scrolls to the control and tells how high a window must be that shows it with the matrix.
SPAN = """(control) => {
  const matrix = document.querySelector("[data-cd=explorer] [data-cd=matrix]");
  const edge = control.getBoundingClientRect().bottom + scrollY;
  scrollTo({ top: edge - innerHeight + 12, behavior: "instant" });
  const [one, other] = [matrix.getBoundingClientRect(), control.getBoundingClientRect()];
  if (!control.checkVisibility()) return null;
  return Math.max(one.bottom, other.bottom) - Math.min(one.top, other.top);
}"""
COUNT = """([room]) => {
  const root = document.querySelector("[data-cd=explorer]");
  const { top, height } = root.getBoundingClientRect();
  const shown = [...root.querySelectorAll("button, input, select, textarea, summary")]
    .filter((e) => e.checkVisibility());
  const below = shown.filter((e) => e.getBoundingClientRect().bottom - top > room);
  return { below: below.length, controls: shown.length, height };
}"""
PLACES = """() => {
  const screen = 900;
  const at = (e) => (e ? (e.getBoundingClientRect().top + scrollY) / screen : null);
  const shown = (selector, least) => [...document.querySelectorAll(selector)].find((e) => {
    const { width, height } = e.getBoundingClientRect();
    return e.checkVisibility() && width >= 150 && height >= least;
  });
  const whole = document.documentElement.scrollHeight;
  const code = [...document.querySelectorAll(".bd-article .cell_input")]
    .filter((e) => e.checkVisibility() && e.getBoundingClientRect().height > 0);
  const lines = code.map((e) => e.querySelector("pre").innerText.trimEnd().split("\\n").length);
  const sum = (values) => values.reduce((a, b) => a + b, 0);
  return {
    screens: whole / screen,
    picture: at(shown(".bd-article :is(img, canvas, svg)", 60)),
    figure: at(shown(".bd-article :is([data-cd=small], [data-cd=explorer])", 60)),
    explorer: at(shown("[data-cd=explorer]", 60)),
    lines: sum(lines),
    share: 100 * sum(code.map((e) => e.getBoundingClientRect().height)) / whole,
  };
}"""


def opened(browser: Any, address: str, device: Any) -> Any:
    """A page whose explorer is alive."""
    page = browser.new_page(viewport={"width": device.width, "height": device.height})
    page.goto(address)
    page.wait_for_selector("[data-cd=explorer]")
    page.evaluate(ONE_FRAME)
    return page


def loads(browser: Any, home: str, repeats: int) -> dict[str, Any]:
    """Medians over a few cold loads of the pages that were measured then."""
    found = {}
    devices = {device.name: device for device in DEVICES}
    for place in json.loads(THEN.read_text(encoding="utf-8"))["loads"]:
        path, _, device = place.partition(" ")
        runs = [load(browser, home + path, devices[device]) for _ in range(repeats)]
        found[place] = {name: statistics.median(run[name] for run in runs) for name in LOADED}
    return found


def views(browser: Any, home: str, repeats: int) -> dict[str, Any]:
    """Views that fit on the screen together in the first explorer of a page."""
    found = {}
    for name, (path, panel, device) in VIEWS.items():
        page = opened(browser, home + path, device)
        if panel:
            page.click(f"[data-cd=panel-{panel}]")
            page.wait_for_selector(f".cdx-panel-{panel} canvas")
            page.evaluate(ONE_FRAME)
        spans = {}
        counted = page.evaluate(COUNT, [ROOM[device.name]])
        for control in CONTROLS:
            element = page.evaluate_handle(FIND, control)
            page.evaluate(REACH, element)
            page.evaluate(ONE_FRAME)
            page.evaluate(SPAN, element)
            page.evaluate(ONE_FRAME)  # what is sticky has come to rest
            spans[control] = page.evaluate(SPAN, element)
        found[name] = {**spans, **counted}
        page.close()
    return found


def chapters(browser: Any, home: str, repeats: int) -> dict[str, Any]:
    """Positions of a chapter's figures, at 1440 x 900 with code on."""
    found = {}
    for path in json.loads(THEN.read_text(encoding="utf-8"))["chapters"]:
        page = opened(browser, home + path, DESKTOP)
        found[path] = page.evaluate(PLACES)
        page.close()
    return found


def weights(site: Path) -> None:
    """Print what every page weighs, the heaviest first."""
    found = {page: weigh(page) for page in pages_below(site)}
    print(f"Kilobytes without pictures; the limit is {MOST_KILOBYTES}.")
    print(f"\n| weights | kB | html | styles | scripts | fonts |\n|{' --- |' * 6}")
    for page, one in sorted(found.items(), key=lambda item: -item[1].kB):
        parts = (one.kB, one.html, one.styles, one.scripts, one.fonts)
        cells = " | ".join(f"{value:.0f}" for value in parts)
        print(f"| {page.relative_to(site).as_posix()} | {cells} |")


def told(then: float | None, now: float | None, digits: int) -> str:
    """One entry of a table; a dash for what was not measured."""
    first, second = ("-" if value is None else f"{value:.{digits}f}" for value in (then, now))
    return f"{first} > {second}"


TABLES = {"loads": (loads, LOADED), "views": (views, VIEWED), "chapters": (chapters, PLACED)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--site", type=Path, default=HTML)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--only", choices=["weights", *TABLES])
    given = parser.parse_args()
    if given.only in (None, "weights"):
        weights(given.site)
    if given.only == "weights":
        return
    kept = json.loads(THEN.read_text(encoding="utf-8"))
    print(kept["about"])
    with served(given.site) as home, chromium() as browser:
        for name, (measured, columns) in TABLES.items():
            if given.only not in (None, name):
                continue
            print(f"\n| {name} | {' | '.join(columns)} |\n|{' --- |' * (len(columns) + 1)}")
            for place, now in measured(browser, home, given.repeats).items():
                then = kept[name][place]
                cells = (told(then.get(key), now[key], digits) for key, digits in columns.items())
                print(f"| {place} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
