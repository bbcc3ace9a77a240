"""Actions of a reader on a page: printing, searching, tabbing, scrolling on a phone."""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from browser.conftest import Visit

pytestmark = pytest.mark.browser
Open = Callable[..., Visit]
PHONE = 360
CHAPTER = "architectures/mamba2.html"


def ink(picture: bytes) -> int:
    """Number of pixels of a picture that are darker than middle grey."""
    from PIL import Image

    return sum(Image.open(io.BytesIO(picture)).convert("L").histogram()[:128])


def test_a_printed_solution_has_ink(visit: Open) -> None:
    """The theme fades an opened fold in; paper is drawn before it has begun."""
    page = visit("architectures/gated_deltanet.html").page
    page.emulate_media(media="print")
    page.evaluate("() => dispatchEvent(new Event('beforeprint'))")
    fold = page.locator("details.hide").first
    running = "(e) => e.getAnimations({ subtree: true }).length"
    assert fold.evaluate(running) == 0
    assert ink(fold.screenshot()) > 500


def test_a_printed_chapter_keeps_its_number(visit: Open) -> None:
    page = visit(CHAPTER).page
    page.emulate_media(media="print")
    titles = page.locator("h1")
    shown = [
        titles.nth(k).inner_text() for k in range(titles.count()) if titles.nth(k).is_visible()
    ]
    assert len(shown) == 1
    assert re.match(r"\d+\. Mamba-2", shown[0])


SHOWS_FOCUS = """() => {
  const style = getComputedStyle(document.activeElement);
  return style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 2;
}"""

#: whether the element in focus shows it (null inside a widget), and its first words
STOP = f"""() => {{
  const at = document.activeElement;
  const shown = at.closest(".coefdyn-widget") ? null : ({SHOWS_FOCUS})();
  return [shown, at.outerHTML.slice(0, 120)];
}}"""


@pytest.mark.parametrize(
    "scheme", ["dark", pytest.param("light", marks=pytest.mark.nightly("the same in the dark"))]
)
def test_focus_is_visible_on_every_stop_of_the_page(scheme: str, visit: Open) -> None:
    page = visit(CHAPTER, scheme=scheme).page
    seen = []
    for _ in range(60):
        page.keyboard.press("Tab")
        seen.append(page.evaluate(STOP))
    unseen = [html for shown, html in seen if shown is False]
    stops = [html for shown, html in seen if shown is not None]
    assert unseen == [] and len(stops) > 40


def test_header_controls_show_their_focus(visit: Open) -> None:
    page = visit(CHAPTER).page
    for control in (".search-button__button", ".primary-toggle", ".dropdown-download-buttons .btn"):
        page.keyboard.press("Tab")
        page.locator(control).first.focus()
        assert page.evaluate(SHOWS_FOCUS), control


def test_folds_are_called_by_what_they_hold(visit: Open) -> None:
    page = visit(CHAPTER).page
    branches = page.locator(".bd-sidebar-primary details > summary")
    for branch in branches.all():
        assert (branch.get_attribute("aria-label") or "").startswith("Pages of ")
    folds = page.locator(".bd-content details > summary")
    for number in range(folds.count()):
        fold = folds.nth(number)
        assert fold.get_attribute("aria-label") is None
        assert fold.inner_text().strip() != ""
    assert folds.count() > 2


def test_search_puts_the_page_of_a_term_first_without_source(visit: Open) -> None:
    page = visit("search.html?q=delta+rule").page
    page.wait_for_function(
        "() => document.querySelectorAll('#search-results li p.context').length >= 4"
    )
    first = page.locator("#search-results li a").first
    assert "DeltaNet" in first.inner_text() and "Gated" not in first.inner_text()
    told = page.locator("#search-results").inner_text()
    assert "\\" not in told
    assert "Goal Goal" not in told


def test_the_lens_stands_before_the_first_letter(visit: Open) -> None:
    page = visit("search.html").page
    form = page.locator(".bd-article-container form.bd-search, .bd-search-container form").first
    lens = form.locator(".fa-magnifying-glass").bounding_box()
    field = form.locator("input")
    box = field.bounding_box()
    padding = float(field.evaluate("(e) => parseFloat(getComputedStyle(e).paddingLeft)"))
    assert lens["x"] + lens["width"] <= box["x"] + padding
    assert form.evaluate("(e) => getComputedStyle(e).borderTopWidth") == "0px"


def test_the_index_lists_the_terms(visit: Open) -> None:
    page = visit("genindex.html").page
    assert page.get_by_role("link", name="delta rule", exact=True).count() == 1
    assert page.locator(".bd-article a, .indextable a").count() > 30


def test_letters_that_come_late_move_no_line(browser: Any, address: str) -> None:
    """They wait for the next page: a text that broke anew would jump under the reader's eyes."""
    page = browser.new_page()
    page.add_init_script("document.fonts.load = () => new Promise(() => {})")
    page.goto(address + "notation.html", wait_until="commit")
    page.wait_for_selector("html[data-late]:not([data-wait])", timeout=30_000)
    family = "(name) => getComputedStyle(document.querySelector(name)).fontFamily"
    assert page.evaluate(family, "article p").startswith('"Inter stand-in"')
    assert "STIX" not in page.evaluate(family, "article math")
    page.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_page_has_its_look_before_the_scripts_of_the_theme(
    scheme: str, browser: Any, address: str
) -> None:
    """They end long after the first picture, and letters or a ground that change then jump."""
    page = browser.new_page(color_scheme=scheme)
    page.route("**/pydata-sphinx-theme.js*", lambda route: route.abort())
    page.goto(address + "notation.html")
    page.wait_for_selector("html:not([data-wait])", timeout=30_000)
    read = "(key) => getComputedStyle(document.body)[key]"
    assert page.evaluate(read, "fontFamily").startswith("Inter")
    ground = [int(x) for x in page.evaluate(read, "backgroundColor")[4:-1].split(",")]
    assert (max(ground) < 60) == (scheme == "dark")
    page.close()


def test_a_wide_table_on_a_phone_says_so_and_keeps_its_first_column(visit: Open) -> None:
    page = visit("architectures/table1.html", width=PHONE).page
    box = page.locator(".pst-scrollable-table-container").first
    assert box.get_attribute("data-more") == "right"
    assert "gradient" in box.evaluate("(e) => getComputedStyle(e).maskImage")
    first = box.locator("tbody tr td:first-child").first
    at = first.bounding_box()["x"]
    box.evaluate("(e) => { e.scrollLeft = 120; }")
    page.wait_for_function("(e) => e.dataset.more.includes('left')", arg=box.element_handle())
    assert abs(first.bounding_box()["x"] - at) < 2
    assert first.bounding_box()["width"] < PHONE / 2


APART = """() => [...document.querySelectorAll("div.math:has(.eqno)")]
  .filter((box) => box.checkVisibility())
  .filter((box) => box.querySelector(".cd-formula").getBoundingClientRect().right
    > box.querySelector(".eqno").getBoundingClientRect().left + 1).length"""


@pytest.mark.parametrize("path", [CHAPTER, "architectures/gated_deltanet.html"])
def test_an_equation_never_runs_under_its_number(path: str, visit: Open) -> None:
    page = visit(path, width=PHONE).page
    assert page.locator("div.math .eqno").count() > 0
    assert page.evaluate(APART) == 0


def test_nothing_lies_on_top_of_a_figure_on_a_phone(visit: Open) -> None:
    page = visit("index.html", width=PHONE).page
    page.evaluate("() => scrollTo(0, 1800)")
    page.evaluate("() => scrollTo(0, 1500)")
    page.wait_for_timeout(300)
    assert not page.locator("#pst-back-to-top").is_visible()


def test_no_page_loads_an_icon_font(site: Path) -> None:
    pages = [page for page in site.rglob("*.html") if "_static" not in page.parts]
    loaded = [page.name for page in pages if "fontawesome" in page.read_text("utf-8")]
    assert loaded == []


def test_header_icons_are_drawn(visit: Open) -> None:
    page = visit(CHAPTER, width=PHONE).page
    for name in ("fa-bars", "fa-download", "fa-magnifying-glass", "fa-list"):
        icon = page.locator(f".bd-header-article .{name}").first
        box = icon.bounding_box()
        assert box["width"] >= 12 and box["x"] + box["width"] <= PHONE, name
        assert "svg" in icon.evaluate("(e) => getComputedStyle(e).maskImage"), name


def test_equations_lemmas_and_figures_carry_the_chapter_s_number(site: Path) -> None:
    counted = 0
    for path in site.rglob("*.html"):
        text = path.read_text(encoding="utf-8")
        chapter = re.search(r'<h1><span class="section-number">(\d+)', text)
        if chapter is None:
            continue
        assert f'--cd-chapter:"{chapter[1]}."' in text, path.name
        numbers = re.findall(r'class="eqno">\(([^)]*)\)', text)
        numbers += re.findall(r'<span class="caption-number">[A-Z][a-z]+ ([\d.]+)', text)
        assert all(number.startswith(f"{chapter[1]}.") for number in numbers), path.name
        counted += len(numbers)
    assert counted > 40
