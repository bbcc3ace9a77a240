"""Claims as data: an id, a sentence of the source, a test with a threshold, and a control.

    Claim(
        id="positions/decay-gains",
        sentence="without embedding, a decay gains over A = I",
        test=Ahead(a={"evolution": "constant"}, b={"evolution": "identity"}, by=0.1),
        control=Reaches(a={"layers": "1", "evolution": "constant"}, bound=0.5),
    )

A test picks outcomes by their facets, and ``coefdyn.lab.experiments.judgement`` judges it. Claims
are written before the first run of a profile and name no number that a run produced.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass

from coefdyn.lab.experiments.measure import Measure, accuracy

__all__ = ["Ahead", "Claim", "Diverges", "Every", "Facets", "Reaches", "Test", "kebab"]

Facets = Mapping[str, str]

#: topic and claim, in small letters, digits and hyphens
ID = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*/[a-z0-9]+(-[a-z0-9]+)*")


def kebab(words: str) -> str:
    """The words as a part of an id: "selective copying" gives "selective-copying"."""
    return re.sub(r"[^a-z0-9]+", "-", words.lower()).strip("-")


def _named(facets: Facets) -> str:
    return ", ".join(facets.values())


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


@dataclass(frozen=True, kw_only=True)
class Ahead(Test):
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


@dataclass(frozen=True, kw_only=True)
class Reaches(Test):
    """The measure of ``a`` exceeds ``bound``; with ``less``, it stays below."""

    a: Facets
    bound: float
    measure: Measure = accuracy
    less: bool = False

    @property
    def words(self) -> str:
        verb = "below" if self.less else "above"
        return f"{self.measure.name} of ({_named(self.a)}) {verb} {self.bound:g}"


@dataclass(frozen=True, kw_only=True)
class Diverges(Test):
    """Training of ``a`` turns NaN in more than half of its runs; with ``never``, in less.

    The values are 1 for a seed that diverged and 0 for one that did not.
    """

    a: Facets
    never: bool = False

    @property
    def words(self) -> str:
        verb = "less" if self.never else "more"
        return f"share of seeds of ({_named(self.a)}) that turn NaN {verb} than 0.5"


@dataclass(frozen=True)
class Every(Test):
    """All of several tests."""

    tests: tuple[Test, ...]

    @property
    def words(self) -> str:
        return "; and ".join(test.words for test in self.tests)

    @property
    def compared(self) -> tuple[Facets, ...]:
        return tuple(facets for test in self.tests for facets in test.compared)


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

    Raises:
        ValueError: for an id of another form.
    """

    id: str
    sentence: str
    test: Test
    control: Test | None = None
    why: str

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
