"""Shares of coefficients counted twice: raw, and after division by eta."""

from __future__ import annotations

from dataclasses import replace
from statistics import fmean

from coefdyn.lab.experiments.base import Experiment
from coefdyn.lab.experiments.claim import Ahead, Claim, Every, Test
from coefdyn.lab.experiments.measure import diagnostic
from coefdyn.lab.experiments.result import Result
from coefdyn.lab.pages.markdown import plain, table

__all__ = ["counted_by", "shares_markdown"]

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
    rows = [
        [one.sentence, *(counted_by(one, form).judge(result).status for form in _FORMS)]
        for one in experiment.registered_claims()
        if counted_by(one, "raw").test.words != one.test.words
    ]
    return "\n\n".join(
        [
            table(["variant", "near zero, raw", "near zero, divided", "accuracy"], counts),
            table(["claim", "by raw counts", "by divided counts"], rows),
        ]
    )


def counted_by(claim: Claim, form: str) -> Claim:
    """Claim whose shares are counted in one form, else unchanged.

    Args:
        claim: of Principle 2 or 2.1.
        form: "raw" or "normalized".
    """
    test = _counted(claim.test, form)
    control = None if claim.control is None else _counted(claim.control, form)
    return replace(claim, test=test, control=control)


def _counted(test: Test, form: str) -> Test:
    if isinstance(test, Every):
        return Every(tuple(_counted(one, form) for one in test.tests))
    if not isinstance(test, Ahead):
        return test
    name, _, old = test.measure.name.partition(", ")
    if old not in _FORMS:
        return test
    return replace(test, measure=diagnostic(name.replace(" ", "_"), form))
