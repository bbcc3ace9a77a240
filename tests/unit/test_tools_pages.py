"""Changes of the build to finished pages: unused styles, code folds, modules carried once."""

from __future__ import annotations

import json
from pathlib import Path

from book.tools.bundle import bundle
from book.tools.captions import caption_figures, fold_provenance
from book.tools.code_folds import fold_code, with_switches
from book.tools.postprocess import STATE, _modules_once, postprocess_page
from book.tools.styles import without_unused

USED = frozenset({"kept", "also"})


def test_a_rule_stays_if_all_its_classes_are_used() -> None:
    sheet = ".kept{a:b}.gone{a:b}.kept .gone,.kept.also{c:d}p{e:f}.kept:not(.gone){g:h}"
    assert without_unused(sheet, USED).split("\n") == [
        ".kept{a:b}",
        ".kept.also{c:d}",
        "p{e:f}",
        ".kept:not(.gone){g:h}",
    ]


def test_of_several_classes_one_is_enough() -> None:
    sheet = "p:is(.gone,.kept){a:b}p:where(.gone){a:b}.gone:is(.kept){c:d}p:has(> .gone){e:f}"
    assert without_unused(sheet, USED).split("\n") == [
        "p:is(.gone,.kept){a:b}",
        "p:where(.gone){a:b}",
        "p:has(> .gone){e:f}",
    ]


def test_groups_and_other_at_rules() -> None:
    sheet = (
        '@charset "UTF-8";@media (min-width:1px){.gone{a:b}.kept{c:d}}@media print{.gone{a:b}}'
        "@keyframes gone{from{a:b}to{c:d}}@font-face{src:url(data:font/woff2;base64,AA)}"
    )
    assert without_unused(sheet, USED).split("\n") == [
        '@charset "UTF-8";',
        "@media (min-width:1px){.kept{c:d}}",
        "@keyframes gone{from{a:b}to{c:d}}",
        "@font-face{src:url(data:font/woff2;base64,AA)}",
    ]


def test_a_brace_in_a_string_is_no_brace() -> None:
    assert without_unused('.kept::before{content:"}"}.gone{a:b}', USED) == (
        '.kept::before{content:"}"}'
    )


def cell(code: str, kind: str = "cell docutils container") -> str:
    return (
        f'<div class="{kind}">\n<div class="cell_input docutils container">\n'
        f'<div class="highlight-ipython3 notranslate"><div class="highlight"><pre>{code}\n</pre>'
        "</div>\n</div>\n</div>\n</div>"
    )


def test_code_folds_by_what_it_does() -> None:
    drawn = fold_code(cell("figure, axis = plt.<span>subplots</span>()\naxis.plot(x)"))
    assert 'class="cd-code cd-shows"><summary>Code, 2 lines</summary>' in drawn
    said = fold_code(cell("<span>assert</span> a == b"))
    assert 'class="cd-code cd-says" open><summary>Code, 1 line</summary>' in said
    both = fold_code(cell("plt.subplots()\nassert a == b"))
    assert "cd-says" in both
    assert fold_code(said) == said


def test_a_key_of_a_derivation_never_folds() -> None:
    page = cell("a = b", "cell tag_key docutils container")
    assert fold_code(page) == page


def test_a_page_has_only_the_switches_it_has_a_use_for() -> None:
    page = '<title>x</title><article class="bd-article"><h1>x</h1>{}</article>'
    assert with_switches(page.format("")) == page.format("")
    coded = with_switches(page.format(fold_code(cell("a = b"))))
    assert "cd-reading" in coded and 'data-cd="convention"' not in coded
    assert with_switches(coded) == coded
    assert 'data-cd="left-out"' in with_switches(page.format('<mrow class="cv-fla">'))


def test_a_module_is_carried_once() -> None:
    long = "const a = 1; // </script>\n" * 60
    state = {"state": {name: {"state": {"_esm": long}} for name in ("one", "two")}}
    text = json.dumps(state).replace("</", "<\\/")
    page = f'<script type="application/vnd.jupyter.widget-state+json">{text}</script>'
    short = STATE.sub(_modules_once, page)
    found = STATE.search(short)
    assert found is not None
    records = json.loads(found[2])["state"]
    assert records["one"]["state"]["_esm"] == long
    assert records["two"]["state"]["_esm"] == "@same:one"
    assert "</script>" not in found[2]
    assert STATE.sub(_modules_once, short) == short


def test_a_page_is_read_before_its_scripts_run(tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    first = '<script src="_static/documentation_options.js?v=1"></script>'
    inline = "<script>DOCUMENTATION_OPTIONS.pagename = 'page';</script>"
    waits = '<script defer="defer" src="_static/widget-host.js"></script>'
    theirs = '<script data-a="b" src="../_static/scripts/theme.js?v=2"></script>'
    page.write_text(f"<html><head>{first}{inline}{waits}{theirs}</head></html>", encoding="utf-8")
    text = postprocess_page(page, tmp_path)
    assert first in text and inline in text and waits in text, "as they were"
    assert theirs.replace("<script ", '<script defer="defer" ') in text
    page.write_text(text, encoding="utf-8")
    assert postprocess_page(page, tmp_path) == text
    search = f'<html><head>{theirs}<script src="_static/searchtools.js"></script></head></html>'
    page.write_text(search, encoding="utf-8")
    assert "defer" not in postprocess_page(page, tmp_path), "the search's own lines call it at once"


def test_a_page_asks_for_one_sheet_and_one_script(tmp_path: Path) -> None:
    static = tmp_path / "_static"
    for name, text in {
        "styles/theme.css": '@charset "UTF-8";@import "../basic.css";a{b:url("../fonts/x.woff2")}',
        "basic.css": "i{j:k}",
        "own.css": "c{d:url(data:font/woff2;base64,AA)}e{f:url(fonts/y.woff2)}",
        "one.js": "const one = 1",
        "two.js": "const two = one + 1;",
    }.items():
        (static / name).parent.mkdir(parents=True, exist_ok=True)
        (static / name).write_text(text, encoding="utf-8")
    kept = '<script defer="defer" data-a="b" src="{0}_static/three.js"></script>'
    inline = "<script>let four;</script>"
    head = (
        '<link href="{0}_static/styles/theme.css?digest=1" rel="stylesheet" />\n'
        '<link rel="stylesheet" type="text/css" href="{0}_static/own.css?v=2" />\n'
        '<link rel="icon" href="{0}_static/own.png" />'
        f'<script defer="defer" src="{{0}}_static/one.js?v=1"></script>{inline}{kept}'
        '<script defer="defer" src="{0}_static/two.js"></script>'
    )
    (tmp_path / "part").mkdir()
    pages = {"index.html": "", "part/page.html": "../"}
    for name, up in pages.items():
        (tmp_path / name).write_text(head.format(up), encoding="utf-8")
    bundle(tmp_path)
    sheets, scripts = list(static.glob("joined-*.css")), list(static.glob("joined-*.js"))
    assert len(sheets) == len(scripts) == 1, "equal lists share a file"
    assert sheets[0].read_text(encoding="utf-8") == (
        'i{j:k}a{b:url("styles/../fonts/x.woff2")}\n'
        "c{d:url(data:font/woff2;base64,AA)}e{f:url(./fonts/y.woff2)}"
    )
    assert scripts[0].read_text(encoding="utf-8") == "const one = 1;\nconst two = one + 1;;"
    for name, up in pages.items():
        text = (tmp_path / name).read_text(encoding="utf-8")
        assert text == (
            f'<link rel="stylesheet" type="text/css" href="{up}_static/{sheets[0].name}" />\n'
            f'<link rel="icon" href="{up}_static/own.png" />'
            f'<script defer="defer" src="{up}_static/{scripts[0].name}"></script>\n'
            f"{inline}{kept.format(up)}"
        )
    bundle(tmp_path)
    assert (tmp_path / "part/page.html").read_text(encoding="utf-8") == text


def test_a_cell_that_its_author_folds_is_called_as_every_other() -> None:
    summary = (
        '<details class="admonition hide above-input">\n<summary>\n'
        '<p class="collapsed admonition-title">Show code cell source</p>\n'
        '<p class="expanded admonition-title">Hide code cell source</p>\n</summary>\n'
    )
    inner = cell("a = 1\nb = 2").partition("\n")[2]
    page = f'<div class="cell tag_hide-input docutils container">\n{summary}{inner}'
    folded = fold_code(page)
    assert folded.count('admonition-title">Code, 2 lines</p>') == 2
    assert fold_code(folded) == folded
    named = page.replace("Show code cell source", "The layer").replace("Hide code cell source", "")
    assert fold_code(named) == named


CAPTION = (
    "<p><em>parity, profile standard: 24 runs, seeds 0, 1, cpu (AMD EPYC), torch 2.13.0+cpu, "
    "code 8aa74597d799, 2026-11-22.</em></p>"
)


def test_provenance_is_one_quiet_line() -> None:
    folded = fold_provenance(CAPTION)
    summary = "<summary>24 runs: how they were made</summary>"
    assert folded.startswith(f'<details class="cd-made">{summary}<p>parity, profile')
    assert "8aa74597d799, 2026-11-22.</p></details>" in folded and "<em>" not in folded
    assert fold_provenance(folded) == folded
    table = "<p><em>Batch 4, n = 64, AMD EPYC, 1 thread, torch 2.13.0+cpu, 2026-11-23.</em></p>"
    assert fold_provenance(table).startswith("<p><em>Batch 4, n = 64.</em></p><details")
    for kept in ("<p><em>A word</em> in a text.</p>", "<p><em>parity: not yet run.</em></p>"):
        assert fold_provenance(kept) == kept


def test_the_words_of_a_drawn_figure_are_its_caption() -> None:
    link = '<a class="reference internal image-reference" href="../_images/a.png">'
    picture = '<img alt="A line that falls." src="../_images/a.png" style="width: 9px;" />'
    page = f"{link}{picture}\n</a>"
    told = caption_figures(page)
    assert told == f'{page}<p class="cd-caption" aria-hidden="true">A line that falls.</p>'
    assert caption_figures(told) == told
    other = page.replace("_images", "_static")
    assert caption_figures(other) == other
