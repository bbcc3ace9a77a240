"""Formulas of the pages, typeset when the book is built; an unknown formula fails the build.

`math_core` turns a formula's TeX into MathML, which browsers set by themselves. A page then loads
no typesetting script, and nothing on it moves once it is drawn. This module adds what the pages ask
beyond that: classes, lines without an environment, and the source for those who copy it.
"""

from __future__ import annotations

import html
import re
from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING

from docutils.nodes import SkipNode
from math_core import LatexError, LatexToMathML
from sphinx.locale import _
from sphinx.util import logging
from sphinx.util.math import get_node_equation_number

if TYPE_CHECKING:
    from docutils.nodes import math, math_block
    from sphinx.application import Sphinx
    from sphinx.writers.html5 import HTML5Translator

LOG = logging.getLogger(__name__)

#: A macro's name to its body, or to its body and its number of arguments.
Macros = Mapping[str, "str | list[str | int] | tuple[str, int]"]
#: The converter knows colours and no classes, so that a class goes through it as a colour of TeX,
#: which is written as these digits. No formula uses a colour by name.
CLASSES = {
    "cd-evolution": ("blue", "0000FF"),
    "cd-scaling": ("red", "FF0000"),
    "cd-readout": ("teal", "008080"),
    "cd-normalizer": ("gray", "808080"),
    "cv-paper": ("black", "000000"),
    "cv-fla": ("white", "FFFFFF"),
    "cv-mamba": ("violet", "800080"),
}
CLASS = re.compile(r"\\class\{([^}]*)\}")
#: The space that TeX may ask for below a line; all lines of the pages stand equally apart.
BELOW = re.compile(r"\\\\\s*\[[^]]*\]")
#: A name that HTML knows and XML does not.
NAME = re.compile(r"&(?!(?:lt|gt|amp|quot);)\w+;")
#: Keeps the bar of a root away from a small letter.
STRUT = '<mspace width="0em" height="0.72em"/>'


class TexError(ValueError):
    """The formula uses TeX that the converter does not know, or is not well formed."""


def to_mathml(tex: str, *, display: bool, macros: Macros) -> str:
    """Convert one formula to a `<math>` element that keeps its source as `alttext`.

    Args:
        tex: the formula without dollar signs.
        display: whether it stands on a line of its own.
        macros: as MathJax takes them: name to body, or to body and number of arguments.

    Raises:
        TexError: for TeX that is not known, with the reason and the formula.
    """
    source = " ".join(tex.split())
    bodies = {name: one if isinstance(one, str) else str(one[0]) for name, one in macros.items()}
    shown = BELOW.sub(r"\\\\ ", source)
    if "\\begin" not in shown and ("\\\\" in shown or re.search(r"(?<!\\)&", shown)):
        shown = rf"\begin{{aligned}}{shown}\end{{aligned}}"
    try:
        plain = _converter(tuple(bodies.items())).convert_with_local_state(
            _with_colours(shown), displaystyle=display
        )
    except (LatexError, TexError) as error:
        raise TexError(f"{error} (in the formula {source!r})") from None
    for name, (_colour, digits) in CLASSES.items():
        plain = plain.replace(f'<mrow style="color:#{digits};">', f'<mrow class="{name}">')
    plain = plain.replace("<msqrt>", f"<msqrt>{STRUT}").replace("⟂", "⊥")
    plain = plain.replace('<menclose notation="box">', '<mrow class="cd-boxed">')
    plain = plain.replace("</menclose>", "</mrow>")
    plain = NAME.sub(lambda found: html.unescape(found[0]), plain)
    return plain.replace("<math", f'<math alttext="{html.escape(source)}"', 1)


@cache
def _converter(macros: tuple[tuple[str, str], ...]) -> LatexToMathML:
    colored = {name: _with_colours(body) for name, body in macros}
    return LatexToMathML(macros=colored, fancy_error=False)


def _with_colours(tex: str) -> str:
    return CLASS.sub(lambda found: rf"\textcolor{{{_colour_of(found[1])}}}", tex)


def _colour_of(name: str) -> str:
    if name not in CLASSES:
        raise TexError(f"the class {name!r} is not one of {', '.join(CLASSES)}")
    return CLASSES[name][0]


def typeset(translator: HTML5Translator, node: math | math_block, display: bool) -> str:
    """Convert a node's formula; failing that, warn (which fails the build) and keep its source."""
    macros = translator.config.mathjax3_config["tex"]["macros"]
    try:
        return to_mathml(node.astext(), display=display, macros=macros)
    except TexError as error:
        LOG.warning("%s", error, location=node)
        return str(translator.encode(node.astext()))


def visit_inline(translator: HTML5Translator, node: math) -> None:
    """Write a formula within a line."""
    translator.body.append(translator.starttag(node, "span", "", CLASS="math notranslate"))
    translator.body.append(typeset(translator, node, False) + "</span>")
    raise SkipNode


def visit_block(translator: HTML5Translator, node: math_block) -> None:
    """Write a formula on a line of its own, followed by its number and a link."""
    translator.body.append(translator.starttag(node, "div", CLASS="math notranslate"))
    translator.body.append(f'<div class="cd-formula">{typeset(translator, node, True)}</div>')
    if node["number"]:
        number = get_node_equation_number(translator, node)
        translator.body.append(f'<span class="eqno">({number})')
        translator.add_permalink_ref(node, _("Link to this equation"))
        translator.body.append("</span>")
    translator.body.append("</div>\n")
    raise SkipNode


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_html_math_renderer("mathml", (visit_inline, None), (visit_block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
