"""The standard profiles of spectra and spectra-mods: measures of a histogram, registered claims.

Every claim about where eigenvalues lie has the untrained network as its control: a share that was
there before training says nothing about what the task needs.
"""

from __future__ import annotations

from itertools import pairwise

from coefdyn.analysis.spectra import EDGES
from coefdyn.lab.experiments.measure import Measure
from coefdyn.lab.experiments.result import Outcome

__all__ = ["ABOVE_ONE", "FEW", "NEAR_ONE", "NEAR_ZERO", "seed_masses", "share"]

#: ranges of the modulus, fixed before anything was run
NEAR_ZERO, NEAR_ONE, ABOVE_ONE = (0.0, 0.1), (0.95, 1.05), (1.05, float("inf"))
#: a share of the eigenvalues that counts as a peak
FEW = 0.05
WORDS = {NEAR_ZERO: "below 0.1", NEAR_ONE: "about 1", ABOVE_ONE: "above 1.05"}
Span = tuple[float, float]


def seed_masses(outcome: Outcome, span: Span, when: str = "trained") -> list[list[float]]:
    """Share of the moduli in [low, high): one list over the layers for every seed.

    Args:
        outcome: of a variant with the diagnostic "moduli".
        span: two edges of the histogram.
        when: "initial" or "trained".
    """
    inside = [span[0] <= a and b <= span[1] for a, b in pairwise(EDGES)]
    return [
        [sum(s for s, keep in zip(layer["share"], inside, strict=True) if keep) for layer in layers]
        for layers in (one[when] for one in outcome.diagnostic("moduli"))
    ]


def share(span: Span, layer: str = "mean", when: str = "trained") -> Measure:
    """The share of moduli in a range as a measure: in the first layer, the fullest, or the mean."""
    of = {
        "first": lambda layers: layers[0],
        "last": lambda layers: layers[-1],
        "fullest": max,
        "mean": lambda layers: sum(layers) / len(layers),
    }[layer]
    where = "mean over layers" if layer == "mean" else f"{layer} layer"
    return Measure(
        f"share {WORDS[span]} ({where}, {when})",
        lambda outcome: [of(layers) for layers in seed_masses(outcome, span, when)],
    )
