"""Weights set by hand, and lemmas with words that show them: what a design can do, and cannot.

Output, decoder and margin are defined in ``hand`` and ``check``, the marks in ``cells``.
"""

from coefdyn.lab.capabilities.cells import Cell, cells, check, construct

__all__ = ["Cell", "cells", "check", "construct"]
