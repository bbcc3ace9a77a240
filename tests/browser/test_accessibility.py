"""Every served page asks no other host, reports no error, and axe-core finds nothing serious.

Four of them in the dark as well. One visit for all three, since opening a page is most of the work.
"""

from __future__ import annotations

from collections.abc import Callable

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


@pytest.mark.parametrize(
    ("path", "scheme"), [(path, "light") for path in PAGES] + [(path, "dark") for path in DARK]
)
def test_a_served_page_is_whole_and_has_no_serious_finding(
    path: str, scheme: str, visit: Open
) -> None:
    from axe_playwright_python.sync_playwright import Axe

    page = visit(path, scheme=scheme).whole().page
    measured = None if path in CODE else {"exclude": [".highlight"]}
    found = Axe().run(page, context=measured, options={"resultTypes": ["violations"]})
    told = [
        f"{rule['id']}: {node['html'][:160]} | {node['failureSummary'][:300]}"
        for rule in found.response["violations"]
        if rule["impact"] in SERIOUS
        for node in rule["nodes"][:3]
    ]
    assert told == []


def test_everything_on_the_landing_page_is_reached_by_keyboard(visit: Open) -> None:
    page = visit("index.html").page
    reached = set()
    for _ in range(240):
        page.keyboard.press("Tab")
        reached.add(page.evaluate("() => document.activeElement?.dataset.cd ?? ''"))
    wanted = {"stop-gated_deltanet", "matrix", "control-decay", "control-normalizer"}
    assert wanted <= reached
