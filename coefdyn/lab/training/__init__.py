"""Training: one loop, runs that survive a kill, results on disk.

An optimiser step is read in ``config.py``, ``loop.py`` and ``data.py``, in this order.
"""

from __future__ import annotations

from coefdyn.lab.training.config import RunConfig, TrainConfig
from coefdyn.lab.training.loop import Stopped, TrainOptions, build_model, train_run
from coefdyn.lab.training.results import Record, ResultFile, ResultsNotWritten
from coefdyn.lab.training.runs import RunOptions, train_runs
from coefdyn.lab.training.workers import WorkerFailed
from coefdyn.progress import Progress

__all__ = [
    "Progress",
    "Record",
    "ResultFile",
    "ResultsNotWritten",
    "RunConfig",
    "RunOptions",
    "Stopped",
    "TrainConfig",
    "TrainOptions",
    "WorkerFailed",
    "build_model",
    "train_run",
    "train_runs",
]
