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
from coefdyn.lab.experiments.result import Outcome, Result, Verdict

__all__ = ["CLAIMS", "SEEDS", "first_and_second", "further_seeds", "looks", "planned", "verdicts"]

#: the further seeds
SEEDS = tuple(range(100, 108))
#: what stands behind the numbers of a second look
LEVEL = f"{100 * rule.SECOND_CONFIDENCE:.0f} % intervals"
#: experiment -> the sentences of its claims that are looked at twice
CLAIMS: dict[str, tuple[str, ...]] = {
    "principle-5-lm": (
        "softmax: b = 1/sqrt(n) gives a lower perplexity than b = 1",
        "Mamba-2: b = 1/sqrt(n) gives a lower perplexity than b = 1",
        "Mamba-2: a constant b of Delta's size does as well as Delta (at most 1 higher), so "
        "Delta's lead is its size",
        "stopped in time, Mamba-2: b = 1/sqrt(n) gives a lower perplexity than b = 1",
        "stopped in time, Mamba-2: b = Delta gives a lower perplexity than b = 1",
        "stopped in time, Mamba-2: b = 1/sqrt(n) is on par with b = Delta (at most 1 higher)",
    ),
    "dsf-mqar": (
        "normalized attention: accuracy rises with the state expansion n",
        "SSD: accuracy rises with the state expansion n",
    ),
    "dsf-table-1": ("ListOps: normalized attention is more accurate than softmax attention",),
    "spectra": (
        "ListOps, LRU: eigenvalues are about 1 in the first layer, since the task needs a long "
        "memory",
        "pixels, LRU: eigenvalues are about 1 in the first layer, since the task needs a long "
        "memory",
        "MQAR, Mamba-2: eigenvalues below 0.1 appear, since the task selects",
        "MQAR: the time-invariant models, which cannot select, are less accurate than Mamba-2 and "
        "softmax attention",
        "ListOps: softmax attention has eigenvalues at both ends",
        "pixels: linear attention keeps more of its initial histogram than Mamba-2 does",
        "MQAR: linear attention keeps more of its initial histogram than Mamba-2 does",
        "MQAR: linear attention keeps more of its initial histogram than softmax does",
    ),
    "spectra-mods": (
        "ListOps, softmax: with a gate, eigenvalues below 0.1 appear",
        "ListOps, Mamba-2 with a fixed Delta: training brings eigenvalues about 1",
        "MQAR, Mamba-2: its convolution raises the accuracy",
        "language, Mamba-2 without convolution: eigenvalues below 0.1 appear, since the task "
        "selects",
    ),
    "heads": ("one size of state: 2 heads of four channels recall as much as one",),
    "scoreboard": (
        "overwrite: DeltaNet, which erases by key, is ahead of linear attention",
        "long memory: Mamba-2, whose decay reads the token, is ahead of LRU",
        "S3: DeltaProduct, whose steps can be rotations, reaches 0.9",
    ),
}


def planned(plan: Plan, experiment: str, claims: Sequence[Claim]) -> Plan:
    """A plan with further seeds for every variant that a claim of the list compares."""
    wanted = [facets for claim in _listed(experiment, claims) for facets in claim.compared]
    names = [
        one.name
        for one in plan.variants
        if any(all(one.facets.get(key) == value for key, value in f.items()) for f in wanted)
    ]
    return replace(plan, again=dict.fromkeys(names, SEEDS))


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


def further_seeds(outcome: Outcome | None) -> bool:
    """Whether an outcome has every seed of the second look."""
    return outcome is not None and set(SEEDS) <= set(outcome.seeds)


def first_and_second(result: Result) -> tuple[Result, Result]:
    """What the first look sees of a result, and what the second does."""
    assert isinstance(result.plan, Plan), f"{result.experiment} does not train"
    once = replace(result, plan=replace(result.plan, again={}))
    return once, replace(result, confidence=rule.SECOND_CONFIDENCE)


def _listed(experiment: str, claims: Sequence[Claim]) -> list[Claim]:
    return [claim for claim in claims if claim.sentence in CLAIMS.get(experiment, ())]


def _complete(claim: Claim, result: Result) -> bool:
    """Whether every outcome that the claim needs has all of its seeds."""
    for facets in claim.compared:
        outcome, plan = result.one(**facets), result.plan
        assert isinstance(plan, Plan)
        if outcome is None or len(outcome.records) < len(plan.seeds_of(outcome.variant)):
            return False
    return True
