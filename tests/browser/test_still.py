"""A page stands still once it is drawn, and weighs what `weights.py` reads from its files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from browser.measure import DEVICES, Device, load
from browser.weights import weigh

pytestmark = [pytest.mark.browser, pytest.mark.alone]
PAGES = ("index.html", "architectures/gated_deltanet.html", "principles/principle_2.html")
#: Cumulative layout shift of one cold load.
MOST_SHIFT = 0.05


@pytest.fixture(scope="module")
def loads(browser: Any, address: str) -> dict[tuple[str, str], dict[str, float]]:
    return {
        (path, device.name): load(browser, address + path, Device(
            name=device.name, width=device.width, height=device.height))
        for path in PAGES
        for device in DEVICES
    }  # fmt: skip


@pytest.mark.parametrize("device", [device.name for device in DEVICES])
@pytest.mark.parametrize("path", PAGES)
def test_no_text_moves_while_a_page_starts(
    path: str, device: str, loads: dict[tuple[str, str], dict[str, float]]
) -> None:
    assert loads[path, device]["shift"] < MOST_SHIFT


@pytest.mark.parametrize("path", PAGES)
def test_a_browser_loads_what_the_files_say(
    path: str, loads: dict[tuple[str, str], dict[str, float]], site: Path
) -> None:
    assert loads[path, "desktop"]["kB"] == pytest.approx(weigh(site / path).kB, rel=1e-3)
