"""Last changes to the built pages for which Sphinx and its theme have no setting.

Each change is a function from a page's text to its text, which changes nothing the second time:

- folded cells are named by their content, not "Toggle hidden content"; a branch of the contents
  says what its arrow unfolds;
- the name of a link that holds only a formula is the formula and the title of the linked page;
- icons come from the book's style sheet, not from a font of 260 kB;
- the font of formulas is requested at once, and a page is drawn when its letters are loaded;
- interactive figures get their modules and style sheets (`programs.py`), each carried once by those
  that share it (`widget-host.js` follows the reference; `figure_states.py` packs the rest);
- scripts wait, in order, until a page is read, so that none of them delays the page;
- pictures state their size, so that nothing moves when they arrive;
- words of code that have the colour of the text are no elements, which are half of a page's;
- code can be folded, and a page has the switches that apply to it (`code_folds`);
- chapters have their slides, and the landing the demonstrations (`deck`);
- figures have their words as captions, and provenance is one quiet line (`captions`);
- the style sheet receives a chapter's number, with which it numbers the figures.
"""

from __future__ import annotations

import html
import json
import re
import struct
import xml.etree.ElementTree as ET
from collections.abc import Callable
from functools import cache
from pathlib import Path

from book.tools.captions import caption_figures, fold_provenance
from book.tools.code_folds import fold_code, with_switches
from book.tools.deck import slides, with_deck
from book.tools.programs import put_programs

__all__ = ["postprocess", "postprocess_page", "rewrite"]

STATE = re.compile(
    r'(<script type="application/vnd\.jupyter\.widget-state\+json">)(.*?)(</script>)', re.DOTALL
)
#: Characters; shorter texts are not worth a reference.
LONG = 500
FOLD = re.compile(r'<summary aria-label="Toggle hidden content">')
#: the box to search in has a text of its own, which is its name
SEARCH = re.compile(
    r'(<button class="btn search-button-field [^>]*?) title="Search" [^>]*?="Search"'
)
BRANCH = re.compile(r'(<li class="toctree-l\d[^"]*"><a [^>]*>)([^<]*)(</a><details[^>]*><summary)>')
#: its entries are no list items in the sense of ARIA
CITATIONS = re.compile(r'<div role="list" class="citation-list">')
GOAL = re.compile(r'(<div class="goal admonition">\s*)<p class="admonition-title">Goal</p>\s*')
ICON_FONT = re.compile(r'\s*<link href="[^"]*vendor/fontawesome/[^"]*" rel="stylesheet" ?/>')
FORMULA_LINK = re.compile(
    r'<a class="([^"]*)" href="([^"]*)">((?:<span[^>]*>)*)(<math.*?</math>)((?:</span>)*)</a>'
)
CHAPTER = re.compile(r'<h1><span class="section-number">(\d+)')
#: Names, punctuation and blanks of code, which both themes draw in the colour of the text.
PLAIN = re.compile(r'<span class="[npw]">([^<]*)</span>')
OTHER_SYMBOLS = ("cv-fla", "cv-mamba")
PICTURE = re.compile(r'<img (?![^>]*\bwidth=")([^>]*?)src="((?:\.\./)*_images/[^"]+\.png)"')
#: A script of the theme or an extension; the line after `documentation_options.js` reads it.
SCRIPT = re.compile(
    r'<script (?![^>]*\b(?:defer|async)\b)(?=[^>]*\bsrc="(?:\.\./)*_static/)(?![^>]*documentation_)'
)
#: The page of the search, whose own lines call its scripts at once.
SEARCHING = "_static/searchtools.js"
#: Not for a page opened as a file: there a browser refuses to load a font ahead of its use.
EARLY_FONT = (
    '<script>if(location.protocol!=="file:")document.head.append(Object.assign('
    'document.createElement("link"),{{rel:"preload",as:"font",type:"font/woff2",crossOrigin:"",'
    'href:"{up}_static/fonts/stix-two-math.woff2"}}))</script>'
)


#: Nothing is drawn until the letters of a text are there, so that no line breaks anew, and laid
#: out, which takes two frames. After three seconds it is drawn with the letters that the machine
#: has, and stays so: the style sheet reads `data-late`. The theme's own script chooses light or
#: dark at the end of loading only, which is too late for the first picture. Labels of figures have
#: Greek letters, whose late arrival would lay out the whole page once more.
WAIT = (
    '<script>(()=>{const d=document.documentElement,show=()=>d.removeAttribute("data-wait"),'
    'fonts=["16px Inter","italic 16px Inter","16px JetBrains Mono","16px STIX Two Math"];'
    'if(!["light","dark"].includes(d.dataset.theme))'
    'd.dataset.theme=matchMedia("(prefers-color-scheme: dark)").matches?"dark":"light";'
    'd.setAttribute("data-wait","");setTimeout(()=>{if(d.hasAttribute("data-wait"))'
    'd.setAttribute("data-late","");show()},3000);'
    "Promise.all([...fonts.map((font)=>document.fonts.load(font))/*figures*/])"
    ".then(()=>requestAnimationFrame(()=>requestAnimationFrame(show)),show)})()</script>"
)


#: Where a browser denies storage, in a sandboxed frame or with all cookies blocked, asking for it
#: throws, and the theme asks first. Choices then last as long as the page.
STORAGE = (
    '<script>for(const name of ["localStorage","sessionStorage"])try{window[name]}catch{'
    "const kept=new Map(),own={getItem:(k)=>kept.get(String(k))??null,"
    "setItem:(k,v)=>void kept.set(String(k),String(v)),removeItem:(k)=>void kept.delete(String(k)),"
    "clear:()=>kept.clear(),key:(i)=>[...kept.keys()][i]??null,get length(){return kept.size}};"
    "Object.defineProperty(window,name,{value:own,configurable:true})}</script>"
)


def postprocess(site: Path) -> None:
    """Apply the last changes to every page below `site`."""
    rewrite(site, postprocess_page)


def rewrite(site: Path, touch: Callable[[Path, Path], str]) -> None:
    """Replace every page below `site` by `touch(page, site)`."""
    for page in sorted(site.rglob("*.html")):
        if "_static" not in page.parts:
            page.write_text(touch(page, site), encoding="utf-8")


def postprocess_page(page: Path, site: Path) -> str:
    """Text of one page with its last changes."""
    text = page.read_text(encoding="utf-8")
    text = FOLD.sub("<summary>", text)
    text = SEARCH.sub(r"\1", text)
    text = BRANCH.sub(r'\1\2\3 aria-label="Pages of \2">', text)
    text = CITATIONS.sub('<div class="citation-list">', text)
    text = GOAL.sub(r"\1", text)
    text = ICON_FONT.sub("", text)
    text = FORMULA_LINK.sub(lambda found: _named(found, page), text)
    text = PICTURE.sub(lambda found: _sized(found, page), text)
    if SEARCHING not in text:
        text = SCRIPT.sub('<script defer="defer" ', text)
    text = PLAIN.sub(r"\1", text)
    text = STATE.sub(_modules_once, text)
    if STORAGE not in text:
        text = text.replace("<head>", f"<head>{STORAGE}", 1)
    if WAIT[:99] not in text:
        greek = ',document.fonts.load("16px Inter","α")' if STATE.search(text) else ""
        text = text.replace("</head>", f"{WAIT.replace('/*figures*/', greek)}</head>", 1)
    text = fold_provenance(caption_figures(text))
    name = page.relative_to(site).with_suffix("").as_posix()
    text = with_switches(fold_code(text), slides=bool(slides(name)))
    text = _with_number(with_deck(text, name))
    return _with_early_font(text, "../" * (len(page.relative_to(site).parts) - 1))


def _with_number(text: str) -> str:
    """Page with its chapter's number where the style sheet finds it: Figure 8.2."""
    found = CHAPTER.search(text)
    if not found:
        return text
    style = f'<article class="bd-article" style=\'--cd-chapter:"{found[1]}."\'>'
    return text.replace('<article class="bd-article">', style, 1)


def _modules_once(found: re.Match[str]) -> str:
    """Page state whose repeated programs are replaced by "@same:" and the first one's place."""
    saved = json.loads(found[2])
    if "packed" in saved:
        return found[0]
    put_programs(saved["state"])
    first: dict[str, str] = {}
    for name, record in saved["state"].items():
        for part in ("_esm", "_css"):
            text = record["state"].get(part, "")
            if len(text) > LONG:
                place = first.setdefault(part + text, name)
                record["state"][part] = text if place == name else f"@same:{place}"
    return found[1] + json.dumps(saved).replace("</", "<\\/") + found[3]


def _with_early_font(text: str, up: str) -> str:
    if 'rel:"preload"' in text or "<math" not in text:
        return text
    script = EARLY_FONT.format(up=up)
    return text.replace('<meta charset="utf-8" />', f'<meta charset="utf-8" />\n    {script}', 1)


def _named(found: re.Match[str], page: Path) -> str:
    """Link named by the formula's letters and the title of the page it leads to."""
    kind, address, before, formula, after = found.groups()
    target = (page.parent / address.partition("#")[0]) if address[0] != "#" else page
    name = html.escape(f"{_letters(ET.fromstring(formula))}: {_title(target)}")
    return f'<a class="{kind}" href="{address}" aria-label="{name}">{before}{formula}{after}</a>'


def _letters(element: ET.Element) -> str:
    if element.get("class") in OTHER_SYMBOLS:
        return ""
    return (element.text or "") + "".join(_letters(child) for child in element)


@cache
def _title(page: Path) -> str:
    found = re.search(r"<title>(.*?)</title>", page.read_text(encoding="utf-8"))
    title = html.unescape(found[1]) if found else page.stem
    return re.sub(r"^[\d.]+\s+", "", title.partition(" \N{EM DASH} ")[0])


def _sized(found: re.Match[str], page: Path) -> str:
    with (page.parent / found[2]).open("rb") as picture:
        width, height = struct.unpack(">II", picture.read(24)[16:])
    return f'<img width="{width}" height="{height}" {found[1]}src="{found[2]}"'
