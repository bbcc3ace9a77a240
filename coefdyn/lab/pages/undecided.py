"""What keeps claims undecided, and how many seeds would decide them, as Markdown."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean

from coefdyn.lab.experiments import EXPERIMENTS, get_experiment, second_look
from coefdyn.lab.experiments.claim import Claim
from coefdyn.lab.experiments.plan import STANDARD, Plan
from coefdyn.lab.experiments.result import Outcome, Result
from coefdyn.lab.experiments.rule import UNDECIDED
from coefdyn.lab.pages.markdown import folded, plain, table
from coefdyn.lab.pages.waiting import core_seconds

__all__ = ["MOST_SEEDS", "STEPS", "Undecided", "undecided", "undecided_markdown"]

#: more seeds than this are not asked for: the difference is then next to nothing
MOST_SEEDS = 200
#: the sentence counts what so many seeds would decide
STEPS = (12, 40, MOST_SEEDS)


@dataclass(frozen=True, kw_only=True)
class Undecided:
    """A claim of the standard size that its seeds leave undecided.

    Args:
        experiment: its id.
        claim: its sentence.
        by_control: whether its own test is decided and only its control is not.
        outcomes: what it compares, its control's included, each once.
        seeds: how many the least trained of them has.
        needed: the smallest number of seeds, at most ``MOST_SEEDS``, with which it would be decided
            if every mean and spread stayed what it is; None where that many would not do.
    """

    experiment: str
    claim: str
    by_control: bool
    outcomes: tuple[Outcome, ...]
    seeds: int
    needed: int | None

    @property
    def reached(self) -> Sequence[tuple[int, int]]:
        """Of each outcome: how many seeds reached an accuracy of 0.9, of how many."""
        found = [one.steps_to(0.9) for one in self.outcomes]
        return [(sum(step is not None for step in steps), len(steps)) for steps in found]

    @property
    def jumps(self) -> bool:
        """Whether some seeds of one of the outcomes reach 0.9 and others do not."""
        return any(0 < some < of for some, of in self.reached)


def undecided(out: Path | str | None = None) -> Iterator[Undecided]:
    """Every undecided claim of the standard size.

    Args:
        out: folder of the result files; None for ``data/results``.
    """
    for name in EXPERIMENTS:
        experiment = get_experiment(name)
        if STANDARD not in experiment.profiles:
            continue
        result = experiment.load(STANDARD, out=out)
        if not isinstance(result.plan, Plan):  # timings, which have no further seeds
            continue
        claims = experiment.registered_claims()
        seen = second_look.first_and_second(result)
        for claim, looks in zip(claims, second_look.looks(name, claims, result), strict=True):
            first, second = looks
            if (second or first).status == UNDECIDED:
                yield _undecided(name, claim, seen[second is not None])


def _undecided(experiment: str, claim: Claim, result: Result) -> Undecided:
    found = [result.one(**facets) for facets in claim.compared]
    outcomes = {one.variant.name: one for one in found if one is not None}
    seeds = min(len(one.records) for one in outcomes.values())
    return Undecided(
        experiment=experiment,
        claim=claim.sentence,
        by_control=claim.test.judge(result).status != UNDECIDED,
        outcomes=tuple(outcomes.values()),
        seeds=seeds,
        needed=_needed(claim, result, seeds),
    )


def _needed(claim: Claim, result: Result, seeds: int) -> int | None:
    """By halving: an interval only shrinks with the seeds that it is supposed to be for."""

    def decided(count: int) -> bool:
        return claim.judge(replace(result, supposed=count)).status != UNDECIDED

    low, high = seeds, MOST_SEEDS
    if not decided(high):
        return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if decided(middle) else (middle, high)
    return high


def _hours(found: Sequence[Undecided]) -> float:
    """Of one core, for the seeds that are missing; what several claims compare counts once."""
    seconds: dict[tuple[str, str], float] = {}
    for one in found:
        assert one.needed is not None, "only claims that some number of seeds decides"
        for outcome in one.outcomes:
            further = max(0, one.needed - len(outcome.records))
            key = one.experiment, outcome.variant.name
            took = further * fmean(map(core_seconds, outcome.records))
            seconds[key] = max(seconds.get(key, 0.0), took)
    return sum(seconds.values()) / 3600


def undecided_markdown(out: Path | str | None = None) -> str:
    """How many claims are undecided and what it would take, and a folded table of them.

    Args:
        out: see ``undecided``.
    """
    found = sorted(undecided(out), key=lambda one: one.needed or MOST_SEEDS + 1)
    if not found:
        return "No claim that was run is undecided."
    rows = [
        [one.experiment, plain(one.claim), _why(one), str(one.seeds), _told(one.needed)]
        for one in found
    ]
    heads = ["experiment", "claim", "what keeps it open", "seeds", "seeds that would decide it"]
    return f"{_sentence(found)}\n\n{folded('Each of them', table(heads, rows))}"


def _sentence(found: Sequence[Undecided]) -> str:
    kinds = Counter(_kind(one) for one in found)
    words = "; ".join(f"in {count} {kind}" for kind, count in _ordered(kinds))
    sentence = f"{len(found)} claims are undecided: {words}."
    before, parts = 0, []
    for most in STEPS:
        reached = [one for one in found if one.needed is not None and one.needed <= most]
        if len(reached) > before:
            parts.append(
                f"{len(reached)} with up to {most} seeds ({_hours(reached):.0f} core-hours)"
            )
            before = len(reached)
    rest = f"{len(found) - before} with more" if len(found) > before else ""
    told = ", ".join([*parts, rest] if rest else parts)
    return f"{sentence} If every mean and spread stayed what it is, they would be decided: {told}."


KINDS = (
    "some seeds of a model reach 0.9 and others do not",
    "only the control is open",
    "the difference is small beside the spread over the seeds",
)


def _kind(one: Undecided) -> str:
    if one.jumps:
        return KINDS[0]
    return KINDS[1] if one.by_control else KINDS[2]


def _ordered(counts: Mapping[str, int]) -> Iterator[tuple[str, int]]:
    return ((kind, counts[kind]) for kind in KINDS if counts.get(kind))


def _why(one: Undecided) -> str:
    words = "its control" if one.by_control else "its test"
    if one.jumps:
        shares = ", ".join(f"{some} of {of}" for some, of in one.reached)
        words += f"; seeds that reach 0.9: {shares}"
    return words


def _told(needed: int | None) -> str:
    return f"more than {MOST_SEEDS}" if needed is None else str(needed)
