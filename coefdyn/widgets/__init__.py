"""Interactive figures that run in the page: no kernel, no server, no build step.

The arithmetic of ``js/`` is held to the library's float64 reference by shared golden vectors. Only
``TrainingBench`` needs a live notebook.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from coefdyn.widgets.explorer import Explorer
from coefdyn.widgets.film import TrainingFilm
from coefdyn.widgets.small import ChunkView, CostView, ScoreVariance

if TYPE_CHECKING:
    from coefdyn.widgets.training_bench import TrainingBench

__all__ = ["ChunkView", "CostView", "Explorer", "ScoreVariance", "TrainingBench", "TrainingFilm"]


def __getattr__(name: str) -> Any:
    """The bench trains, so it needs matplotlib and more; it is imported when it is asked for."""
    if name == "TrainingBench":
        from coefdyn.widgets.training_bench import TrainingBench

        return TrainingBench
    raise AttributeError(f"module 'coefdyn.widgets' has no attribute {name!r}")
