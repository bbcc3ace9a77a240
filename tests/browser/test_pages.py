"""Every built page: whole by itself, every link alive, nothing wider than a phone."""

from __future__ import annotations

import functools
import html.parser
import io
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urldefrag, urlsplit

import pytest
import yaml
from browser.axe import findings
from browser.conftest import Visit
from PIL import Image

pytestmark = pytest.mark.browser
Open = Callable[..., Visit]
BOOK = Path(__file__).resolve().parents[2] / "book"
#: A phone, CSS pixels.
PHONE = 360
#: Bytes.
HEAVIEST_STILL = 60_000
#: Least size of a figure on a phone, as a share of the size it is drawn at: its letters, 9 points
#: high, then have 8 pixels.
LEAST_SIZE = 0.55


#: Pages that Sphinx writes itself.
WRITTEN = ("search.html", "genindex.html", "py-modindex.html", "prf-prf.html")


def pages_of_the_book() -> list[str]:
    """Addresses of the pages that the table of contents names, and of those Sphinx writes."""
    toc = yaml.safe_load((BOOK / "_toc.yml").read_text(encoding="utf-8"))
    chapters = [chapter for part in toc["parts"] for chapter in part["chapters"]]
    entries = [one for top in chapters for one in (top, *top.get("sections", ()))]
    names = [toc["root"], *(entry["file"] for entry in entries)]
    return [str(Path(name).with_suffix(".html")) for name in names] + list(WRITTEN)


PAGES = pages_of_the_book()


WIDER = """() => {
  const room = document.documentElement.clientWidth;
  const wide = document.documentElement.scrollWidth > room || document.body.scrollWidth > room;
  if (!wide) return [];
  return [...document.querySelectorAll(".bd-main *, .bd-footer *")]
    .filter((e) => e.checkVisibility() && e.getBoundingClientRect().right > room + 1)
    .map((e) => `${e.tagName}.${e.className}`).concat(`page ${room}`);
}"""


#: Names of the page before and the page after that do not fit.
CUT = """() => [...document.querySelectorAll(".prev-next-area a")]
  .filter((e) => e.scrollWidth > e.clientWidth).map((e) => e.textContent.trim())"""


@pytest.mark.dear("axe looks at every element of a whole page")
@pytest.mark.parametrize("path", PAGES)
def test_page_opened_as_a_file_is_whole_fits_a_phone_and_has_no_serious_finding(
    path: str, visit: Open, site: Path
) -> None:
    """One visit for all, with every fold open; opening a page is most of the work.

    Pages as a server gives them are looked at in test_accessibility.py.
    """
    page = visit(path, width=PHONE, base=site.as_uri() + "/").whole().page
    assert page.evaluate(WIDER) == []
    assert page.evaluate(CUT) == []
    page.evaluate("() => document.querySelectorAll('details').forEach((e) => { e.open = true; })")
    assert page.evaluate(WIDER) == []
    page.set_viewport_size({"width": 1280, "height": 900})
    assert findings(page) == []


FIGURES = """() => [...document.querySelectorAll(".cell_output a.image-reference")]
  .filter((box) => box.checkVisibility())
  .map((box) => {
    const picture = box.querySelector("img");
    return [picture.getBoundingClientRect().width / parseFloat(picture.style.width),
      box.scrollWidth > box.clientWidth];
  })"""


def test_figures_keep_their_size_on_a_phone_and_scroll_in_their_box(visit: Open) -> None:
    page = visit("foundations/coefficient_dynamics.html", width=PHONE).page
    sizes, scrolls = zip(*page.evaluate(FIGURES), strict=True)
    assert min(sizes) > LEAST_SIZE
    assert scrolls == (False, True, True)  # one panel fits; the wide ones scroll
    wide = page.locator(".cell_output a.image-reference").nth(2)
    wide.focus()
    page.keyboard.press("ArrowRight")
    page.wait_for_function("(e) => e.scrollLeft > 0", arg=wide.element_handle())
    assert page.evaluate(WIDER) == []
    desk = visit("foundations/coefficient_dynamics.html").page
    assert [scroll for _, scroll in desk.evaluate(FIGURES)] == [False] * 3


@pytest.mark.parametrize("path", PAGES)
def test_a_figure_says_in_words_what_it_shows(path: str, site: Path) -> None:
    text = (site / path).read_text(encoding="utf-8")
    drawn = re.findall(r"<img\b[^>]*_images/[^>]*>", text)
    assert drawn or "_images/" not in text
    words = [re.search(r'\balt="([^"]*)"', one) for one in drawn]
    assert [one[:80] for one, told in zip(drawn, words, strict=True) if not told] == []
    assert [told[1] for told in words if told and len(told[1].split()) < 8] == []


def test_code_shows_the_characters_that_one_types(visit: Open) -> None:
    page = visit("architectures/deltanet.html").page
    shown = "(e) => getComputedStyle(e).fontVariantLigatures"
    assert page.locator(".bd-article .highlight pre").first.evaluate(shown) == "none"


class Links(html.parser.HTMLParser):
    """Addresses a page points to, and the anchors it offers."""

    def __init__(self) -> None:
        super().__init__()
        self.targets: set[str] = set()
        self.anchors: set[str] = {"", "top"}

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.anchors |= {value for name in ("id", "name") if (value := given.get(name))}
        self.targets |= {value for name in ("href", "src") if (value := given.get(name))}


def read_links(path: Path) -> Links:
    links = Links()
    links.feed(path.read_text(encoding="utf-8"))
    return links


def test_every_internal_link_and_anchor_exists(site: Path) -> None:
    pages = {
        path.resolve(): read_links(path)
        for path in site.rglob("*.html")
        if "_static" not in path.parts
    }
    exists = functools.cache(Path.exists)
    broken = []
    for source, links in pages.items():
        for target in links.targets:
            if urlsplit(target).scheme or target.startswith("//"):
                continue
            name, anchor = urldefrag(target)
            joined = source.parent / unquote(urlsplit(name).path)
            path = Path(os.path.normpath(joined)) if name else source
            known = pages.get(path)
            settings = anchor.startswith(("cd", "deck="))  # a figure's settings, read by its script
            if not exists(path) or (
                known and unquote(anchor) not in known.anchors and not settings
            ):
                broken.append(f"{source.relative_to(site.resolve())}: {target}")
    assert broken == []


def test_no_page_loads_anything_from_elsewhere(site: Path) -> None:
    """Scripts, styles, images and fonts; plain links may lead out."""
    outside = []
    for path in site.rglob("*.html"):
        text = path.read_text(encoding="utf-8")
        for mark in ('src="http', 'src="//', '@import "http', "url(http"):
            outside += [f"{path.name}: {mark}"] if mark in text else []
    assert outside == []


RAW = re.compile(r"\\[(\[A-Za-z]")


@pytest.mark.parametrize("path", PAGES)
def test_no_source_of_a_formula_stands_in_its_place(path: str, site: Path) -> None:
    """A formula's source is kept as its words; nothing loads a script that would typeset it."""
    text = (site / path).read_text(encoding="utf-8")
    assert "window.MathJax" not in text and "tex-chtml" not in text
    formulas = re.findall(r"<math [^>]*>.*?</math>", text, re.DOTALL)
    assert len(formulas) == len(re.findall(r'class="math ', text))
    for formula in formulas:
        assert not RAW.search(re.sub(r'alttext="[^"]*"', "", formula)), formula


#: Marks the first of every letter in each of its looks; returns how many there are in all.
MARK_LETTERS = """() => {
  const seen = new Set();
  const all = [...document.querySelectorAll("math :is(mi, mo, mn)")];
  for (const e of all) {
    const { fontFamily, fontStyle, fontWeight, fontSize } = getComputedStyle(e);
    const look = [e.tagName, e.textContent, fontFamily, fontStyle, fontWeight, fontSize].join();
    if (!seen.has(look)) e.dataset.letter = "";
    seen.add(look);
  }
  return all.length;
}"""


def test_formulas_are_set_in_the_font_of_the_book(visit: Open) -> None:
    """Fonts that Chromium uses for each letter, not those that the style sheet requests."""
    page = visit("notation.html").page
    client = page.context.new_cdp_session(page)
    client.send("DOM.enable")
    client.send("CSS.enable")
    root = client.send("DOM.getDocument")["root"]["nodeId"]
    letters = page.evaluate(MARK_LETTERS)
    asked = {"nodeId": root, "selector": "math [data-letter]"}
    nodes = client.send("DOM.querySelectorAll", asked)["nodeIds"]
    used = {
        font["familyName"]
        for node in nodes
        for font in client.send("CSS.getPlatformFontsForNode", {"nodeId": node})["fonts"]
    }
    assert letters > 200
    assert 40 < len(nodes) < letters
    assert used == {"STIX Two Math"}


COLOR = "(selector) => getComputedStyle(document.querySelector(selector)).color"


def test_equations_wear_the_colours(visit: Open) -> None:
    page = visit("notation.html").page
    for name in ("evolution", "scaling", "readout", "normalizer"):
        painted = page.evaluate(COLOR, f"math .cd-{name}")
        assert painted == page.evaluate(COLOR, f"td span.cd-{name}:not(math *)")


def test_the_switch_rewrites_symbols_and_is_remembered(visit: Open) -> None:
    page = visit("notation.html").page
    shown = "() => document.querySelector('math .cv-mamba').checkVisibility()"
    assert not page.evaluate(shown)
    page.select_option("[data-cd=convention]", "mamba")
    assert page.evaluate(shown)
    page.reload()
    page.wait_for_selector("[data-cd=convention]")
    assert page.input_value("[data-cd=convention]") == "mamba"
    assert page.evaluate(shown)


def test_paper_shows_the_still_and_unfolds_solutions(visit: Open) -> None:
    page = visit("index.html").page
    matrix, stills = page.locator("[data-cd=matrix]").first, page.locator("figure.cd-still")

    def seen() -> set[bool]:
        return {still.is_visible() for still in stills.all()}

    assert (matrix.is_visible(), seen()) == (True, {False})
    page.emulate_media(media="print")
    assert (matrix.is_visible(), seen()) == (False, {True})
    assert not page.locator(".bd-sidebar-primary").is_visible()
    page = visit("start.html").page
    page.evaluate("() => dispatchEvent(new Event('beforeprint'))")
    assert page.locator(".bd-content details:not([open])").count() == 0
    page.evaluate("() => dispatchEvent(new Event('afterprint'))")
    assert page.locator(".bd-content details[open]").count() == 0


LIGHTEST = """() => {
  const theme = document.documentElement.dataset.theme;
  const code = document.querySelector(".highlight pre span");
  const sum = (node, name) => getComputedStyle(node)[name].match(/\\d+/g).slice(0, 3)
    .reduce((all, x) => all + Number(x), 0);
  return theme === "light" && sum(document.body, "backgroundColor") === 765
    && sum(document.querySelector(".bd-article p"), "color") < 300 && sum(code, "color") < 450;
}"""


def test_a_dark_page_prints_in_light_colours(visit: Open) -> None:
    page = visit("architectures/gated_deltanet.html", scheme="dark").page
    assert not page.evaluate(LIGHTEST)
    page.emulate_media(media="print")
    page.wait_for_function(LIGHTEST)


def test_every_figure_has_a_still_with_words(site: Path) -> None:
    for path in site.rglob("*.html"):
        text = path.read_text(encoding="utf-8")
        views = text.count('<script type="application/vnd.jupyter.widget-view+json">')
        assert text.count('class="cd-still"') == views, path.name
        for picture in re.findall(
            r'figure class="cd-still"><img src="([^"]+)" alt="([^"]+)"', text
        ):
            assert (path.parent / picture[0]).stat().st_size < HEAVIEST_STILL
            assert re.search(r"\d", picture[1])


#: Pages in the order of the results, once all are listed.
FOUND = """() => [...document.querySelectorAll("#search-results li > a")]
  .map((link) => new URL(link.href).pathname.replace(/^.*_build\\/html\\//, ""))
  .map((path) => path.replace(/^\\//, "").replace(/\\.html$/, ""))"""
LISTED = "() => /finished|did not match/.test(document.querySelector('#search-results')?.innerText)"


#: As the page does at its start, without the excerpts, each of which is a page to fetch.
SEARCH = """(asked) => {
  DOCUMENTATION_OPTIONS.SHOW_SEARCH_SUMMARY = false;
  history.replaceState(null, "", `?q=${encodeURIComponent(asked)}`);
  document.querySelector("#search-results").replaceChildren();
  Search.performSearch(asked);
}"""


@pytest.mark.dear("more than eighty searches of the whole index")
def test_what_people_type_finds_the_page_that_answers(visit: Open) -> None:
    """First, or second of several; the reference comes last. All in one page: test_reading.py opens
    addresses with a query, and looks at excerpts."""
    queries = yaml.safe_load((Path(__file__).parent / "queries.yml").read_text(encoding="utf-8"))
    assert len(queries) >= 80
    missed = {}
    page = visit("search.html").page
    for asked, answers in queries.items():
        page.evaluate(SEARCH, asked)
        page.wait_for_function(LISTED)
        found = page.evaluate(FOUND)
        right = [answers] if isinstance(answers, str) else answers
        if not {*found[: 1 if isinstance(answers, str) else 2]} & {*right}:
            missed[asked] = found[:3]
        kinds = [one.startswith("api/") for one in found]
        assert kinds == sorted(kinds), f"{asked}: the reference stands before a chapter"
    assert missed == {}


WIDE = "architectures/gated_deltanet.html"
CORNER = """() => {
  const bar = document.querySelector(".bd-header-article").getBoundingClientRect();
  const figure = document.querySelector("[data-cd-breakout=true]").getBoundingClientRect();
  return { x: bar.right, y: bar.top, width: figure.right - bar.right, height: bar.height - 8 };
}"""


def colours(page: Any, **clip: float) -> set[tuple[int, ...]]:
    """The colours of a piece of the screen."""
    image = Image.open(io.BytesIO(page.screenshot(clip=clip))).convert("RGB")
    return {colour for _, colour in image.getcolors(image.width * image.height)}


def test_a_wide_figure_passes_below_the_bar_in_its_whole_width(visit: Open) -> None:
    page = visit(WIDE, width=1440).page
    page.evaluate("document.documentElement.style.scrollBehavior = 'auto'")
    page.evaluate(
        "() => { const e = document.querySelector('[data-cd-breakout=true]');"
        " scrollTo(0, e.getBoundingClientRect().top + scrollY + 120); }"
    )
    page.wait_for_selector("html[data-cd-wide]")
    beside = page.evaluate(CORNER)
    assert beside["width"] > 100
    assert colours(page, **beside) == {(255, 255, 255)}


def test_a_drawn_figure_has_the_ground_of_a_dark_page(visit: Open) -> None:
    page = visit(WIDE, width=1440, scheme="dark").page
    figure = page.locator(".cell_output a.image-reference img").first
    figure.scroll_into_view_if_needed()
    page.wait_for_function("(e) => e.complete", arg=figure.element_handle())
    box = figure.bounding_box()
    clip = {"x": box["x"] + 1, "y": box["y"] + 1, "width": 2, "height": 2}
    ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
    (found,) = colours(page, **clip)
    wanted = [int(part) for part in re.findall(r"\d+", ground)]
    assert max(abs(a - b) for a, b in zip(found, wanted, strict=True)) <= 4
