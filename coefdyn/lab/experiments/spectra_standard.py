"""The standard profiles of spectra and spectra-mods: measures of a histogram, registered claims.

Every claim about where eigenvalues lie has the untrained network as its control: a share that was
there before training says nothing about what the task needs.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

from coefdyn.analysis.spectra import EDGES
from coefdyn.lab.experiments.measure import Measure
from coefdyn.lab.experiments.result import Outcome

__all__ = ["ABOVE_ONE", "NEAR_ONE", "NEAR_ZERO", "gain", "seed_masses", "share"]

#: ranges of the modulus, fixed before anything was run
NEAR_ZERO, NEAR_ONE, ABOVE_ONE = (0.0, 0.1), (0.95, 1.05), (1.05, float("inf"))
WORDS = {NEAR_ZERO: "below 0.1", NEAR_ONE: "about 1", ABOVE_ONE: "above 1.05"}
#: the network as it was drawn, and after training
WHEN = ("initial", "trained")
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


LAYERS: dict[str, Callable[[list[float]], float]] = {
    "first": lambda layers: layers[0],
    "last": lambda layers: layers[-1],
    "fullest": max,
    "mean": lambda layers: sum(layers) / len(layers),
}


def share(span: Span, layer: str = "mean", when: str = "trained") -> Measure:
    """The share of moduli in a range as a measure: in the first layer, the fullest, or the mean."""
    return Measure(
        f"share {WORDS[span]} ({_where(layer)}, {when})",
        lambda outcome: [LAYERS[layer](layers) for layers in seed_masses(outcome, span, when)],
    )


def gain(span: Span, layer: str = "mean") -> Measure:
    """What training adds to the share of moduli in a range, seed by seed."""

    def values(outcome: Outcome) -> list[float]:
        before, after = (share(span, layer, when).values(outcome) for when in WHEN)
        return [trained - drawn for drawn, trained in zip(before, after, strict=True)]

    return Measure(f"share {WORDS[span]} ({_where(layer)}), trained less untrained", values)


def _where(layer: str) -> str:
    return "mean over layers" if layer == "mean" else f"{layer} layer"
