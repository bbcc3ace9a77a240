"""Shared by all tests: shapes checked at run time, state given back, one torch thread, a browser.

Shape annotations are checked by jaxtyping with beartype while tests run. Tests marked `compile`
run without that check, since torch.compile cannot trace it: `pytest -m compile --no-shape-checks`
(`make test` runs both). A run of the browser tests alone is without it too: they are about pages,
and what they call of the library is called by the unit tests with the check.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
MAC_BROWSERS = (
    "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
    "/Applications/Chromium.app/Contents/MacOS/Chromium",
)

#: the cases that are left to the run of all, and those that passed on the files as they are
LEFT_OUT = pytest.StashKey[list[str]]()
PASSED = pytest.StashKey[list[str]]()
#: seconds that a case is charged for
PRICE = pytest.StashKey[float]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--no-shape-checks",
        action="store_true",
        help="do not check shape annotations at run time; torch.compile tests need this",
    )
    parser.addoption(
        "--errors", action="store_true", help="print how many comparisons, and the largest error"
    )


def pytest_sessionfinish(session: pytest.Session) -> None:
    """A worker of xdist hands over its comparisons, and the cases that it left out."""
    if not hasattr(session.config, "workeroutput"):
        return
    session.config.workeroutput["later"] = session.config.stash.get(LEFT_OUT, [])
    session.config.workeroutput["passed"] = session.config.stash.get(PASSED, [])
    if session.config.getoption("--errors"):
        from tolerances import FOUND

        session.config.workeroutput["found"] = list(FOUND.items())


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    from tolerances import FOUND

    for key, (count, error) in getattr(node, "workeroutput", {}).get("found", ()):
        before = FOUND.get(tuple(key), [0, 0.0])
        FOUND[tuple(key)] = [before[0] + count, max(before[1], error)]


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    if not config.getoption("--errors"):
        return
    from tolerances import FOUND

    terminalreporter.section("comparisons, and the largest relative error")
    for key in sorted(FOUND):
        count, error = FOUND[key]
        terminalreporter.write_line(f"{' '.join(key):<32} {int(count):>8} {error:10.1e}")


def _shapes_are_checked(config: pytest.Config) -> bool:
    have = all(importlib.util.find_spec(name) for name in ("jaxtyping", "beartype"))
    asked = [Path(argument).as_posix() for argument in config.args]
    pages = bool(asked) and all("tests/browser" in place for place in asked)
    return bool(have) and not pages and not config.getoption("--no-shape-checks")


def pytest_configure(config: pytest.Config) -> None:
    if _shapes_are_checked(config) and "coefdyn" not in sys.modules:
        from shape_checks import check_shapes_of

        check_shapes_of("coefdyn")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Tests of torch.compile are left to the run without shape checks; `--sample` leaves cases."""
    if config.getoption("--sample"):
        from sample import cases_of, sampled

        nightly = {item.nodeid for item in items if item.get_closest_marker("nightly")}
        kept = sampled(cases_of(item for item in items if item.nodeid not in nightly))
        whole_run = [item for item in items if item.nodeid not in kept]
        for item in whole_run:
            item.is_left_to_the_whole_run = True
        config.stash[LEFT_OUT] = [item.nodeid for item in whole_run]
        items[:] = [item for item in items if item.nodeid in kept]
        config.hook.pytest_deselected(items=whole_run)
    for item in items:
        mark = item.get_closest_marker("dear")
        item.user_properties += [("dear", mark.args[0])] if mark else []
    if config.getoption("--sample") or config.getoption("--notes"):
        from passed import that_passed

        before = that_passed(items)
        if before and config.getoption("--sample"):
            config.stash[PASSED] = [item.nodeid for item in before]
            items[:] = [item for item in items if item not in before]
            config.hook.pytest_deselected(items=before)
    if not _shapes_are_checked(config):
        return
    later = [item for item in items if item.get_closest_marker("compile")]
    if later:
        config.hook.pytest_deselected(items=later)
        items[:] = [item for item in items if item not in later]


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Under ``-m NAME`` files that never name the mark are not even imported."""
    mark = config.getoption("markexpr")
    if not mark.isidentifier() or collection_path.suffix != ".py":
        return None
    helper = not collection_path.name.startswith("test_")
    return None if helper or f"mark.{mark}" in collection_path.read_text("utf-8") else True


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Fixtures of a whole file draw the same whichever of its tests comes first."""
    from global_state import seed_all

    seed_all(item.nodeid.partition("::")[0])


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """What a test costs, its browser included; price.py says how."""
    from price import priced, processor_seconds

    in_browser = item.get_closest_marker("browser") is not None
    before, started = processor_seconds(in_browser), time.perf_counter()
    try:
        return (yield)
    finally:
        clock = time.perf_counter() - started
        item.stash[PRICE] = priced(clock, processor_seconds(in_browser) - before)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
    report = yield
    if call.when == "call" and PRICE in item.stash:
        report.price = item.stash[PRICE]
    return report


@pytest.fixture(autouse=True)
def _as_if_alone(request: pytest.FixtureRequest) -> Iterator[None]:
    """No test sees what another left: random state by name, all other global state given back."""
    from global_state import give_back, seed_all, take

    before = take()
    seed_all(request.node.nodeid)
    yield
    give_back(before)


@pytest.fixture(scope="session", autouse=True)
def _one_thread() -> None:
    """Tests run beside each other, one to a core."""
    import torch

    torch.set_num_threads(1)


@pytest.fixture
def no_shape_checks() -> Iterator[None]:
    """For tests of the library's own messages: what a user sees, without jaxtyping in between."""
    try:
        from jaxtyping import config
    except ImportError:
        yield
        return
    before = config.jaxtyping_disable
    config.update("jaxtyping_disable", True)
    yield
    config.update("jaxtyping_disable", before)


@pytest.fixture(scope="session")
def chromium_path() -> str | None:
    """The installed Chromium; None lets Playwright use the one it installed itself.

    Where there is neither, browser tests are skipped, or fail with COEFDYN_REQUIRE_BROWSER=1.
    """
    found = next(filter(None, map(shutil.which, BROWSERS)), None)
    found = found or next((path for path in MAC_BROWSERS if Path(path).exists()), None)
    if found or _playwright_has_chromium():
        return found
    message = (
        "browser tests need Chromium and found none: install the system's package 'chromium', "
        "or run '.venv/bin/python -m playwright install chromium'"
    )
    if os.environ.get("COEFDYN_REQUIRE_BROWSER") == "1":
        pytest.fail(message)
    pytest.skip(message)


def _playwright_has_chromium() -> bool:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        return Path(playwright.chromium.executable_path).exists()


@pytest.fixture(scope="session")
def browser(chromium_path):
    """A headless Chromium for the session that reaches no other host."""
    from playwright.sync_api import sync_playwright

    quiet = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
    quiet += ["--disable-component-update", "--disable-sync", "--no-first-run", "--disable-quic"]
    # Pages have the HTTP cache, which a route in Playwright would take from them.
    quiet += ["--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"]
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=chromium_path, args=quiet)
        yield chromium
        chromium.close()
