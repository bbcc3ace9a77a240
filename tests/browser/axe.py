"""Findings of axe-core on an open page."""

from __future__ import annotations

from typing import Any

SERIOUS = ("serious", "critical")
#: Beside what has an impact that counts: one landmark is told from another by its name.
NAMED = ("landmark-unique",)
OPTIONS = {
    "resultTypes": ["violations"],
    "rules": {"label-content-name-mismatch": {"enabled": True}},  # off by itself
}


def findings(page: Any, *, code: bool = False) -> list[str]:
    """What axe-core finds serious on a page, in words.

    Args:
        page: of Playwright.
        code: whether highlighted code is looked at too. It has one markup and the same few colours
            everywhere, and its spans are most of a page's elements.
    """
    from axe_playwright_python.sync_playwright import Axe

    measured = None if code else {"exclude": [".highlight"]}
    found = Axe().run(page, context=measured, options=OPTIONS)
    return [
        f"{rule['id']}: {node['html'][:160]} | {node['failureSummary'][:300]}"
        for rule in found.response["violations"]
        if rule["impact"] in SERIOUS or rule["id"] in NAMED
        for node in rule["nodes"][:3]
    ]
