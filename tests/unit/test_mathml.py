"""TeX becomes MathML that browsers set: what the pages add to the converter, and their macros."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
import yaml

from book.tools.mathml import CLASSES, TexError, to_mathml

ROOT = Path(__file__).resolve().parents[2]
CONFIG = yaml.safe_load((ROOT / "_config.yml").read_text(encoding="utf-8"))
MACROS = CONFIG["sphinx"]["config"]["mathjax3_config"]["tex"]["macros"]


def tree(tex: str, *, display: bool = False) -> ET.Element:
    """The formula as parsed XML, which it must be."""
    return ET.fromstring(to_mathml(tex, display=display, macros=MACROS))


@pytest.mark.parametrize("name", CLASSES)
def test_a_class_is_a_class_and_no_colour(name: str) -> None:
    for found in (tree(f"\\class{{{name}}}{{x}}"), tree(f"\\class{{{name}}}{{x + y}} z")):
        assert [node.get("class") for node in found.iter() if node.get("class")] == [name]
        assert not [node for node in found.iter() if "color" in node.get("style", "")]


def test_ingredients_and_conventions_are_classes() -> None:
    found = [node.get("class") for node in tree("\\symA{t}").iter() if node.get("class")]
    assert found == ["cd-evolution", "cv-paper", "cv-fla", "cv-mamba"]


@pytest.mark.parametrize(
    "tex", ["a &= b \\\\ c &= d", "\\begin{aligned}a &= b \\\\[2pt] c &= d\\end{aligned}"]
)
def test_lines_are_rows_with_or_without_an_environment(tex: str) -> None:
    rows = [
        ["".join(cell.itertext()) for cell in row] for row in tree(tex, display=True).iter("mtr")
    ]
    assert rows == [["a", "=b"], ["c", "=d"]]


def test_letters_of_an_alphabet_and_the_spaces_of_words_are_kept() -> None:
    assert "".join(tree("\\R").itertext()) == "ℝ"
    assert (
        "".join(tree("\\text{for all } q").itertext())
        == "for\N{NO-BREAK SPACE}all\N{NO-BREAK SPACE}q"
    )


def test_source_is_kept_for_those_who_read_or_copy_it() -> None:
    found = tree('\\lambda < "1"')
    assert found.get("alttext") == '\\lambda < "1"'
    assert found.get("display") is None and tree("x", display=True).get("display") == "block"


@pytest.mark.parametrize(
    "tex",
    [
        "\\unknown x",
        "{a",
        "a}",
        "\\frac{a}",
        "\\left( a",
        "a_b_c",
        "\\begin{array}a",
        "\\class{b}c",
    ],
)
def test_what_is_not_known_is_an_error_that_names_the_formula(tex: str) -> None:
    with pytest.raises(TexError, match=re.escape(repr(tex))):
        tree(tex)
