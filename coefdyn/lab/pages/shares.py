"""Shares of coefficients counted twice: raw, and after division by eta."""

from __future__ import annotations

from statistics import fmean

from coefdyn.lab.experiments import ledger
from coefdyn.lab.experiments.base import Experiment
from coefdyn.lab.experiments.result import Result
from coefdyn.lab.pages.markdown import plain, table

__all__ = ["shares_markdown"]

_FORMS = ("raw", "normalized")


def shares_markdown(experiment: Experiment, result: Result) -> str:
    """Two tables: near-zero shares by variant, and the claims on shares judged by either count.

    The lemmas are about raw coefficients, the figures of the sources about divided ones; the
    registered claims were made for the latter.

    Args:
        experiment: of Principle 2 or 2.1.
        result: its standard runs.
    """
    counts = [
        [
            plain(one.variant.name),
            *(f"{fmean(one.diagnostic('near_zero_fraction', form)):.3f}" for form in _FORMS),
            f"{one.accuracy:.3f}",
        ]
        for one in result.outcomes()
    ]
    return "\n\n".join(
        [
            table(["variant", "near zero, raw", "near zero, divided", "accuracy"], counts),
            table(["claim", "by raw counts", "by divided counts"], ledger.shares(experiment.id)),
        ]
    )
