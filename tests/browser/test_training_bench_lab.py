"""The bench in JupyterLab: a pressed button trains, numbers arrive while it does, Stop ends it."""

from __future__ import annotations

from typing import Any

import pytest
from browser import test_explorer_lab as explorer_lab

pytestmark = [pytest.mark.browser, pytest.mark.alone]

lab = explorer_lab.lab

CELLS = (
    "from coefdyn.lab.bench.trial import Choices\n"
    "from coefdyn.lab.bench import TrainingBench\n"
    "bench = TrainingBench(Choices(size='tiny', steps=5000, seed=1))\n"
    "bench",
    "trial = bench.trials[-1]\nprint(trial.state, trial.done)",
)


def test_the_button_trains_until_it_is_stopped(
    monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest, browser: Any
) -> None:
    monkeypatch.setattr(explorer_lab, "CELLS", CELLS)
    page = explorer_lab.open_lab(browser, request.getfixturevalue("lab"))
    page.wait_for_selector(".jp-Notebook .jp-CodeCell", timeout=60_000)
    explorer_lab._run_cell(page, 0)
    train = page.wait_for_selector("button:text-is('Train')", timeout=60_000)
    train.click()
    words = page.locator(".widget-html-content").first
    page.wait_for_function(
        "() => /step [1-9]\\d* of 5000/.test(document.body.innerText)", timeout=60_000
    )
    page.wait_for_function(
        "() => document.querySelector('.widget-image')?.naturalWidth > 500", timeout=60_000
    )
    page.click("button:text-is('Stop')")
    page.wait_for_function(
        "() => /stopped at step \\d+ of 5000/.test(document.body.innerText)", timeout=60_000
    )
    said = words.inner_text()
    explorer_lab._run_cell(page, 1)
    printed = page.locator(".jp-OutputArea-output pre").last
    printed.wait_for(timeout=60_000)
    state, done = printed.inner_text().split()
    assert state == "stopped"
    assert f"stopped at step {done} of 5000" in said
    assert page.locator("button:text-is('Train')").is_enabled()
    page.close()
