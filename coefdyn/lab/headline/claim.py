"""Definition of a claim: an id, a sentence of the source, a test with a threshold, and a control.

    Claim(
        id="positions/decay-gains",
        sentence="without embedding, a decay gains over A = I",
        test=Ahead(a={"evolution": "constant"}, b={"evolution": "identity"}, by=0.1),
        control=Reaches(a={"layers": "1", "evolution": "constant"}, bound=0.5),
    )

A test picks outcomes by their facets, and ``coefdyn.lab.headline.judge`` judges it. Claims
are written before the first run of a profile and name no number that a run produced.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from coefdyn.lab.experiments import intervals
from coefdyn.lab.experiments.measure import Measure, accuracy, metric
from coefdyn.lab.experiments.result import Verdict
from coefdyn.lab.headline import power
from coefdyn.lab.headline.runs import GROUPS

__all__ = [
    "KINDS",
    "SOLVED_OR_NOT",
    "Ahead",
    "Claim",
    "Diverges",
    "Every",
    "Facets",
    "Headline",
    "Reaches",
    "Test",
    "all_ahead",
    "at",
    "kebab",
    "lower_perplexity",
    "parts",
    "trained",
]

Facets = Mapping[str, str]

#: "checked": compared with a peer's code on numbers, which is not a proof
KINDS = ("trained", "proved", "checked", "timed")
#: tasks whose accuracy over the seeds is near a guess or near one, so that a mean says little
SOLVED_OR_NOT = frozenset(
    {
        "forget",
        "fuzzy-recall",
        "long-memory",
        "majority",
        "mqar",
        "noisy-recall",
        "overwrite",
        "parity",
        "permutations",
        "position",
        "selective-copying",
    }
)

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

    ``within`` is the margin of equivalence, below which a difference does not matter: where seeds
    are counted a difference of shares, elsewhere a share of the mean of ``b``; 0 for none.

    Raises:
        ValueError: for a margin beside an asked lead, about which no equivalence lies.
    """

    a: Facets
    b: Facets
    by: float = 0.0
    measure: Measure = accuracy
    less: bool = False
    within: float = 0.0

    def __post_init__(self) -> None:
        if self.within and self.by:
            raise ValueError(
                "a margin of equivalence lies about no difference; give within or by, not both."
            )

    @property
    def words(self) -> str:
        verb = "below" if self.less else "above"
        lead = f" by more than {self.by:g}" if self.by else ""
        margin = ""
        if self.within:
            of = "of the mean" if self.less else "of the seeds"
            margin = f"; within {100 * self.within:g} % {of} no difference matters"
        return f"{self.measure.name} of ({_named(self.a)}) {verb} ({_named(self.b)}){lead}{margin}"


@dataclass(frozen=True, kw_only=True)
class Reaches(Test):
    """The measure of ``a`` exceeds ``bound``; with ``less``, it stays below.

    ``within`` is the margin of equivalence about one half of the seeds, where seeds are counted.
    """

    a: Facets
    bound: float
    measure: Measure = accuracy
    less: bool = False
    within: float = 0.0

    @property
    def words(self) -> str:
        verb = "below" if self.less else "above"
        margin = f"; {100 * self.within:g} % of the seeds about one half is neither"
        told = f"{self.measure.name} of ({_named(self.a)}) {verb} {self.bound:g}"
        return told + margin * bool(self.within)


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


def parts(test: Test) -> list[Test]:
    """The comparisons that a test joins."""
    if isinstance(test, Every):
        return [part for one in test.tests for part in parts(one)]
    return [test]


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


@dataclass(frozen=True, kw_only=True)
class Headline:
    """One headline claim.

    Args:
        id: ``topic/name``; of a trained one that of its ``claim``.
        kind: of ``KINDS``.
        sentence: what is claimed.
        source: the figure, table or statement of the sources, or "ours".
        limits: what else differs between the compared designs, and how far it reaches; the sizes
            of trained models are told by ``size``.
        axis: along which the task gets harder, and how; empty where there is none.
        group: of ``GROUPS``, whose runs judge a trained one.
        claim: test, threshold and control of a trained one.
        shown_by: proof, test or bench of one that is not trained.
        changed: of a test that was changed when its runs had been seen, why.
        replaced: of a claim of the registration's history, by what and why.
        assumed: what the power is computed from: of shares p, or p and p'; of a mean the
            difference, the standard deviation of a seed's difference, and the mean of which the
            margin is a share. Empty where there is no margin.
    """

    id: str
    kind: str
    sentence: str
    source: str
    limits: str
    axis: str = ""
    group: str | None = None
    claim: Claim | None = None
    shown_by: str = ""
    changed: str = ""
    replaced: str = ""
    assumed: tuple[float, ...] = ()

    @property
    def size(self) -> str:
        """Layers, width and steps of the models that a trained claim compares."""
        if self.claim is None or self.group is None:
            return ""
        plan = GROUPS[self.group]()
        those = plan.those_with(self.claim.test.compared)
        told = [
            _span("layer", [one.model.layers for one in those]),
            f"of {_span('width', [one.model.width for one in those], before=True)},",
            f"in at most {max((one.train or plan.train).steps for one in those)} steps",
        ]
        return f"Seen in {' '.join(told)}."

    @property
    def statistic(self) -> str:
        """Summary of the seeds of a trained model, and the smallest effects that they decide."""
        if self.claim is None or self.group is None:
            return ""
        plan, told = GROUPS[self.group](), []
        for test in parts(self.claim.test):
            n = min(len(plan.seeds_of(one)) for one in plan.those_with(test.compared))
            tasks = {one.task.task_name for one in plan.those_with(test.compared)}
            measure = getattr(test, "measure", None)
            counted = tasks <= SOLVED_OR_NOT and (measure is None or measure.counted)
            if not counted:
                half = intervals.t_quantile(n - 1, intervals.JUDGED_CONFIDENCE) / n**0.5
                told.append(
                    f"95 % interval of the mean over {n} seeds, paired where two are compared; "
                    f"decides what is {half:.2f} standard deviations off the threshold"
                )
            elif isinstance(test, Ahead):
                least = round(n * intervals.smallest_lead(n, test.by))
                told.append(
                    f"k of {n} seeds right and the score interval of the difference; decides a "
                    f"lead of {least} seeds over none"
                )
            else:
                counts = range(n + 1)
                least = next(k for k in counts if intervals.share_interval(k, n).low > 0.5)
                told.append(
                    f"k of {n} seeds against one half and the exact binomial interval; decides "
                    f"from {least} or up to {n - least} seeds on"
                )
        return "; ".join(dict.fromkeys(told))

    @property
    def power(self) -> str:
        """The chance that its seeds decide, if the assumed values are the true ones; in words."""
        if self.claim is None or self.group is None or not self.assumed:
            return ""
        plan, test = GROUPS[self.group](), self.claim.test
        assert isinstance(test, (Ahead, Reaches)), "one comparison with a margin"
        cells = [plan.those_with([facets])[0] for facets in test.compared]
        seeds = tuple(len(plan.seeds_of(one)) for one in cells)
        if test.measure.counted:
            found = power.chance(self.assumed, seeds, test.within)
        else:
            difference, deviation, mean = self.assumed
            margin = test.within * mean
            found = power.chance_of_means(difference, deviation, min(seeds), margin)
        sides = " and ".join(map(str, dict.fromkeys(seeds)))
        return (
            f"with {sides} seeds it is decided, one way or another, with a chance of {found:.2f}, "
            "if the first twelve seeds, which do not count, told the truth"
        )

    def lines(self, verdict: Verdict | None) -> list[str]:
        """The claim as lines of text, with its verdict where it is a trained one."""
        status = self.kind if verdict is None else verdict.status
        told = [f"{self.id} ({self.kind}): {status}", f"  {self.sentence} ({self.source})"]
        if verdict is not None and self.claim is not None:
            told.append(f"  test: {self.claim.test.words}")
            check = self.claim.control
            told.append(f"  control: {f'{check.words}: ' if check else ''}{self.claim.why}")
            told.append(f"  statistic: {self.statistic}")
            told += [f"  numbers: {verdict.numbers}"] if verdict.numbers else []
        told += [f"  power: {self.power}"] if self.power else []
        told += [f"  axis: {self.axis}"] if self.axis else []
        told += [f"  shown by: {self.shown_by}"] if self.shown_by else []
        told += [f"  changed after the first run: {self.changed}"] if self.changed else []
        told += [f"  replaced: {self.replaced}"] if self.replaced else []
        return [*told, f"  limits: {' '.join(filter(None, (self.limits, self.size)))}"]


def _span(word: str, numbers: Sequence[int], before: bool = False) -> str:
    """Numbers with their word: "2 layers", "1 or 2 layers", and with ``before`` "width 64"."""
    told = " or ".join(map(str, sorted(set(numbers))))
    return f"{word} {told}" if before else f"{told} {word}{'s' * (told != '1')}"


def trained(id_: str, group: str, claim: Mapping[str, Any], **told: Any) -> Headline:
    """A claim on trained models: its test, control and why, then what is told of it."""
    test = Claim(id=id_, sentence=told["sentence"], **claim)
    return Headline(id=id_, kind="trained", group=group, claim=test, **told)


def at(task: str, design: str) -> Facets:
    """The facets of a variant of a group."""
    return {"task": task, "design": design}


def all_ahead(task: str, more: Sequence[str], less: Sequence[str], by: float, of: Measure) -> Every:
    """Each of ``more`` is ahead of each of ``less``."""
    return Every(
        tuple(Ahead(a=at(task, a), b=at(task, b), by=by, measure=of) for a in more for b in less)
    )


def lower_perplexity(task: str, a: str, b: str, by: float = 0.0, within: float = 0.0) -> Ahead:
    """The perplexity of ``a`` is below that of ``b``."""
    return Ahead(
        a=at(task, a), b=at(task, b), by=by, measure=metric("perplexity"), less=True, within=within
    )
