"""Weights set by hand, and lemmas with words that show them: what a design can do, and cannot.

Output, decoder and margin are defined in ``hand`` and ``check``, the marks in ``cells``.
"""

from coefdyn.lab.capabilities.cells import Cell, cells, check, construct
from coefdyn.lab.capabilities.check import decides, measure, words_of
from coefdyn.lab.capabilities.hand import Member, layer_output
from coefdyn.lab.capabilities.two_layers import add_up, follow

__all__ = [
    "Cell",
    "Member",
    "add_up",
    "cells",
    "check",
    "construct",
    "decides",
    "follow",
    "layer_output",
    "measure",
    "words_of",
]
