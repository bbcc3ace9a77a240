"""Coefficient dynamics: every causal sequence mixer as four choices (A_t, b_j, phi, eta_i)."""

from coefdyn.dynamics import CoefficientDynamics, documents, evolution, mask, normalizer, readout
from coefdyn.execution.state import State

__version__ = "0.1.0"

__all__ = [
    "CoefficientDynamics",
    "State",
    "__version__",
    "documents",
    "evolution",
    "mask",
    "normalizer",
    "readout",
]
