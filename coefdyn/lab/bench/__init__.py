"""The training bench: the figure of ``coefdyn.lab.train``, computed in the page or in a kernel."""

from coefdyn.lab.bench.widget import TrainingBench

__all__ = ["TrainingBench"]
