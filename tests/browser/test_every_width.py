"""From a small phone to a wide screen nothing covers anything, and pictures keep their aspect."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from browser.conftest import Visit
from passed import of_page

pytestmark = pytest.mark.browser
Open = Callable[..., Visit]
#: The first is that of a fresh page.
WIDTHS = (1280, 320, 360, 740, 820, 1024, 1180, 1366, 1440, 1920)
PAGES = (
    "index.html",
    "architectures/deltanet.html",
    "principles/principle_2.html",
    "lens/trained_models.html",
    "design/train.html",
)
#: a landing page, and a chapter with each kind of figure
ALL_KINDS = PAGES[:2]
NIGHTLY = pytest.mark.nightly("two pages with figures of these kinds")
NEXT_FRAME = """() => new Promise((done) =>
  requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(done))))"""
RATIOS = """() => [...document.querySelectorAll(".cdx canvas")].filter((c) => c.clientWidth)
  .filter((c) => Math.abs(c.width / c.clientWidth - c.height / c.clientHeight) >= 0.03)
  .map((c) => c.dataset.cd)"""
#: Choices that are too narrow to show a word.
SQUEEZED = """() => [...document.querySelectorAll(".cdx select")]
  .filter((e) => e.checkVisibility({ visibilityProperty: true }) && e.offsetWidth < 64)
  .map((e) => `${e.dataset.cd || e.className || e.name} is ${e.offsetWidth} wide`)"""
#: Pairs of figures, cards and controls that overlap by more than a rounding, at rest and wherever
#: something that stays in view while the page moves meets others. What a phone keeps at the top of
#: the screen, on a ground of its own, may hide what leaves the screen there, like the page bar.
COVERED = """() => {
  const shown = (e) => e.checkVisibility({ visibilityProperty: true }) && e.offsetWidth > 2;
  const pieces = [...document.querySelectorAll(`.cd-switches > *,
    .bd-article :is(canvas, fieldset.cdx-card, img, table),
    .bd-article .cdx :is(button, select, input, textarea, summary)`)].filter(shown);
  const name = (e) => e.dataset.cd || e.className || e.tagName;
  const found = new Set();
  const boxOf = (e) => {
    let { left, right, top, bottom } = e.getBoundingClientRect();
    for (let up = e.parentElement; up && !up.matches("article"); up = up.parentElement) {
      if (getComputedStyle(up).overflowX === "visible") continue; // what a box cuts off is not seen
      const edge = up.getBoundingClientRect();
      [left, right] = [Math.max(left, edge.left), Math.min(right, edge.right)];
      [top, bottom] = [Math.max(top, edge.top), Math.min(bottom, edge.bottom)];
    }
    return { left, right, top, bottom };
  };
  const DRAWN = ".cdx-matrix-box, .cdx-drag"; // what is drawn on, with its own handles
  const compare = (some, others) => {
    const boxes = new Map([...some, ...others].map((e) => [e, boxOf(e)]));
    for (const a of some) for (const b of others) {
      if (a === b || a.contains(b) || b.contains(a)) continue;
      if (a.closest(DRAWN) && a.closest(DRAWN) === b.closest(DRAWN)) continue;
      const [p, q] = [boxes.get(a), boxes.get(b)];
      const wide = Math.min(p.right, q.right) - Math.max(p.left, q.left);
      const high = Math.min(p.bottom, q.bottom) - Math.max(p.top, q.top);
      if (wide <= 2 || high <= 2) continue;
      found.add(`${name(a)} on ${name(b)}, ${wide.toFixed()} x ${high.toFixed()}`);
    }
  };
  document.documentElement.style.scrollBehavior = "auto";
  scrollTo(0, 0);
  compare(pieces, pieces);
  const stays = [...document.querySelectorAll(".bd-article .cdx *")]
    .filter((e) => shown(e) && getComputedStyle(e).position === "sticky");
  for (const one of stays) {
    const box = one.closest(".cdx");
    const held = pieces.filter((e) => one.contains(e));
    const free = pieces.filter((e) => box.contains(e) && !one.contains(e));
    const { top, height } = box.getBoundingClientRect();
    const ground = getComputedStyle(one).backgroundColor;
    for (let m = 0; m <= 8; m++) {
      scrollTo(0, top + (height * m) / 8);
      if (ground === "rgba(0, 0, 0, 0)") compare(held, free);
      else if (one.offsetHeight > innerHeight / 2) found.add(`half the screen: ${name(one)}`);
    }
    scrollTo(0, 0);
  }
  return [...found].slice(0, 12);
}"""


def settle(page: Any) -> None:
    page.evaluate(NEXT_FRAME)


@pytest.mark.dear("a page is laid out at ten widths, with its lab twice")
@pytest.mark.parametrize(
    "path",
    [
        pytest.param(path, marks=pytest.mark.reads(of_page(path.removesuffix(".html"))))
        if path in ALL_KINDS
        else pytest.param(path, marks=NIGHTLY)
        for path in PAGES
    ],
)
def test_nothing_covers_anything_and_pictures_keep_their_aspect(path: str, visit: Open) -> None:
    page = visit(path, width=WIDTHS[0]).page
    wrong = {}
    for lab in (False, True):
        button = page.locator("[data-cd=all-controls]").first
        if lab and button.count() == 0:
            break
        if lab:
            button.click()
        for width in WIDTHS:
            page.set_viewport_size({"width": width, "height": 720})
            settle(page)
            settle(page)
            if found := [*page.evaluate(RATIOS), *page.evaluate(SQUEEZED), *page.evaluate(COVERED)]:
                wrong[f"{width}{' lab' if lab else ''}"] = found
    assert wrong == {}
