"""WHAT a mixer computes: the four ingredients and the object that holds them. No algorithms."""

from coefdyn.dynamics import evolution, mask, normalizer, readout
from coefdyn.dynamics.coefficients import CoefficientDynamics

__all__ = ["CoefficientDynamics", "evolution", "mask", "normalizer", "readout"]
