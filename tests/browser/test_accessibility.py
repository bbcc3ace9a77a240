"""Every served page asks no other host, reports no error, and axe-core finds nothing serious.

Four of them in the dark as well, and slides. One visit for all three, since opening a page is most
of the work.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from browser.conftest import Visit
from browser.test_pages import PAGES

pytestmark = pytest.mark.browser
Open = Callable[..., Visit]
DARK = ("index.html", "notation.html", "start.html", "architectures/gated_deltanet.html")
SERIOUS = ("serious", "critical")
#: pages whose highlighted code is looked at too: it has one markup and the same few colours
#: everywhere, and its spans are most of a page's elements
CODE = ("start.html", "architectures/gated_deltanet.html")


#: Beside what has an impact that counts: one landmark is told from another by its name.
NAMED = ("landmark-unique",)
OPTIONS = {
    "resultTypes": ["violations"],
    "rules": {"label-content-name-mismatch": {"enabled": True}},  # off by itself
}


def findings(page: Any, *, code: bool = False) -> list[str]:
    """What axe-core finds serious on a page, in words."""
    from axe_playwright_python.sync_playwright import Axe

    measured = None if code else {"exclude": [".highlight"]}
    found = Axe().run(page, context=measured, options=OPTIONS)
    return [
        f"{rule['id']}: {node['html'][:160]} | {node['failureSummary'][:300]}"
        for rule in found.response["violations"]
        if rule["impact"] in SERIOUS or rule["id"] in NAMED
        for node in rule["nodes"][:3]
    ]


@pytest.mark.parametrize(
    ("path", "scheme"), [(path, "light") for path in PAGES] + [(path, "dark") for path in DARK]
)
def test_a_served_page_is_whole_and_has_no_serious_finding(
    path: str, scheme: str, visit: Open
) -> None:
    page = visit(path, scheme=scheme).whole().page
    assert findings(page, code=path in CODE) == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_slides_have_no_serious_finding(scheme: str, visit: Open) -> None:
    page = visit("index.html", scheme=scheme).page
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
    reached = set()
    for _ in range(240):
        page.keyboard.press("Tab")
        reached.add(page.evaluate("() => document.activeElement?.dataset.cd ?? ''"))
    wanted = {"stop-gated_deltanet", "matrix", "control-decay", "control-normalizer"}
    assert wanted <= reached
