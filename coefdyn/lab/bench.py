"""Deprecated: ``TrainingBench`` is ``coefdyn.lab.train.PageTraining``, which trains in the page."""

from __future__ import annotations

import warnings
from typing import Any

__all__: list[str] = []


def __getattr__(name: str) -> Any:
    if name != "TrainingBench":
        raise AttributeError(f"module 'coefdyn.lab.bench' has no attribute {name!r}")
    from coefdyn.lab.train import PageTraining

    warnings.warn(
        "TrainingBench is deprecated; use coefdyn.lab.train.PageTraining.",
        DeprecationWarning,
        stacklevel=2,
    )
    return PageTraining
