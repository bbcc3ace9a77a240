"""Why claims at the standard size have no test, as Markdown."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from coefdyn.lab.experiments import kept_results
from coefdyn.lab.experiments.claim import Claim, Finding
from coefdyn.lab.experiments.plan import STANDARD
from coefdyn.lab.experiments.result import NO_TEST, Verdict
from coefdyn.lab.experiments.rule import CONTROL_FAILS, REASONS
from coefdyn.lab.pages.markdown import folded, plain, table

__all__ = ["Untested", "reasons", "untested", "untested_markdown"]


class Untested(NamedTuple):
    """A claim without a test: of which experiment, its verdict, and what its control found."""

    experiment: str
    claim: Claim
    verdict: Verdict
    control: Finding | None


def untested(out: Path | str | None = None) -> Iterator[Untested]:
    """Every claim without a test at the standard size.

    Args:
        out: folder of the result files; None for ``data/results``.
    """
    for experiment, result in kept_results(STANDARD, out):
        verdicts = experiment.claims(result)
        for claim, found in zip(experiment.registered_claims(), verdicts, strict=True):
            if found.status == NO_TEST:
                check = None if claim.control is None else claim.control.judge(result)
                yield Untested(experiment.id, claim, found, check)


def reasons(out: Path | str | None = None) -> dict[str, int]:
    """Reason -> number of claims, zeros included, in the order of ``rule.REASONS``.

    Args:
        out: see ``untested``.
    """
    found = Counter(one.verdict.reason for one in untested(out))
    return {reason: found[reason] for reason in REASONS}


def untested_markdown(out: Path | str | None = None) -> str:
    """How many claims have no test for which reason, and a folded table of them.

    Args:
        out: see ``untested``.
    """
    rows = [[one.experiment, plain(one.claim.sentence), _why(one)] for one in untested(out)]
    if not rows:
        return "Every claim that was run has a test."
    counts = ", ".join(f"{count} times {reason}" for reason, count in reasons(out).items())
    shown = folded("Each of them", table(["experiment", "claim", "why"], rows))
    return f"{counts[0].upper()}{counts[1:]}.\n\n{shown}"


def _why(one: Untested) -> str:
    """The reason; of a control, its words and whether it is refuted or has no test itself."""
    if one.verdict.reason != CONTROL_FAILS or one.control is None:
        return one.verdict.reason
    failed = f"has no test itself, since {one.control.reason}" if one.control.reason else "fails"
    return f"the control {failed}: “{plain(one.claim.why)}”"
