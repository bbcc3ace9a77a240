"""A page stands still once it is drawn, and weighs what `weights.py` reads from its files."""

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
