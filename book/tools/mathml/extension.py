"""Sphinx extension: formulas leave the build as MathML; a formula it does not know fails it."""

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
    """The formula of a node; a warning, which fails the build, and its source if it has none."""
    macros = translator.config.mathjax3_config["tex"]["macros"]
    try:
        return to_mathml(node.astext(), display=display, macros=macros)
    except TexError as error:
        LOG.warning("%s", error, location=node)
        return str(translator.encode(node.astext()))


def visit_inline(translator: HTML5Translator, node: math) -> None:
    """A formula within a line."""
    translator.body.append(translator.starttag(node, "span", "", CLASS="math notranslate"))
    translator.body.append(typeset(translator, node, False) + "</span>")
    raise SkipNode


def visit_block(translator: HTML5Translator, node: math_block) -> None:
    """A formula on a line of its own, its number and the link to it after it."""
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
