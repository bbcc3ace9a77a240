"""Claims as data: an id, a sentence of the source, a test with a threshold, and a control.

    Claim(
        id="positions/decay-gains",
        sentence="without embedding, a decay gains over A = I",
        test=Ahead(a={"evolution": "constant"}, b={"evolution": "identity"}, by=0.1),
        control=Guess(a={"layers": "1", "evolution": "identity"}),
    )

A test picks outcomes by their facets and applies ``coefdyn.lab.experiments.rule``. Claims are
written before the first run of a profile and name no number that a run produced.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from coefdyn.lab.experiments import rule
from coefdyn.lab.experiments.baselines import baseline
from coefdyn.lab.experiments.measure import Measure, accuracy
from coefdyn.lab.experiments.result import Outcome, Result, Verdict

__all__ = [
    "Ahead",
    "Claim",
    "Diverges",
    "Every",
    "Finding",
    "Guess",
    "Par",
    "Reaches",
    "Some",
    "Test",
    "controlled",
    "kebab",
]

Facets = Mapping[str, str]

#: topic and claim, in small letters, digits and hyphens
ID = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*/[a-z0-9]+(-[a-z0-9]+)*")


def kebab(words: str) -> str:
    """The words as a part of an id: "selective copying" gives "selective-copying"."""
    return re.sub(r"[^a-z0-9]+", "-", words.lower()).strip("-")


@dataclass(frozen=True)
class Finding:
    """Result of a test: a status of ``rule.STATUSES``, and the numbers in words.

    A "no test" has one of ``rule.REASONS``.
    """

    status: str
    numbers: str
    reason: str = ""


class Test(ABC):
    """A test of a result. ``words`` states it with its threshold."""

    @property
    @abstractmethod
    def words(self) -> str: ...

    @property
    def compared(self) -> tuple[Facets, ...]:
        """The facets of the outcomes that it looks at: ``a``, and ``b`` where there is one."""
        own = vars(self)
        return tuple(own[name] for name in ("a", "b") if name in own)

    @abstractmethod
    def judge(self, result: Result) -> Finding: ...


class _OfOutcomes(Test):
    """A test of the outcomes that it compares, once all of them have seeds enough."""

    def judge(self, result: Result) -> Finding:
        found = [result.one(**facets) for facets in self.compared]
        short = [
            f"{_named(facets)}: {0 if one is None else len(one.records)} seeds"
            for facets, one in zip(self.compared, found, strict=True)
            if one is None or len(one.records) < result.fewest
        ]
        if short:
            return Finding(rule.NOT_RUN, "; ".join(short))
        return self.decide(result, [one for one in found if one is not None])

    @abstractmethod
    def decide(self, result: Result, found: list[Outcome]) -> Finding:
        """Judge the outcomes, given in the order of ``compared``."""


def _named(facets: Facets) -> str:
    return ", ".join(facets.values())


def _gap(result: Result, found: list[Outcome], measure: Measure) -> tuple[rule.Interval, str]:
    """The interval of the differences between seeds of the same number; the numbers in words."""
    first, second = (dict(zip(one.seeds, measure.values(one), strict=True)) for one in found)
    gap = result.interval([first[seed] - second[seed] for seed in first if seed in second])
    both = " against ".join(_shown(result, one, measure) for one in found)
    return gap, f"{both}; difference {gap}"


def _shown(result: Result, outcome: Outcome, measure: Measure) -> str:
    values = measure.values(outcome)
    return f"{result.interval(values)} ({len(values)} seeds)"


def _no_test(outcomes: list[Outcome], numbers: str, *, both: bool) -> Finding | None:
    """A "no test" where accuracies cannot be compared. ``both``: each has to have learned."""
    values = [one.values() for one in outcomes]
    learned = [
        rule.has_learned(v, baseline(one.variant.task)[0])
        for v, one in zip(values, outcomes, strict=True)
    ]
    level, words = baseline(outcomes[0].variant.task)
    if not (all(learned) if both else any(learned)):
        told = f"{numbers}; not learned: {words} gives {level:.3f}"
        return Finding(rule.NO_TEST, told, rule.NOT_LEARNED)
    if all(map(rule.has_solved, values)):
        return Finding(rule.NO_TEST, f"{numbers}; {rule.ALL_SOLVED}", rule.ALL_SOLVED)
    return None


@dataclass(frozen=True, kw_only=True)
class Ahead(_OfOutcomes):
    """The measure of ``a`` exceeds that of ``b`` by more than ``by``, paired by seed.

    Accuracies are compared only where at least one of the two has learned and not both have solved
    the task. ``less`` turns the comparison round, for perplexities.
    """

    a: Facets
    b: Facets
    by: float = 0.0
    measure: Measure = accuracy
    less: bool = False

    @property
    def words(self) -> str:
        verb = "below" if self.less else "above"
        margin = f" by more than {self.by:g}" if self.by else ""
        return f"{self.measure.name} of ({_named(self.a)}) {verb} ({_named(self.b)}){margin}"

    def decide(self, result: Result, found: list[Outcome]) -> Finding:
        gap, numbers = _gap(result, found, self.measure)
        untested = _no_test(found, numbers, both=False) if self.measure is accuracy else None
        status = rule.below(gap, -self.by) if self.less else rule.above(gap, self.by)
        return untested or Finding(status, numbers)


@dataclass(frozen=True, kw_only=True)
class Par(_OfOutcomes):
    """The measures of ``a`` and ``b`` differ by less than ``within``; both must have learned."""

    a: Facets
    b: Facets
    within: float
    measure: Measure = accuracy

    @property
    def words(self) -> str:
        return (
            f"{self.measure.name} of ({_named(self.a)}) within {self.within:g} of "
            f"({_named(self.b)})"
        )

    def decide(self, result: Result, found: list[Outcome]) -> Finding:
        gap, numbers = _gap(result, found, self.measure)
        untested = _no_test(found, numbers, both=True) if self.measure is accuracy else None
        return untested or Finding(rule.inside(gap, self.within), numbers)


@dataclass(frozen=True, kw_only=True)
class Reaches(_OfOutcomes):
    """The measure of ``a`` exceeds ``bound``; with ``less``, it stays below."""

    a: Facets
    bound: float
    measure: Measure = accuracy
    less: bool = False

    @property
    def words(self) -> str:
        verb = "below" if self.less else "above"
        return f"{self.measure.name} of ({_named(self.a)}) {verb} {self.bound:g}"

    def decide(self, result: Result, found: list[Outcome]) -> Finding:
        interval = result.interval(self.measure.values(found[0]))
        status = (rule.below if self.less else rule.above)(interval, self.bound)
        return Finding(status, _shown(result, found[0], self.measure))


@dataclass(frozen=True, kw_only=True)
class Guess(_OfOutcomes):
    """The accuracy of ``a`` stays below the task's named baseline plus ``margin``.

    With ``beats`` the opposite: it exceeds the baseline plus ``margin``.
    """

    a: Facets
    margin: float = 0.05
    beats: bool = False

    @property
    def words(self) -> str:
        verb = "above" if self.beats else "below"
        return f"accuracy of ({_named(self.a)}) {verb} the named baseline + {self.margin:g}"

    def decide(self, result: Result, found: list[Outcome]) -> Finding:
        level, words = baseline(found[0].variant.task)
        interval = result.interval(found[0].values())
        status = (rule.above if self.beats else rule.below)(interval, level + self.margin)
        return Finding(status, f"{_shown(result, found[0], accuracy)}; {words} gives {level:.3f}")


@dataclass(frozen=True, kw_only=True)
class Diverges(_OfOutcomes):
    """Training of ``a`` turns NaN in more than half of its runs; with ``never``, in less.

    The values are 1 for a seed that diverged and 0 for one that did not.
    """

    a: Facets
    never: bool = False

    @property
    def words(self) -> str:
        verb = "less" if self.never else "more"
        return f"share of seeds of ({_named(self.a)}) that turn NaN {verb} than 0.5"

    def decide(self, result: Result, found: list[Outcome]) -> Finding:
        steps = [record["diverged_at"] for record in found[0].records]
        interval = result.interval([float(step is not None) for step in steps])
        status = (rule.below if self.never else rule.above)(interval, 0.5)
        shown = ", ".join("never" if step is None else str(step) for step in steps)
        return Finding(status, f"NaN at steps {shown}")


@dataclass(frozen=True)
class _Joined(Test):
    """Several tests as one."""

    tests: tuple[Test, ...]
    conjunction: ClassVar[str]

    @staticmethod
    @abstractmethod
    def join(statuses: Sequence[str]) -> str:
        """The status of all from the status of each."""

    @property
    def words(self) -> str:
        return f"; {self.conjunction} ".join(test.words for test in self.tests)

    @property
    def compared(self) -> tuple[Facets, ...]:
        return tuple(facets for test in self.tests for facets in test.compared)

    def judge(self, result: Result) -> Finding:
        found = [test.judge(result) for test in self.tests]
        numbers = "; ".join(f"{one.status}: {one.numbers}" for one in found)
        status = self.join([one.status for one in found])
        why = {one.reason for one in found} if status == rule.NO_TEST else set()
        return Finding(status, numbers, next((one for one in rule.REASONS if one in why), ""))


class Every(_Joined):
    """All of several tests."""

    conjunction = "and"

    @staticmethod
    def join(statuses: Sequence[str]) -> str:
        """See ``rule.every``."""
        return rule.every(statuses)


class Some(_Joined):
    """At least one of several tests."""

    conjunction = "or"

    @staticmethod
    def join(statuses: Sequence[str]) -> str:
        """See ``rule.some``."""
        return rule.some(statuses)


@dataclass(frozen=True, kw_only=True)
class Claim:
    """One statement of a source and what decides it.

    Args:
        id: ``topic/name``, by which registrations and the command line know it. It is unique over
            all experiments and never changes.
        sentence: what the source says, in one sentence of ours; text, which may be corrected.
        test: the comparison, with its threshold.
        control: a test that must hold for the reading; where it fails there is no test.
        why: what the control excludes, or why there is none; text.
        against: whether it is the opposite of the statement that the experiment is about.

    Raises:
        ValueError: for an id of another form.
    """

    id: str
    sentence: str
    test: Test
    control: Test | None = None
    why: str
    against: bool = False

    def __post_init__(self) -> None:
        if not ID.fullmatch(self.id):
            raise ValueError(
                f"a claim's id is topic/name in small letters, digits and hyphens, such as "
                f"parity/ladder; got {self.id!r}."
            )

    @property
    def compared(self) -> tuple[Facets, ...]:
        """The facets of the outcomes that its test and its control look at."""
        control = () if self.control is None else self.control.compared
        return (*self.test.compared, *control)

    def judge(self, result: Result) -> Verdict:
        """The verdict of a result on this claim."""
        found = self.test.judge(result)
        status, numbers = found.status, found.numbers
        control = self.why
        if self.control is not None:
            check = self.control.judge(result)
            status = controlled(status, check.status)
            control = f"{self.control.words} ({self.why}): {check.status}, {check.numbers}"
        reason = found.reason or rule.CONTROL_FAILS if status == rule.NO_TEST else ""
        return Verdict(
            self.sentence,
            status,
            numbers,
            id=self.id,
            test=self.test.words,
            control=control,
            reason=reason,
            against=self.against,
        )


def controlled(status: str, control: str) -> str:
    """The status of a claim from that of its test and that of its control."""
    if rule.NOT_RUN in (status, control):
        return rule.NOT_RUN
    if control in (rule.NOT_HELD, rule.NO_TEST):
        return rule.NO_TEST
    return rule.UNDECIDED if control == rule.UNDECIDED else status
