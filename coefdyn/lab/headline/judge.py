"""The judge of the headline claims: intervals of comparisons, and the verdicts that follow.

1. Pilot seeds choose the learning rate and are never judged; all judged seeds count, always.
2. Nothing is decided where the best rate is not bracketed (``experiments.rates``); a claim about
   overflow needs no bracket.
3. Where a task is solved or not (``SOLVED_OR_NOT``), the statistic is k of n seeds solved, with an
   exact 95 % interval and a score interval of differences; elsewhere the mean, with Student's.
4. There is no test where the asked lead exceeds the room left.
5. Held, not held, no difference that matters or undecided is the interval against the threshold
   and the margin of equivalence, as in ``experiments.rule``. A claim with a margin that is
   undecided has too few runs, and says how many seeds would decide it.

``effects`` is the only place that computes an interval; verdicts and the page's picture read it.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields

from coefdyn.lab.experiments import intervals, rule
from coefdyn.lab.experiments.baselines import baseline
from coefdyn.lab.experiments.intervals import Interval
from coefdyn.lab.experiments.measure import accuracy
from coefdyn.lab.experiments.plan import Variant
from coefdyn.lab.experiments.result import Outcome, Result
from coefdyn.lab.headline import power
from coefdyn.lab.headline.claim import (
    SOLVED_OR_NOT,
    Ahead,
    Claim,
    Diverges,
    Facets,
    Reaches,
    Test,
    parts,
)
from coefdyn.lab.headline.runs import SEEDS

__all__ = [
    "CONTROL",
    "NOT_BRACKETED",
    "NO_ROOM",
    "Effect",
    "Judged",
    "as_judged",
    "effects",
    "judge",
]

#: further reasons why there is no test
NOT_BRACKETED, NO_ROOM = "rate not bracketed", "the asked lead exceeds the room left"
NONE_SOLVED = "no seed solved the task"
#: before the numbers of a control that decides
CONTROL = "control: "


@dataclass(frozen=True)
class Judged(Result):
    """A result as the judge sees it: without pilot seeds, with 95 % intervals."""

    def _outcome(self, variant: Variant) -> Outcome | None:
        found = super()._outcome(variant)
        if found is None:
            return None
        pilot = self._sweep.pilot or ()
        left = tuple(one for one in found.records if one["seed"] not in pilot)
        return Outcome(variant, left) if left else None

    def seeds_needed(self, variant: Variant) -> int:
        """Judged seeds below which a variant decides nothing: all that are registered."""
        return max(self.fewest, len(self._sweep.seeds_of(variant)))

    def unbracketed(self, variant: Variant) -> bool:
        """Return whether the rate of an unsolved variant has an untried or a better neighbour.

        A pilot that solved the task with every seed ended there: no neighbour can be better.
        """
        whole = super()._outcome(variant)
        if whole is None or rule.has_solved(whole.values()):
            return False
        search = self._sweep.search(variant, {one["key"]: one for one in self.records})[1]
        return search is None or not search.bracketed


def as_judged(result: Result) -> Judged:
    """A group's result as the judge sees it: nothing before the twelfth seed."""
    seen = {one.name: getattr(result, one.name) for one in fields(Result) if one.init}
    return Judged(**{**seen, "confidence": intervals.JUDGED_CONFIDENCE, "fewest": len(SEEDS)})


@dataclass(frozen=True)
class Effect:
    """One comparison of a claim.

    Args:
        test: of the claim.
        outcomes: the compared ones, in the order of the test.
        counts: per outcome k of n seeds, where its task is solved or not; None elsewhere.
        found: the difference, the share or the mean that is compared with the threshold.
        threshold: what it is compared with.
        below: whether the claimed side is that below the threshold.
        margin: of equivalence about the threshold, in the unit of ``found``; 0 for none.
    """

    test: Test
    outcomes: tuple[Outcome, ...]
    counts: tuple[tuple[int, int], ...] | None
    found: Interval
    threshold: float
    below: bool
    margin: float = 0.0

    @property
    def beyond(self) -> Interval:
        """Distance from the threshold; above 0 is the claimed side."""
        return self.found.beyond(self.threshold, self.below)

    @property
    def claimed(self) -> str:
        """The side of the threshold that is claimed, in words."""
        return f"{'below' if self.below else 'above'} {self.threshold:g} is claimed"

    @property
    def status(self) -> str:
        """The verdict by this comparison alone."""
        return rule.verdict(self.beyond, self.margin)

    @property
    def seeds_that_decide(self) -> int | None:
        """Seeds a side whose interval would be narrower than the margin; None without a margin."""
        if not self.margin:
            return None
        if self.counts is None:
            n, width = len(self.outcomes[0].records), self.found.width
            return power.seeds_for(lambda seeds: width * (n / seeds) ** 0.5, self.margin)
        shares = [k / n for k, n in self.counts]

        def wide(seeds: int) -> float:
            counts = [round(share * seeds) for share in shares]
            if len(counts) == 1:
                return intervals.share_interval(counts[0], seeds).width
            return intervals.share_difference(counts[0], seeds, counts[1], seeds).width

        return power.seeds_for(wide, self.margin)


def effects(test: Test, judged: Judged) -> Iterator[Effect]:
    """Every comparison that a test joins, where all of its seeds are there.

    Args:
        test: of a headline claim.
        judged: the runs of its group.
    """
    for part in parts(test):
        found = [judged.one(**facets) for facets in part.compared]
        outcomes = [
            one
            for one in found
            if one is not None and len(one.records) >= judged.seeds_needed(one.variant)
        ]
        if len(outcomes) == len(found):
            yield _effect(part, tuple(outcomes), judged)


def _effect(test: Test, outcomes: tuple[Outcome, ...], judged: Judged) -> Effect:
    counts = _counts(test, outcomes)
    turned = getattr(test, "less", getattr(test, "never", False))
    margin = getattr(test, "within", 0.0)
    if isinstance(test, Ahead):
        threshold = 0.0 - test.by if test.less else test.by
        if counts is not None:
            found = intervals.share_difference(*counts[0], *counts[1])
        else:
            first, second = (
                dict(zip(one.seeds, test.measure.values(one), strict=True)) for one in outcomes
            )
            found = judged.interval([first[seed] - second[seed] for seed in first])
            margin *= statistics.fmean(second[seed] for seed in first)
    elif counts is not None:
        threshold, found = 0.5, intervals.share_interval(*counts[0])
    else:
        assert isinstance(test, Reaches), "a test of a headline claim"
        threshold = test.bound
        found = judged.interval(test.measure.values(outcomes[0]))
    return Effect(test, outcomes, counts, found, threshold, turned, margin)


def _counts(test: Test, outcomes: Sequence[Outcome]) -> tuple[tuple[int, int], ...] | None:
    """Per outcome k of n seeds, where the task of a test is solved or not; None elsewhere.

    Of a test of divergence k seeds diverge; of a bound k seeds are above it.
    """
    if isinstance(test, Diverges):
        return tuple((one.diverged, len(one.records)) for one in outcomes)
    assert isinstance(test, (Ahead, Reaches)), "a test of a headline claim"
    graded = any(one.variant.task.task_name not in SOLVED_OR_NOT for one in outcomes)
    if graded or not test.measure.counted:
        return None
    level = test.bound if isinstance(test, Reaches) else intervals.SOLVED_FROM
    values = [test.measure.values(one) for one in outcomes]
    return tuple((intervals.solved(one, level), len(one)) for one in values)


def judge(claim: Claim, judged: Judged) -> tuple[str, str]:
    """The status of a claim, and the numbers or the reason in words."""
    status, told = _joined(claim.test, judged)
    if claim.control is None:
        return status, told
    check, words = _joined(claim.control, judged)
    both = rule.controlled(status, check)
    return both, told if both == status else CONTROL + words


def _joined(test: Test, judged: Judged) -> tuple[str, str]:
    """The status of all that a test joins; its reason where there is no test, else the numbers."""
    found = [_judged(one, judged) for one in parts(test)]
    status = rule.every([one for one, *_ in found])
    why = next((reason for *_, reason in found if reason), "")
    if status == rule.NO_TEST and why:
        return status, why
    return status, "; ".join(numbers for _, numbers, _ in found)


def _judged(test: Test, judged: Judged) -> tuple[str, str, str]:
    """Status, numbers, and where there is no test the reason."""
    effect = next(effects(test, judged), None)
    if effect is None:
        return rule.NOT_RUN, "; ".join(filter(None, (_short(x, judged) for x in test.compared))), ""
    unbracketed = (judged.unbracketed(one.variant) for one in effect.outcomes)
    if not isinstance(test, Diverges) and any(unbracketed):
        return rule.NO_TEST, "", NOT_BRACKETED
    if isinstance(test, Ahead) and (untested := _no_test(test, effect, judged)) is not None:
        return rule.NO_TEST, *untested
    return effect.status, _numbers(effect, judged), ""


def _short(facets: Facets, judged: Judged) -> str:
    """The seeds of an outcome that has too few; empty for one that has enough."""
    one = judged.one(**facets)
    if one is not None and len(one.records) >= judged.seeds_needed(one.variant):
        return ""
    return f"{', '.join(facets.values())}: {0 if one is None else len(one.records)} seeds"


def _numbers(effect: Effect, judged: Judged) -> str:
    """The values of every outcome, their difference where two are compared, and what would decide.

    The number of seeds that would decide is told where a claim with a margin is undecided.
    """
    told = _values(effect, judged)
    if effect.status == rule.UNDECIDED and effect.margin:
        told += f"; too few runs: {effect.seeds_that_decide} seeds a side would decide"
    return told


def _values(effect: Effect, judged: Judged) -> str:
    compares = isinstance(effect.test, Ahead)
    if effect.counts is not None:
        told = " against ".join(f"{k} of {n}" for k, n in effect.counts) + " seeds"
        return f"{told} solved; difference {effect.found}" if compares else (
            f"{told}; share {effect.found}"
        )  # fmt: skip
    assert isinstance(effect.test, (Ahead, Reaches)), "shares alone are of other tests"
    values = [effect.test.measure.values(one) for one in effect.outcomes]
    told = " against ".join(f"{judged.interval(one)} ({len(one)} seeds)" for one in values)
    return f"{told}; difference {effect.found}" if compares else told


def _no_test(test: Ahead, effect: Effect, judged: Judged) -> tuple[str, str] | None:
    """Numbers and reason where a lead cannot be tested, else None.

    Accuracies are compared only where at least one of the two models has learned, not both have
    solved the task, and the other one leaves room for the asked lead.
    """
    accuracies = [one.values() for one in effect.outcomes]
    guesses = [baseline(one.variant.task) for one in effect.outcomes]
    learned = any(
        rule.has_learned(values, level)
        for values, (level, _) in zip(accuracies, guesses, strict=True)
    )
    solved = all(map(rule.has_solved, accuracies))
    comparable = test.measure is not accuracy or (learned and not solved)
    if test.measure.counted and not test.less and comparable:
        other = test.measure.values(effect.outcomes[1])
        level = sum(other) / len(other)
        if effect.counts is not None:
            level = effect.counts[1][0] / effect.counts[1][1]
        if intervals.exceeds_room(test.by, level):
            return "", NO_ROOM
    if effect.counts is not None:
        told = " against ".join(f"{k} of {n}" for k, n in effect.counts) + " seeds solved"
        if not any(k for k, _ in effect.counts):
            return told, NONE_SOLVED
        return (told, rule.ALL_SOLVED) if all(k == n for k, n in effect.counts) else None
    if comparable:
        return None
    numbers, (level, words) = _numbers(effect, judged), guesses[0]
    if not learned:
        return f"{numbers}; not learned: {words} gives {level:.3f}", rule.NOT_LEARNED
    return f"{numbers}; {rule.ALL_SOLVED}", rule.ALL_SOLVED
