"""TeX becomes MathML: what stands where, every symbol, and an error for what is not known."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
import yaml

from book.tools.mathml import TexError, symbols, to_mathml

ROOT = Path(__file__).resolve().parents[2]
CONFIG = yaml.safe_load((ROOT / "_config.yml").read_text(encoding="utf-8"))
MACROS = CONFIG["sphinx"]["config"]["mathjax3_config"]["tex"]["macros"]


def tree(tex: str) -> ET.Element:
    """The formula as parsed XML, which it must be."""
    return ET.fromstring(to_mathml(tex, display=False, macros=MACROS))


def shape(element: ET.Element) -> str:
    """Elements and letters without attributes: ``msub(mi:x mn:1)``."""
    if not len(element):
        return f"{element.tag}:{element.text or ''}"
    return f"{element.tag}({' '.join(shape(child) for child in element)})"


@pytest.mark.parametrize(
    ("tex", "wanted"),
    [
        ("x_1", "msub(mi:x mn:1)"),
        ("x_i^\\top", "msubsup(mi:x mi:i mi:⊤)"),
        ("x^2_i", "msubsup(mi:x mi:i mn:2)"),
        ("x^12", "mrow(msup(mi:x mn:1) mn:2)"),
        ("f''", "msup(mi:f mo:′′)"),
        ("\\frac12", "mfrac(mn:1 mn:2)"),
        ("\\sqrt[3]{n}", "mroot(mrow(mspace: mi:n) mn:3)"),
        ("\\sum_{j}^{n}", "munderover(mo:∑ mi:j mi:n)"),
        ("\\int_0^1", "msubsup(mo:∫ mn:0 mn:1)"),
        ("\\max_i x", "mrow(munder(mo:max mi:i) mspace: mi:x)"),
        ("\\ln(x)", "mrow(mi:ln mo:( mi:x mo:))"),
        ("\\operatorname{sg} x", "mrow(mi:sg mspace: mi:x)"),
        ("\\mathbb{R}^n", "msup(mi:ℝ mi:n)"),
        ("\\mathcal{N}", "mi:𝒩"),
        ("\\binom{a}{b}", "mrow(mo:( mfrac(mi:a mi:b) mo:))"),
        ("\\tilde{h}", "mover(mi:h mo:~)"),
        ("\\text{if } x", "mrow(mtext:if  mi:x)"),
        ("a &= b \\\\ c &= d", "mtable(mtr(mtd(mi:a) mtd(mrow(mo:= mi:b)))"
         " mtr(mtd(mi:c) mtd(mrow(mo:= mi:d))))"),
    ],
)  # fmt: skip
def test_structure(tex: str, wanted: str) -> None:
    (body,) = tree(tex)
    assert shape(body) == wanted


def test_a_minus_is_a_sign_only_where_nothing_stands_before_it() -> None:
    def forms(tex: str) -> list[str | None]:
        return [sign.get("form") for sign in tree(tex).iter("mo") if sign.text == "−"]

    assert forms("-a - b = -c") == ["prefix", None, "prefix"]
    assert forms("a(-b)") == ["prefix"]


def test_ingredients_and_conventions_are_classes() -> None:
    found = [node.get("class") for node in tree("\\symA{t}").iter() if node.get("class")]
    assert found == ["cd-evolution", "cv-paper", "cv-fla", "cv-mamba"]


def test_each_convention_has_its_own_letter() -> None:
    """A macro of three arguments puts each in its place."""
    letters = ["".join(part.itertext()) for part in tree("\\symQ{t}").iter("msub")]
    assert letters == ["qt", "qt", "Ct"]


def test_a_style_of_scripts_alone_is_small() -> None:
    styles = ("\\displaystyle", "\\textstyle", "\\scriptstyle")
    found = [next(tree(f"{style} x").iter("mstyle")) for style in styles]
    assert [one.get("displaystyle") for one in found] == ["true", "false", "false"]
    assert [one.get("scriptlevel") for one in found] == [None, None, "1"]


def test_source_is_kept_for_those_who_read_or_copy_it() -> None:
    assert tree('\\lambda < 1 "x"'.replace('"', "")).get("alttext") == "\\lambda < 1 x"


@pytest.mark.parametrize(
    "tex", ["\\unknown x", "{a", "a}", "\\frac{a}", "\\left( a", "a_b_c", "\\begin{array}a"]
)
def test_what_is_not_known_is_an_error_that_names_the_formula(tex: str) -> None:
    with pytest.raises(TexError, match=re.escape(repr(tex))):
        tree(tex)


TABLES = ("GREEK", "UPRIGHT", "RELATIONS", "BINARY", "LARGE", "FUNCTIONS", "DOTS", "SPACES")


@pytest.mark.parametrize("table", TABLES)
def test_every_symbol_is_set(table: str) -> None:
    for name in getattr(symbols, table):
        assert "\\" not in "".join(tree(f"x \\{name} y").itertext()), name
