"""The built book on a local server, and pages opened with every other host blocked."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from book.tools import html

#: Roots of the interactive figures.
FIGURES = "[data-cd=explorer], [data-cd=small], [data-cd=trainer]"


@dataclass
class Visit:
    """One opened page and everything that went wrong on it."""

    page: Any
    foreign: list[str] = field(default_factory=list)
    console: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)

    def settle(self) -> Visit:
        """Wait until the page is loaded and its widgets are drawn."""
        self.page.wait_for_load_state("load")
        views = self.page.locator('script[type="application/vnd.jupyter.widget-view+json"]')
        for number in range(views.count()):
            self.page.locator(FIGURES).nth(number).wait_for()
        return self

    def whole(self) -> Visit:
        """Nothing was asked of another host, nothing failed to load, no error was reported."""
        assert (self.foreign, self.failed, self.console) == ([], [], [])
        return self


@pytest.fixture(scope="session")
def site() -> Path:
    """The built pages; builds them first when they are missing or out of date.

    Pages that are up to date have their stills, which are put again by a build alone.
    """
    if not html.up_to_date(html.current_digest()) and html.main([]) != 0:
        pytest.fail(f"the book does not build; see {html.LOG}. Run: python -m book.tools.html")
    return html.HTML


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        """Say nothing: the tests report what matters."""


@pytest.fixture(scope="session")
def address(site: Path) -> Iterator[str]:
    """Address of the served book, with a slash at its end."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(_Quiet, directory=str(site)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()
    server.server_close()


@pytest.fixture
def visit(browser: Any, address: str) -> Iterator[Callable[..., Visit]]:
    """Opens ``visit("start.html", width=360, scheme="dark")`` and records what goes wrong."""
    contexts = []

    def opener(
        path: str, *, width: int = 1280, scheme: str = "light", base: str | None = None
    ) -> Visit:
        home = base or address
        context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
        contexts.append(context)
        seen = Visit(context.new_page())

        def route(handler: Any) -> None:
            if handler.request.url.startswith((home, "blob:", "data:")):
                handler.continue_()
            else:
                seen.foreign.append(handler.request.url)
                handler.abort()

        context.route("**/*", route)
        seen.page.on("console", lambda m: seen.console.append(m.text) if m.type == "error" else 0)
        seen.page.on("pageerror", lambda error: seen.console.append(str(error)))
        seen.page.on("requestfailed", lambda r: seen.failed.append(r.url))
        seen.page.on(
            "response",
            lambda r: seen.failed.append(f"{r.status} {r.url}") if r.status >= 400 else 0,
        )
        seen.page.goto(home + path)
        return seen.settle()

    yield opener
    for context in contexts:
        context.close()
