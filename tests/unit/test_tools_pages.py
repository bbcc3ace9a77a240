"""What the build does to finished pages: unused styles go, code folds, modules are carried once."""

from __future__ import annotations

import json
from pathlib import Path

from book.tools.finish import STATE, _modules_once, finish_page
from book.tools.folds import fold_code, with_switches
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
    text = finish_page(page, tmp_path)
    assert first in text and inline in text and waits in text, "as they were"
    assert theirs.replace("<script ", '<script defer="defer" ') in text
    page.write_text(text, encoding="utf-8")
    assert finish_page(page, tmp_path) == text
