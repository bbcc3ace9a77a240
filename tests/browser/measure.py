"""Measures the built pages in Chromium; run by hand, from the top of the repository.

    python tests/browser/measure.py heights [--site book/_build/html]

writes the heights of all figures to `book/tools/figure_heights.json`, from which `make book`
reserves them. :func:`load` is one cold load of a page on a device, for `test_still.py`: `ready` is
when its first explorer is drawn, wherever it stands, and `answers` when the loaded page first has
nothing to do, so that it answers a hand at once. A phone is 360 pixels wide with the processor
slowed four times.
"""

from __future__ import annotations

import argparse
import functools
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from book.tools.figure_heights import HEIGHTS, SCREENS
from book.tools.html import HTML

CHROMIUM = "/usr/bin/chromium"
#: Started before the page's own scripts.
WATCH = """() => {
  window.cdShift = 0; window.cdTask = 0;
  new PerformanceObserver((list) => list.getEntries()
    .forEach((e) => { if (!e.hadRecentInput) window.cdShift += e.value; }))
    .observe({ type: "layout-shift", buffered: true });
  new PerformanceObserver((list) => list.getEntries()
    .forEach((e) => { window.cdTask = Math.max(window.cdTask, e.duration); }))
    .observe({ type: "longtask", buffered: true });
  const idle = () => requestIdleCallback(() => { window.cdAnswers = performance.now(); });
  addEventListener("load", idle);
}"""
READ = """() => {
  const paint = performance.getEntriesByName("first-contentful-paint")[0];
  const ready = performance.getEntriesByName("cd-ready")[0];
  const [page] = performance.getEntriesByType("navigation");
  return { paint: paint?.startTime ?? 0, ready: ready?.startTime ?? 0, load: page.loadEventEnd,
    answers: window.cdAnswers ?? 0, shift: window.cdShift, task: window.cdTask };
}"""
ROOMS = """() => [...document.querySelectorAll(".cd-room")].map((room) => {
  const figure = room.querySelector(".coefdyn-widget");
  if (!figure) return [room.dataset.room, 0];
  const style = getComputedStyle(figure);
  const margins = parseFloat(style.marginTop) + parseFloat(style.marginBottom);
  return [room.dataset.room, Math.ceil(figure.getBoundingClientRect().height + margins)];
})"""


@dataclass(frozen=True, kw_only=True)
class Device:
    """Device of a page: CSS pixels, and the factor by which the processor is slowed."""

    name: str
    width: int
    height: int
    slower: int = 1


DEVICES = (
    Device(name="desktop", width=1440, height=900),
    Device(name="phone x4", width=360, height=740, slower=4),
)


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


@contextmanager
def served(site: Path) -> Iterator[str]:
    """The pages of `site` on this machine; yields their address, with a slash at its end."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(site)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/"
    finally:
        server.shutdown()


@contextmanager
def chromium() -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    path = CHROMIUM if Path(CHROMIUM).exists() else None
    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield browser
        browser.close()


def load(browser: Any, address: str, device: Device) -> dict[str, float]:
    """One cold load of a page: its times in milliseconds, its bytes, its layout shift."""
    context = browser.new_context(viewport={"width": device.width, "height": device.height})
    page = context.new_page()
    got: list[Any] = []
    page.on("response", lambda response: got.append(response))
    page.add_init_script(f"({WATCH})()")
    if device.slower > 1:
        client = context.new_cdp_session(page)
        client.send("Emulation.setCPUThrottlingRate", {"rate": device.slower})
    page.goto(address)
    page.wait_for_load_state("load")
    page.wait_for_timeout(1500)
    told = page.evaluate(READ)
    own = [one for one in got if not one.url.startswith("blob:")]
    heavy = [one for one in own if not one.headers.get("content-type", "").startswith("image/")]
    weight, whole = (sum(len(one.body()) for one in some) for some in (heavy, own))
    context.close()
    return {"kB": weight / 1000, "whole_kB": whole / 1000, **told}


def heights(site: Path) -> None:
    """Measure every figure of every page at each width and write the file."""
    found: dict[str, dict[str, int]] = {}
    pages = [p for p in sorted(site.rglob("*.html")) if 'class="cd-room"' in p.read_text("utf-8")]
    with served(site) as home, chromium() as browser:
        for name, width in SCREENS.items():
            page = browser.new_page(viewport={"width": width, "height": 900})
            for path in pages:
                page.goto(home + path.relative_to(site).as_posix())
                page.wait_for_load_state("load")
                page.wait_for_timeout(1000)
                for key, height in page.evaluate(ROOMS):
                    known = found.setdefault(key, dict.fromkeys(SCREENS, 0))
                    known[name] = max(known[name], height)
    HEIGHTS.write_text(json.dumps(found, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    print(f"{len(found)} figures on {len(pages)} pages: {HEIGHTS}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=["heights"])
    parser.add_argument("--site", type=Path, default=HTML)
    heights(parser.parse_args().site)


if __name__ == "__main__":
    main()
