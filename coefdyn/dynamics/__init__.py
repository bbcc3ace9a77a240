"""Definition of a mixer: the four ingredients and the object that holds them. No algorithms."""

from coefdyn.dynamics import documents, evolution, mask, normalizer, readout
from coefdyn.dynamics.coefficients import CoefficientDynamics

__all__ = ["CoefficientDynamics", "documents", "evolution", "mask", "normalizer", "readout"]
