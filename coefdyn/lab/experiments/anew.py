"""Claims judged by version 2 of the rule: pilots left out, rates bracketed, shares of seeds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from coefdyn.lab.experiments import rule, rule2
from coefdyn.lab.experiments.baselines import baseline
from coefdyn.lab.experiments.claim import (
    Ahead,
    Claim,
    Diverges,
    Every,
    Finding,
    Guess,
    Par,
    Reaches,
    Some,
    Test,
    controlled,
)
from coefdyn.lab.experiments.measure import accuracy
from coefdyn.lab.experiments.plan import Variant
from coefdyn.lab.experiments.result import Outcome, Result
from coefdyn.lab.training import Record

__all__ = ["PARTS", "Judged", "counted", "judge_anew"]

#: the parts of the rule that can change a verdict
PARTS = ("pilots", "rates", "statistics", "room")


@dataclass(frozen=True)
class Judged(Result):
    """A result as version 2 sees it.

    Args:
        parts: those of ``PARTS`` that apply.
        floors: task name -> the largest standard deviation of accuracy over its seeds.
        floor: of the intervals, see ``rule2.mean_interval``.
    """

    parts: tuple[str, ...] = PARTS
    floors: Mapping[str, float] = field(default_factory=dict)
    floor: float = 0.0

    def interval(self, values: Sequence[float]) -> rule.Interval:
        """Interval of the mean of one value per judged seed."""
        if "statistics" in self.parts:
            return rule2.mean_interval(values, self.floor)
        return super().interval(values)

    def _outcome(self, variant: Variant) -> Outcome | None:
        found = super()._outcome(variant)
        if found is None or "pilots" not in self.parts:
            return found
        pilot = self._sweep.pilot or ()
        left = tuple(one for one in found.records if one["seed"] not in pilot)
        return Outcome(variant, left) if left else None

    def unbracketed(self, variant: Variant) -> bool:
        """Return whether the rate of an unsolved variant has an untried or a better neighbour.

        A pilot that solved the task with every seed ended there: no neighbour can be better.
        """
        plan, by_key = self._sweep, {record["key"]: record for record in self.records}
        whole = super()._outcome(variant)
        if whole is None or rule.has_solved(whole.values()):
            return False
        if plan.bracketed:
            search = plan.search(variant, by_key)[1]
            return search is None or not search.bracketed
        seeds, scores = plan.pilot or plan.seeds, {}
        for rate, decay in plan.sweep:
            runs = [
                plan.run_of(variant, seed, (rate, decay), pilot=plan.pilot is not None)
                for seed in seeds
            ]
            seen = [by_key[run.key] for run in runs if run.key in by_key]
            if seen and all(one["solved"] for one in seen):
                return False
            if len(seen) == len(seeds):
                scores[rate] = _score(seen, plan.by_loss)
        return not rule2.search_rate(scores).bracketed if len(plan.learning_rates) > 1 else False


def _score(records: Sequence[Record], by_loss: bool) -> float:
    """Mean accuracy on the validation split, or minus the mean loss."""
    seen = [one.get("validation", one["final"]) for one in records]
    if by_loss:
        losses = [one.get("loss") for one in seen]
        return -sum(float("inf") if one is None else one for one in losses) / len(losses)
    return sum(one.get("accuracy") or 0.0 for one in seen) / len(seen)


def judge_anew(claim: Claim, result: Judged) -> tuple[str, str]:
    """The status of a claim by version 2, and the numbers or the reason in words."""
    found = _judge(claim.test, result)
    if claim.control is None:
        return found.status, _why(found)
    check = _judge(claim.control, result)
    status = controlled(found.status, check.status)
    if status == found.status:
        return status, _why(found)
    return status, f"control: {_why(check)}"


def _why(found: Finding) -> str:
    return found.reason if found.status == rule.NO_TEST and found.reason else found.numbers


def _judge(test: Test, result: Judged) -> Finding:
    if isinstance(test, (Every, Some)):
        found = [_judge(one, result) for one in test.tests]
        status = test.join([one.status for one in found])
        why = next((one.reason for one in found if one.reason), "")
        return Finding(status, "; ".join(one.numbers for one in found), why)
    outcomes = [result.one(**facets) for facets in test.compared]
    there = [one for one in outcomes if one is not None and len(one.records) >= result.fewest]
    if len(there) < len(outcomes):
        return test.judge(result)
    rates = "rates" in result.parts and not isinstance(test, Diverges)
    if rates and any(result.unbracketed(one.variant) for one in there):
        return Finding(rule.NO_TEST, "", rule2.NOT_BRACKETED)
    share = _shares(test, there) if "statistics" in result.parts else None
    if "room" in result.parts and isinstance(test, Ahead) and test.measure.counted:
        other = test.measure.values(there[1])
        level = rule2.solved(other) / len(other) if share else sum(other) / len(other)
        plain = test.judge(result)
        if not test.less and plain.status != rule.NO_TEST and rule2.exceeds_room(test.by, level):
            return Finding(rule.NO_TEST, "", rule2.NO_ROOM)
    if share is not None:
        return share
    if "statistics" not in result.parts:
        return test.judge(result)
    return _by_mean(test, there, result)


def _by_mean(test: Test, outcomes: list[Outcome], result: Judged) -> Finding:
    """The test at 95 %; a mean accuracy with the floor of its task's spread."""
    floor = max((result.floors.get(one.variant.task.task_name, 0.0) for one in outcomes), default=0)
    if isinstance(test, (Ahead, Par)):
        floor *= 2**0.5  # of a difference
    graded = isinstance(test, Guess) or getattr(test, "measure", None) is accuracy
    return test.judge(replace(result, floor=floor if graded else 0.0))


def counted(test: Test, outcomes: list[Outcome]) -> list[tuple[int, int]] | None:
    """Per outcome k of n seeds, where the task of a test is solved or not; None elsewhere.

    Of a test of divergence k seeds diverge; of a bound or a guess k seeds are above it.
    """
    if isinstance(test, Diverges):
        return [(sum(r["diverged_at"] is not None for r in one.records), len(one.records))
                for one in outcomes]  # fmt: skip
    graded = any(one.variant.task.task_name not in rule2.SOLVED_OR_NOT for one in outcomes)
    measure = accuracy if isinstance(test, Guess) else getattr(test, "measure", None)
    if graded or measure is None or not measure.counted:
        return None
    level = rule2.SOLVED_FROM
    if isinstance(test, Reaches):
        level = test.bound
    elif isinstance(test, Guess):
        level = baseline(outcomes[0].variant.task)[0] + test.margin
    values = [measure.values(one) for one in outcomes]
    return [(rule2.solved(one, level), len(one)) for one in values]


def _shares(test: Test, outcomes: list[Outcome]) -> Finding | None:
    """The test as one of k of n seeds, where its task is solved or not; None elsewhere."""
    counts = counted(test, outcomes)
    if counts is None:
        return None
    if isinstance(test, Diverges):
        return _against_half(*counts[0], test.never)
    if isinstance(test, Reaches):
        return _against_half(*counts[0], test.less)
    if isinstance(test, Guess):
        return _against_half(*counts[0], not test.beats)
    if not isinstance(test, (Ahead, Par)):
        return None
    (k, n), (other_k, other_n) = counts
    numbers = f"{k} of {n} against {other_k} of {other_n} seeds solved"
    if k == other_k == 0:
        return Finding(rule.NO_TEST, numbers, "no seed solved the task")
    if k == n and other_k == other_n:
        return Finding(rule.NO_TEST, numbers, rule.ALL_SOLVED)
    gap = rule2.share_difference(k, n, other_k, other_n)
    held = rule.inside(gap, test.within) if isinstance(test, Par) else rule.above(gap, test.by)
    return Finding(held, f"{numbers}; difference {gap}")


def _against_half(k: int, n: int, less: bool) -> Finding:
    interval = rule2.share_interval(k, n)
    status = (rule.below if less else rule.above)(interval, 0.5)
    return Finding(status, f"{k} of {n} seeds; share {interval}")
