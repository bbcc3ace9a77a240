"""Properties of a design: each function takes a CoefficientDynamics and returns a frozen result.

Nothing here draws (see ``coefdyn.plots``) and nothing knows of training.
"""

from coefdyn.analysis.classes import CombinationClass, combination_class, observed_class
from coefdyn.analysis.positions import PositionalInformation, positional_information
from coefdyn.analysis.probing import Probe, probe
from coefdyn.analysis.report import DesignReport, report
from coefdyn.analysis.selectivity import (
    NearZeroSet,
    Selectivity,
    near_zero_set,
    selectivity,
    simultaneous_zeros,
)
from coefdyn.analysis.spectra import (
    EDGES,
    ModulusHistogram,
    Spectrum,
    modulus_histogram,
    spectrum,
)
from coefdyn.analysis.stability import Stability, stability
from coefdyn.analysis.variance import ScoreVariance, score_variance

__all__ = [
    "EDGES",
    "CombinationClass",
    "DesignReport",
    "ModulusHistogram",
    "NearZeroSet",
    "PositionalInformation",
    "Probe",
    "ScoreVariance",
    "Selectivity",
    "Spectrum",
    "Stability",
    "combination_class",
    "modulus_histogram",
    "near_zero_set",
    "observed_class",
    "positional_information",
    "probe",
    "report",
    "score_variance",
    "selectivity",
    "simultaneous_zeros",
    "spectrum",
    "stability",
]
