"""A second look at claims that four seeds left undecided.

Twelve seeds instead of four shrink the interval of a mean by about a half. They cost three times as
much, so the claims that get them are chosen by cost and not by what they promise: every claim that
was undecided with four seeds and whose models train in at most 150 core-seconds per seed, all of
them together; and the five claims on Mamba-2's scalings, which share four models, so that they cost
less than 100 per claim. Each stood on the list before the first of its further runs.

A second look takes all twelve seeds and the interval of ``rule.SECOND_CONFIDENCE``. A claim is
wrongly called held with at most 5 % at the first look and 2.5 % at the second, and the same for not
held. What four seeds decided stays as they decided it, also where one of its models has more now.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from coefdyn.lab.experiments import rule
from coefdyn.lab.experiments.claim import Claim
from coefdyn.lab.experiments.plan import Plan
from coefdyn.lab.experiments.result import Result, Verdict

__all__ = ["CLAIMS", "SEEDS", "first_and_second", "looks", "planned", "verdicts"]

#: the further seeds
SEEDS = tuple(range(100, 108))
#: what stands behind the numbers of a second look
LEVEL = f"{100 * rule.SECOND_CONFIDENCE:.0f} % intervals"
#: experiment -> the ids of its claims that are looked at twice
CLAIMS: dict[str, tuple[str, ...]] = {
    "principle-5-lm": (
        "language/softmax-inverse-sqrt",
        "language/mamba-2-inverse-sqrt",
        "language/mamba-2-constant-delta",
        "language-stopped/mamba-2-inverse-sqrt",
        "language-stopped/mamba-2-delta",
        "language-stopped/mamba-2-on-par",
    ),
    "dsf-mqar": (
        "mqar/normalized-attention-expansion",
        "mqar/ssd-expansion",
    ),
    "dsf-table-1": ("listops/normalized-ahead-of-softmax",),
    "spectra": (
        "listops/memory-lru",
        "pixels/memory-lru",
        "mqar/selects-mamba-2",
        "mqar/invariant-behind",
        "listops/softmax-both-ends",
        "pixels/linear-keeps-mamba-2",
        "mqar/linear-keeps-mamba-2",
        "mqar/linear-keeps-softmax",
    ),
    "spectra-mods": (
        "listops/gate-brings-zeros",
        "listops/fixed-delta",
        "mqar/convolution-mamba-2",
        "language/selects-bare-mamba-2",
    ),
    "heads": ("heads/2-as-one",),
    "scoreboard": (
        "board/overwrite",
        "board/long-memory",
        "board/s3-deltaproduct",
    ),
}


def planned(plan: Plan, experiment: str, claims: Sequence[Claim]) -> Plan:
    """A plan with further seeds for every variant that a claim of the list compares."""
    wanted = [facets for claim in _listed(experiment, claims) for facets in claim.compared]
    again = {one.name: SEEDS for one in plan.those_with(wanted)}
    return replace(plan, again=again)


def verdicts(experiment: str, claims: Sequence[Claim], result: Result) -> list[Verdict]:
    """The verdict on each claim: of the second look where there is one, else of the first.

    Args:
        experiment: its id.
        claims: its registered claims.
        result: of its standard profile.
    """
    return [second or first for first, second in looks(experiment, claims, result)]


def looks(
    experiment: str, claims: Sequence[Claim], result: Result
) -> list[tuple[Verdict, Verdict | None]]:
    """Per claim the verdict of the first look, and of the second where it was made.

    It is made of a claim of the list that the first left undecided, once all its runs are there.

    Args:
        experiment, claims, result: see ``verdicts``.
    """
    if not isinstance(result.plan, Plan):
        return [(claim.judge(result), None) for claim in claims]
    once, twice = first_and_second(result)
    listed = _listed(experiment, claims)
    found: list[tuple[Verdict, Verdict | None]] = []
    for claim in claims:
        first, second = claim.judge(once), None
        if first.status == rule.UNDECIDED and claim in listed and _complete(claim, twice):
            told = claim.judge(twice)
            second = replace(told, numbers=f"{told.numbers}; second look, {LEVEL}", looks=2)
        found.append((first, second))
    return found


def first_and_second(result: Result) -> tuple[Result, Result]:
    """Result as seen by the first look, and by the second."""
    assert isinstance(result.plan, Plan), f"{result.experiment} does not train"
    once = replace(result, plan=replace(result.plan, again={}))
    return once, replace(result, confidence=rule.SECOND_CONFIDENCE)


def _listed(experiment: str, claims: Sequence[Claim]) -> list[Claim]:
    return [claim for claim in claims if claim.id in CLAIMS.get(experiment, ())]


def _complete(claim: Claim, result: Result) -> bool:
    """Return whether every outcome that the claim needs has all of its seeds."""
    for facets in claim.compared:
        outcome, plan = result.one(**facets), result.plan
        assert isinstance(plan, Plan)
        if outcome is None or len(outcome.records) < len(plan.seeds_of(outcome.variant)):
            return False
    return True
