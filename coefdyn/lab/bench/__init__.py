"""The training bench: a design of one's own beside the book's, trained in a live notebook."""

from coefdyn.lab.bench.widget import TrainingBench

__all__ = ["TrainingBench"]
