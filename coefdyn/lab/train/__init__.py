"""Training in a page: the model, its gradient and its optimiser in plain JavaScript."""

from coefdyn.lab.train.figure import PageTraining

__all__ = ["PageTraining"]
