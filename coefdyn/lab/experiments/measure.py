"""Measures for comparing models: a number per seed, and its derivation from an outcome."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from coefdyn.lab.experiments.result import Outcome

__all__ = ["Measure", "accuracy", "accuracy_at", "diagnostic", "metric"]


@dataclass(frozen=True)
class Measure:
    """A number per seed: its name, and the function that reads it from an outcome.

    ``counted``: near a guess or near one where its task is solved or not, so that version 2 of the
    rule counts seeds instead of taking a mean.
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


def diagnostic(name: str, form: str = "normalized") -> Measure:
    """A diagnostic of the trained model that is one number per seed."""
    words = f"{name.replace('_', ' ')}, {form}"
    return Measure(words, lambda outcome: [float(v) for v in outcome.diagnostic(name, form)])
