"""The built book on a local server, and pages opened where no other host can be reached."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from browser.kept import Kept, Visit

from book.tools import html

__all__ = ["Visit"]


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

    def end_headers(self) -> None:
        """The pages stay as they are for as long as they are served."""
        self.send_header("Cache-Control", "max-age=3600")
        super().end_headers()


@pytest.fixture(scope="session")
def address(site: Path) -> Iterator[str]:
    """Address of the served book, with a slash at its end."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(_Quiet, directory=str(site)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()
    server.server_close()


@pytest.fixture(scope="session")
def stages(browser: Any) -> Iterator[Kept]:
    """Pages that are opened again and again."""
    pages = Kept(browser)
    yield pages
    pages.close()


@pytest.fixture
def visit(stages: Kept, address: str) -> Callable[..., Visit]:
    """Opens ``visit("start.html", width=360, scheme="dark")`` and records what goes wrong.

    There is one page: a second visit of a test takes the place of the first.
    """

    def opener(
        path: str, *, width: int = 1280, scheme: str = "light", base: str | None = None
    ) -> Visit:
        home = base or address
        return stages.open(home + path, home=home, size=(width, 900), scheme=scheme).settle()

    return opener
