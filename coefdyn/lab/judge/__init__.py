"""Somebody else's mixer by the book's protocol: ``python -m coefdyn.lab judge my_module:MyMixer``.

The scoreboard's tasks and model frame, the headline claims' rate search and rule, and one folder of
the reader's own, from which an interrupted call goes on. Nothing here writes into the book's data.
"""

from coefdyn.lab.judge.compare import DESCRIBED, Comparison, compare_designs

__all__ = ["DESCRIBED", "Comparison", "compare_designs"]
