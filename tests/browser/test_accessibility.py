"""axe-core finds nothing serious in the dark, on slides, or on pages from a server.

Every page in the light is looked at in test_pages.py, whose visit does for both.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
from browser.axe import findings
from browser.conftest import Visit
from passed import FIGURES

pytestmark = pytest.mark.browser
Open = Callable[..., Visit]
DARK = ("index.html", "notation.html", "start.html", "architectures/gated_deltanet.html")


@pytest.mark.dear("axe looks at every element of a whole page")
@pytest.mark.parametrize("path", DARK)
def test_a_served_page_is_whole_and_has_no_serious_finding(path: str, visit: Open) -> None:
    page = visit(path, scheme="dark").whole().page
    assert findings(page) == []


@pytest.mark.dear("axe looks at four states of two pages")
@pytest.mark.reads(f"{FIGURES} book/index.md book/design/train.md")
@pytest.mark.parametrize(
    "scheme", ["dark", pytest.param("light", marks=pytest.mark.nightly("the same in the dark"))]
)
def test_slides_have_no_serious_finding(scheme: str, visit: Open) -> None:
    page = visit("index.html", scheme=scheme).page
    page.emulate_media(reduced_motion="reduce")  # a symbol that changed flashes for a second
    for number in (1, 5):
        page.evaluate(f"location.hash = 'deck={number}'")
        page.wait_for_selector(f"[data-cd=slide-place]:text-is('{number} of 8')")
        assert findings(page) == [], number
    page.keyboard.press("Escape")
    page.click("[data-cd=all-controls]")
    assert findings(page) == [], "the lab"
    page = visit("design/train.html", scheme=scheme).page
    page.click("[data-cd=present]")
    page.wait_for_selector(".cdx-train[data-layout=slide]")
    assert findings(page) == [], "training"


def test_everything_on_the_landing_page_is_reached_by_keyboard(visit: Open) -> None:
    page = visit("index.html").page
    wanted = {"stop-gated_deltanet", "matrix", "control-decay", "control-beta"}
    for _ in range(240):
        page.keyboard.press("Tab")
        wanted.discard(page.evaluate("() => document.activeElement?.dataset.cd ?? ''"))
        if not wanted:
            break
    assert wanted == set()
