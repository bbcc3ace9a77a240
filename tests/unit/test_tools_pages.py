"""Changes of the build to finished pages: unused styles, code folds, modules carried once."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from pygments.styles import get_style_by_name
from pygments.token import Name, Punctuation, Text, Whitespace

from book.tools.captions import fold_provenance
from book.tools.chapters import ROOT
from book.tools.code_folds import fold_code, with_switches
from book.tools.postprocess import postprocess_page
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


CAPTION = (
    "<p><em>parity, profile standard: 24 runs, seeds 0, 1, cpu (AMD EPYC), torch 2.13.0+cpu, "
    "code 8aa74597d799, 2026-11-22.</em></p>"
)


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_words_of_code_in_the_colour_of_the_text_are_no_elements(
    theme: str, tmp_path: Path
) -> None:
    settings = yaml.safe_load((ROOT / "_config.yml").read_text("utf-8"))["sphinx"]["config"]
    style = get_style_by_name(settings["html_theme_options"][f"pygments_{theme}_style"])
    text = style.style_for_token(Text)
    assert all(style.style_for_token(one) == text for one in (Name, Punctuation, Whitespace))
    page = tmp_path / "page.html"
    coloured = '<span class="k">def</span>'
    page.write_text(
        f'<pre>{coloured}<span class="w"> </span><span class="n">f</span><span class="p">(</span>'
        '</pre><span class="p"><span class="pre">,</span></span>',
        encoding="utf-8",
    )
    assert postprocess_page(page, tmp_path).endswith(
        f'<pre>{coloured} f(</pre><span class="p"><span class="pre">,</span></span>'
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
