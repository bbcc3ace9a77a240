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
#: Leaves the first of all equal looks. Pieces of code and letters of formulas are most of a page's
#: elements; they say nothing but their colour on their ground, and are no part of a name here.
ONE_OF_EACH_LOOK = """() => {
  const seen = new Set();
  const clear = /^rgba\\(0, 0, 0, 0\\)$/;
  const ground = (e) => {
    while (e.parentElement && clear.test(getComputedStyle(e).backgroundColor)) e = e.parentElement;
    return getComputedStyle(e).backgroundColor;
  };
  const pieces = [...document.querySelectorAll(".highlight span, math *")]
    .filter((e) => !e.children.length && !e.closest("a, button, label, summary, h1, h2, h3, th"))
    .map((e) => [e, getComputedStyle(e), ground(e)])
    .map(([e, { color, fontSize, fontWeight }, below]) =>
      [e, [e.closest("math") !== null, color, fontSize, fontWeight, below].join()]);
  for (const [e, look] of pieces) {
    if (seen.has(look)) e.remove();
    seen.add(look);
  }
}"""


def findings(page: Any) -> list[str]:
    """What axe-core finds serious on a page, in words.

    Args:
        page: of Playwright. Of equal pieces of its code and its formulas one is left.
    """
    from axe_playwright_python.sync_playwright import Axe

    page.evaluate(ONE_OF_EACH_LOOK)
    found = Axe().run(page, options=OPTIONS)
    return [
        f"{rule['id']}: {node['html'][:160]} | {node['failureSummary'][:300]}"
        for rule in found.response["violations"]
        if rule["impact"] in SERIOUS or rule["id"] in NAMED
        for node in rule["nodes"][:3]
    ]
