"""The two ways to read a page: Ideas has no code, Code opens the code that is worth reading.

Code that only draws a figure, prints a table or starts an explorer is folded in Code. A cell tagged
`key` is not: it is a step of a derivation. In Ideas the style sheet leaves out code, folded or not,
and what it prints.
"""

from __future__ import annotations

import html
import re

__all__ = ["fold_code", "with_switches"]

CELL = re.compile(
    r'(<div class="(?P<kind>cell[^"]*)">\s*)'
    r'(?P<input><div class="cell_input docutils container">\s*'
    r'<div class="highlight-[^"]*"><div class="highlight"><pre>(?P<code>.*?)</pre></div>\s*'
    r"</div>\s*</div>)",
    re.DOTALL,
)
#: A cell that its author has folded, with the name that MyST-NB gives it.
HIDDEN = re.compile(
    r'(<p class="collapsed admonition-title">)Show code cell \w+(</p>\s*'
    r'<p class="expanded admonition-title">)Hide code cell \w+(</p>\s*</summary>\s*)'
    r'(?=<div class="cell_input[^>]*>\s*<div[^>]*><div class="highlight"><pre>(?P<code>.*?)</pre>)',
    re.DOTALL,
)
#: Calls in code that only displays: figures, tables, explorers.
SHOWS = re.compile(
    r"\b(subplots|plt|pyplot|imshow|set_title|Markdown|display|show|Explorer|TrainingFilm|\w+View|"
    r"PageTraining|SampledSwing|ScoreVariance|use_style)\b|"
    r"\b\w+_(plot|figure|view|table)\("
)
#: Signs of code that is worth reading.
SAYS = re.compile(r"^\s*(assert|def|class)\b|assert_close|\bprint\(", re.MULTILINE)
TAG = re.compile(r"<[^>]+>")

#: Mark of the landing page, where a newcomer has no symbols to exchange yet.
LANDING = "cd-lead"
#: Mark of an explorer in a page's saved state.
EXPLORER = "coefdyn.widgets.explorer.Explorer"
TRAINER = "coefdyn.lab.train.figure.PageTraining"

#: Before the first paint: the page is drawn once, as the reader last chose.
REMEMBERED = (
    "<script>(()=>{const kept=(key,known)=>{let name=null;try{name=localStorage.getItem(key)}"
    "catch{}return known.includes(name)?name:known[0]};const d=document.documentElement.dataset;"
    'd.reading=kept("coefdyn-reading",["code","ideas"]);'
    'd.convention=kept("coefdyn-convention",["paper","fla","mamba"])})()</script>'
)
READING = (
    '<fieldset class="cd-reading"><legend>Read</legend>'
    '<label title="Text, formulas and figures, without code"><input type="radio" '
    'name="cd-reading" value="ideas"><span>Ideas</span></label>'
    '<label title="Code as well"><input type="radio" name="cd-reading" value="code" checked>'
    "<span>Code</span></label></fieldset>"
)
CONVENTION = (
    '<label class="cd-convention"><span>Symbols</span><select data-cd="convention">'
    '<option value="paper">Paper</option><option value="fla">flash-linear-attention</option>'
    '<option value="mamba">Mamba</option></select></label>'
)
PRESENT = '<button type="button" class="cd-present" data-cd="present">Present</button>'
LEFT_OUT = '<p class="cd-left-out" role="status" data-cd="left-out"></p>'


def fold_code(text: str) -> str:
    """Page with each cell's code in a fold of its own that states its length."""
    text = HIDDEN.sub(lambda found: _length(found)[1].join(found.group(1, 2, 3)), text)
    return CELL.sub(_folded, text)


def _length(found: re.Match[str]) -> tuple[str, str]:
    """A cell's code, and the name of its fold."""
    code = html.unescape(TAG.sub("", found["code"])).strip()
    lines = code.count("\n") + 1
    return code, f"Code, {lines} {'line' if lines == 1 else 'lines'}"


def _folded(found: re.Match[str]) -> str:
    if "tag_key" in found["kind"] or "hide" in found["kind"]:
        return found[0]
    code, name = _length(found)
    only_shows = SHOWS.search(code) and not SAYS.search(code)
    kind, state = ("cd-shows", "") if only_shows else ("cd-says", " open")
    summary = f"<summary>{name}</summary>"
    fold = f'<details class="cd-code {kind}"{state}>{summary}{found["input"]}</details>'
    return f"{found[1]}{fold}"


def with_switches(text: str, *, slides: bool = False) -> str:
    """Page with the switches that apply to it, above its title; it may have `slides` to present."""
    if "cd-switches" in text:
        return text
    parts = [READING] if 'class="cd-code' in text else []
    parts += [CONVENTION] if 'class="cv-fla"' in text and LANDING not in text else []
    parts += [PRESENT] if slides or EXPLORER in text or TRAINER in text else []
    if not parts:
        return text
    bar = f'<div class="cd-switches d-print-none">{"".join(parts)}</div>'
    bar += LEFT_OUT if CONVENTION in parts else ""
    text = text.replace("</title>", f"</title>{REMEMBERED}", 1)
    return text.replace('<article class="bd-article">', f'<article class="bd-article">{bar}', 1)
