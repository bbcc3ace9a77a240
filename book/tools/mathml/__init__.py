"""Formulas of the pages, typeset when the book is built.

`converter` turns a formula's TeX into MathML, which browsers set by themselves; `symbols` is what
it knows; `extension` hands it to Sphinx. A page then loads no typesetting script, and nothing on it
moves once it is drawn.
"""

from book.tools.mathml.converter import TexError, to_mathml

__all__ = ["TexError", "to_mathml"]
