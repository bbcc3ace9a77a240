"""What a design can and cannot do: weights set by hand, lemmas with words that show them.

Output, decoder and margin are defined in ``hand`` and ``check``, the marks in ``cells``.
"""

from coefdyn.lab.capabilities.cells import Cell, cells, check, construct

__all__ = ["Cell", "cells", "check", "construct"]
