"""The bench in JupyterLab: the page's own figure, computed in the page and in the kernel."""

from __future__ import annotations

from typing import Any

import pytest
from browser import test_explorer_lab as explorer_lab

pytestmark = [pytest.mark.browser, pytest.mark.alone]

lab = explorer_lab.lab

CELLS = (
    "from coefdyn.lab.bench import TrainingBench\nbench = TrainingBench(seed=1)\nbench",
    "(run,) = bench._runs.values()\nprint(run.t)",
)
PATIENCE_MS = 120_000


def test_the_reader_chooses_the_page_or_the_kernel(
    monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest, browser: Any
) -> None:
    monkeypatch.setattr(explorer_lab, "CELLS", CELLS)
    page = explorer_lab.open_lab(browser, request.getfixturevalue("lab"))
    page.set_default_timeout(PATIENCE_MS)
    page.wait_for_selector(".jp-Notebook .jp-CodeCell")
    explorer_lab._run_cell(page, 0)

    def shown(hook: str) -> str:
        return str(page.get_attribute(f"[data-cd={hook}]", "data-value"))

    def wait_for(hook: str, least: float) -> None:
        page.wait_for_function(
            "([hook, least]) => Number(document.querySelector(`[data-cd=${hook}]`)"
            "?.dataset.value || -1) >= least",
            arg=[hook, least],
        )

    first = []
    for place in ("page", "kernel"):
        page.select_option("[data-cd=control-where]", place)
        page.wait_for_selector("[data-cd=train-step][data-value='0']")  # the new run is drawn
        wait_for("train-accuracy", 0.0)
        start = shown("train-accuracy")
        page.click("[data-cd=train-one]")
        wait_for("train-step", 1)
        wait_for("train-loss", 0.0)
        first.append((float(start), float(shown("train-loss"))))
    # one model, one seed: the page and torch begin alike and lose alike
    assert first[0] == pytest.approx(first[1], rel=1e-4)
    page.click("[data-cd=train-start]")
    wait_for("train-step", 20)
    page.click("[data-cd=train-start]")
    page.wait_for_timeout(2000)
    done = shown("train-step")
    explorer_lab._run_cell(page, 1)
    printed = page.locator(".jp-OutputArea-output pre").last
    printed.wait_for()
    assert printed.inner_text().strip() == done
    page.close()
