"""Pages that test after test opens anew: a new context costs more than most of what is asked.

A page is kept for each set of a context's options. Before it is opened again everything that the
test before may have left in it goes: storage, media, the pointer, routes, other pages.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

__all__ = ["Kept", "Visit"]

#: Roots of the interactive figures.
FIGURES = "[data-cd=explorer], [data-cd=small], [data-cd=trainer]"
PATIENCE_MS = 30_000
#: nothing of the reader's system but what a test asks for
NEUTRAL = {"media": "null", "reduced_motion": "null", "forced_colors": "null"}


@dataclass
class Visit:
    """One opened page and everything that went wrong on it."""

    page: Any
    home: str = ""
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


class Stage:
    """A page in a context of its own, and the visit that is under way in it."""

    def __init__(self, browser: Any, options: dict[str, Any], clock: bool) -> None:
        self.context = browser.new_context(**options)
        self.page = self.context.new_page()
        if clock:
            self.page.clock.install()
        self.seen = Visit(self.page)
        self.context.on("request", self._asked)
        self.page.on("console", self._said)
        self.page.on("pageerror", lambda error: self.seen.console.append(str(error)))
        self.page.on("requestfailed", lambda r: self.seen.failed.append(r.url))
        self.page.on("response", self._answered)

    def _asked(self, request: Any) -> None:
        if not request.url.startswith((self.seen.home, "blob:", "data:")):
            self.seen.foreign.append(request.url)

    def _said(self, message: Any) -> None:
        if message.type == "error":
            self.seen.console.append(message.text)

    def _answered(self, response: Any) -> None:
        if response.status >= 400:
            self.seen.failed.append(f"{response.status} {response.url}")

    def forget(self) -> None:
        """Leave nothing of a visit but the document."""
        for page in self.context.pages:
            if page is not self.page:
                page.close()
        self.page.unroute_all(behavior="ignoreErrors")
        self.page.set_default_timeout(PATIENCE_MS)
        if self.page.url.startswith(("http:", "file:")):
            self.page.evaluate("() => { localStorage.clear(); sessionStorage.clear(); }")

    def open(self, address: str, home: str, size: tuple[int, int], scheme: str) -> Visit:
        self.forget()
        self.page.set_viewport_size({"width": size[0], "height": size[1]})
        self.page.emulate_media(**{**NEUTRAL, "color_scheme": scheme})
        self.page.mouse.move(-1, -1)
        self.seen = Visit(self.page, home)
        # The same address with another fragment would be no new document.
        if self.page.url.partition("#")[0] == address.partition("#")[0]:
            self.page.goto("about:blank")
            self.seen.foreign.clear()
        self.page.goto(address)
        return self.seen


class Kept:
    """The pages of a session, one for each set of options of a context."""

    def __init__(self, browser: Any) -> None:
        self.browser = browser
        self.stages: dict[tuple[Any, ...], Stage] = {}

    def open(
        self,
        address: str,
        *,
        home: str = "",
        size: tuple[int, int] = (1280, 900),
        scheme: str = "light",
        clock: bool = False,
        **options: Any,
    ) -> Visit:
        """Open an address as if nothing had been opened before.

        Args:
            address: of the page.
            home: what the addresses of all requests begin with, unless they are foreign.
            size: of the window, in pixels.
            scheme: "light" or "dark".
            clock: whether a test can take over the page's timers.
            options: of the context.
        """
        key = (clock, *sorted(options.items()))
        stage = self.stages.get(key)
        if stage is None or stage.page.is_closed():
            stage = self.stages[key] = Stage(self.browser, options, clock)
        return stage.open(address, home, size, scheme)

    def rest(self) -> None:
        """Leave pages that train: they would go on."""
        for stage in self.stages.values():
            if not stage.page.is_closed() and stage.page.query_selector("[data-cd=trainer]"):
                stage.page.goto("about:blank")

    def close(self) -> None:
        for stage in self.stages.values():
            stage.context.close()
