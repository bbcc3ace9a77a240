"""Status of the registered claims: one pass over them, one table, and the details of one claim."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from coefdyn.lab.experiments import kept_results, second_look
from coefdyn.lab.experiments.base import Experiment
from coefdyn.lab.experiments.claim import Claim
from coefdyn.lab.experiments.plan import STANDARD
from coefdyn.lab.experiments.registration import changed_since
from coefdyn.lab.experiments.result import Result, Verdict
from coefdyn.lab.experiments.rule import (
    REASONS,
)
from coefdyn.lab.repeat import DIFFERS, EQUAL, WITHIN, repeats_file

__all__ = [
    "Standing",
    "reasons",
    "repeats_markdown",
    "standings",
]


@dataclass(frozen=True, kw_only=True)
class Standing:
    """A registered claim and its verdict from the standard runs.

    Args:
        experiment: whose claim.
        claim: which one.
        result: the standard runs.
        first: the verdict with the plan's seeds.
        second: that of the second look, where it was made.
    """

    experiment: Experiment
    claim: Claim
    result: Result
    first: Verdict
    second: Verdict | None

    @property
    def verdict(self) -> Verdict:
        """The verdict that counts."""
        return self.second or self.first

    def lines(self) -> list[str]:
        """Basis of the verdict as text: sentence, numbers, test, control, looks, commit."""
        one, status = self.verdict, self.verdict.status
        numbers = f": {one.numbers}" if one.numbers else ""
        found = [
            f"{one.id} ({self.experiment.id}): {one.claim}",
            f"  {status}{numbers}",
            f"  test: {one.test}",
            f"  control: {one.control}",
        ]
        if one.reason:
            found.append(f"  no test because: {one.reason}")
        if self.second is not None:
            found.append(f"  first look: {self.first.status}: {self.first.numbers}")
        first = self.experiment.registered(self.result)
        if first is not None:
            digests = {one.id: self.experiment.registrations()[one.id]}
            since = ", changed or added since" if changed_since(digests, first) else ""
            found.append(f"  registered in commit {first.commit}{since}")
        return found


def standings(out: Path | str | None = None) -> Iterator[Standing]:
    """Every registered claim with its verdicts at the standard size.

    Args:
        out: folder of the result files; None for ``data/results``.
    """
    for experiment, result in kept_results(STANDARD, out):
        claims = experiment.registered_claims()
        looks = second_look.looks(experiment.id, claims, result)
        for claim, (first, second) in zip(claims, looks, strict=True):
            yield Standing(
                experiment=experiment, claim=claim, result=result, first=first, second=second
            )


def reasons(out: Path | str | None = None) -> dict[str, int]:
    """Reason -> number of claims without a test, zeros included, in the order of ``rule.REASONS``.

    Args:
        out: see ``standings``.
    """
    found = Counter(one.verdict.reason for one in standings(out))
    return {reason: found[reason] for reason in REASONS}


def repeats_markdown(folder: Path | str | None = None) -> str:
    """Number of kept runs that gave the same numbers when trained once more.

    Args:
        folder: that of ``standard.json``; None for ``data/repeats``.
    """
    path = repeats_file(STANDARD) if folder is None else Path(folder) / f"{STANDARD}.json"
    found = json.loads(path.read_text(encoding="utf-8")) if path.exists() else []
    if not found:
        return "None so far: `python -m coefdyn.lab repeat --profile standard --runs 3 --draw 1`."
    counts = Counter(one["status"] for one in found)
    alike = [one for one in found if one["kept_by"]["device"] == one["again_by"]["device"]]
    same = sum(one["status"] == EQUAL for one in alike)
    return (
        f"Of {len(found)} repeated runs {counts[EQUAL]} gave the same numbers to the last digit, "
        f"{counts[WITHIN]} an accuracy within the interval, and {counts[DIFFERS]} another one. "
        f"On the type of machine that had kept them, {same} of {len(alike)} were equal."
    )
