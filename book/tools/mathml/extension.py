"""Sphinx extension that writes formulas as MathML; an unknown formula fails the build."""

from __future__ import annotations

from typing import TYPE_CHECKING

from docutils.nodes import SkipNode
from sphinx.locale import _
from sphinx.util import logging
from sphinx.util.math import get_node_equation_number

from book.tools.mathml.converter import TexError, to_mathml

if TYPE_CHECKING:
    from docutils.nodes import math, math_block
    from sphinx.application import Sphinx
    from sphinx.writers.html5 import HTML5Translator

LOG = logging.getLogger(__name__)


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
