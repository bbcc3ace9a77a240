"""A page stands still once it is drawn, and weighs what `weights.py` reads from its files.

On a phone it is usable before the figures out of sight are built: they wait for an idle moment.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from browser.measure import DEVICES, Device, load
from browser.weights import weigh

pytestmark = [pytest.mark.browser, pytest.mark.alone]
NIGHTLY = pytest.mark.nightly("the landing page and a row")
PAGES = (
    "index.html",
    "architectures/gated_deltanet.html",
    pytest.param("principles/principle_2.html", marks=NIGHTLY),
)
#: Cumulative layout shift of one cold load.
MOST_SHIFT = 0.05


@pytest.fixture(scope="module")
def loaded(browser: Any, address: str) -> Callable[[str, str], dict[str, float]]:
    """What one cold load of a page on a device measures."""

    @cache
    def once(path: str, device: str) -> dict[str, float]:
        (of,) = (one for one in DEVICES if one.name == device)
        same = Device(name=of.name, width=of.width, height=of.height)
        return load(browser, address + path, same)

    return once


@pytest.mark.parametrize("device", [device.name for device in DEVICES])
@pytest.mark.parametrize("path", PAGES)
def test_no_text_moves_while_a_page_starts(path: str, device: str, loaded: Any) -> None:
    assert loaded(path, device)["shift"] < MOST_SHIFT


@pytest.mark.parametrize("path", PAGES)
def test_a_browser_loads_what_the_files_say(path: str, loaded: Any, site: Path) -> None:
    assert loaded(path, "desktop")["kB"] == pytest.approx(weigh(site / path).kB, rel=1e-3)


#: Idle moments come when the test says so.
BUSY = "window.requestIdleCallback = (call) => { window.cdIdle = call; };"
BUILT = """() => [...document.querySelectorAll(".coefdyn-widget")]
  .map((place) => place.querySelector(".cdx:not(.cdx-unready)") !== null)"""


@pytest.mark.parametrize(
    "path", ["second_view/dynamical_systems.html", pytest.param("by_hand.html", marks=NIGHTLY)]
)
def test_a_figure_out_of_sight_waits_for_an_idle_moment_or_the_reader(
    path: str, browser: Any, address: str
) -> None:
    phone = DEVICES[1]
    page = browser.new_page(viewport={"width": phone.width, "height": phone.height})
    page.add_init_script(BUSY)
    page.goto(address + path)
    page.wait_for_function("() => Boolean(window.cdIdle)")
    page.wait_for_timeout(500)
    built = page.evaluate(BUILT)
    assert len(built) > 1 and not any(built)
    expected = [False] * (len(built) - 1) + [True]
    last = "[...document.querySelectorAll('.cd-room')].at(-1)"
    page.evaluate(f"() => {last}.scrollIntoView({{ behavior: 'instant' }})")  # past the others
    page.wait_for_function(f"({BUILT})().at(-1)")
    assert page.evaluate(BUILT) == expected
    page.wait_for_function(f"() => (window.cdIdle(), ({BUILT})().every(Boolean))")
    page.close()
