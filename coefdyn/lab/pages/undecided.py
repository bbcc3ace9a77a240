"""What keeps claims undecided, and how many seeds would decide them, as Markdown."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean

from coefdyn.lab.experiments import kept_results, second_look
from coefdyn.lab.experiments.claim import Claim, Facets
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
        reached: where accuracies keep it open, of each of them how many seeds reached 0.9, of how
            many; else empty.
        seeds: how many the least trained of the outcomes has.
        needed: the smallest number of seeds, at most ``MOST_SEEDS``, with which it would be decided
            if every mean and spread stayed what it is; None where that many would not do.
    """

    experiment: str
    claim: str
    by_control: bool
    outcomes: tuple[Outcome, ...]
    reached: tuple[tuple[int, int], ...]
    seeds: int
    needed: int | None

    @property
    def jumps(self) -> bool:
        """Whether some seeds of a model reach 0.9 and others do not."""
        return any(0 < some < of for some, of in self.reached)


def undecided(out: Path | str | None = None) -> Iterator[Undecided]:
    """Every undecided claim of the standard size.

    Args:
        out: folder of the result files; None for ``data/results``.
    """
    for experiment, result in kept_results(STANDARD, out):
        if not isinstance(result.plan, Plan):  # timings, which have no further seeds
            continue
        claims, seen = experiment.registered_claims(), second_look.first_and_second(result)
        looks = second_look.looks(experiment.id, claims, result)
        for claim, (first, second) in zip(claims, looks, strict=True):
            if (second or first).status == UNDECIDED:
                yield _undecided(experiment.id, claim, seen[second is not None])


def _undecided(experiment: str, claim: Claim, result: Result) -> Undecided:
    outcomes = _outcomes(claim.compared, result)
    seeds = min(len(one.records) for one in outcomes)
    by_control = claim.control is not None and claim.test.judge(result).status != UNDECIDED
    part = claim.control if by_control else claim.test
    steps = [one.steps_to(0.9) for one in _outcomes(part.compared, result) if part.of_accuracy]
    return Undecided(
        experiment=experiment,
        claim=claim.sentence,
        by_control=by_control,
        outcomes=outcomes,
        reached=tuple((sum(step is not None for step in one), len(one)) for one in steps),
        seeds=seeds,
        needed=_needed(claim, result, seeds),
    )


def _outcomes(compared: Sequence[Facets], result: Result) -> tuple[Outcome, ...]:
    """Each once, in the order in which they are first compared."""
    found = [result.one(**facets) for facets in compared]
    return tuple({one.variant.name: one for one in found if one is not None}.values())


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
    "only the control is open",
    "some seeds of a model reach 0.9 and others do not",
    "the difference is small beside the spread over the seeds",
)


def _kind(one: Undecided) -> str:
    if one.by_control:
        return KINDS[0]
    return KINDS[1] if one.jumps else KINDS[2]


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
