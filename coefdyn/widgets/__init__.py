"""Interactive figures that run in the page: no kernel, no server, no build step.

The arithmetic of ``js/`` is held to the library's float64 reference by shared golden vectors.
"""

from coefdyn.widgets.explorer import Explorer
from coefdyn.widgets.small import ChunkView, CostView, ScoreVariance

__all__ = ["ChunkView", "CostView", "Explorer", "ScoreVariance"]
