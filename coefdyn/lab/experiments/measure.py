"""Measures for comparing models: a number per seed, and its derivation from an outcome."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from coefdyn.lab.experiments.result import Outcome

__all__ = ["OTHERS", "POINTED", "Measure", "accuracy", "accuracy_at", "metric"]


@dataclass(frozen=True)
class Measure:
    """A number per seed: its name, and the function that reads it from an outcome.

    ``counted``: near a guess or near one where its task is solved or not, so that the
    judge counts seeds instead of taking a mean.
    """

    name: str
    values: Callable[[Outcome], list[float]]
    counted: bool = False


accuracy = Measure("accuracy", lambda outcome: outcome.values("accuracy"), counted=True)


def accuracy_at(times: int) -> Measure:
    """Accuracy on sequences so many times as long as the training's, see "lengths"."""
    return Measure(
        f"accuracy at {times} times the length",
        lambda outcome: [one["diagnostics"]["lengths"][str(times)] for one in outcome.records],
        counted=True,
    )


def metric(name: str) -> Measure:
    """A final metric of the test split, such as "perplexity"."""
    return Measure(name, lambda outcome: outcome.values(name))


def _of_pointed(outcome: Outcome) -> list[tuple[float, float]]:
    """Per seed: what the head with the largest map loses, and the most that another one does."""
    found = []
    for record in outcome.records:
        heads = [head for layer in record["diagnostics"]["heads"] for head in layer]
        first, *others = sorted(heads, key=lambda head: -head["map"])
        found.append((first["lost"], max(head["lost"] for head in others)))
    return found


POINTED = Measure(
    "accuracy lost without the head that the map points at",
    lambda outcome: [own for own, _ in _of_pointed(outcome)],
    counted=True,
)
OTHERS = Measure(
    "most accuracy lost without another head",
    lambda outcome: [other for _, other in _of_pointed(outcome)],
    counted=True,
)
