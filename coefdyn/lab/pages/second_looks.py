"""What a second look with more seeds made of undecided claims, as Markdown."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from coefdyn.lab.experiments import get_experiment, second_look
from coefdyn.lab.experiments.plan import STANDARD
from coefdyn.lab.experiments.result import Verdict
from coefdyn.lab.experiments.rule import HELD, NOT_HELD, UNDECIDED
from coefdyn.lab.pages.evidence import MARKS
from coefdyn.lab.pages.markdown import folded, plain, table

__all__ = ["first_looks_checked", "second_looks", "second_looks_markdown"]


def second_looks(out: Path | str | None = None) -> Iterator[tuple[str, Verdict, Verdict | None]]:
    """(experiment, verdict with four seeds, verdict with twelve) of every claim of the list.

    The last is None while the runs of the second look are not finished.

    Args:
        out: folder of the result files; None for ``data/results``.
    """
    for name, sentences in second_look.CLAIMS.items():
        experiment = get_experiment(name)
        claims, result = experiment.registered_claims(), experiment.load(STANDARD, out=out)
        for first, second in second_look.looks(name, claims, result):
            if first.claim in sentences and first.status == UNDECIDED:
                yield name, first, second


def first_looks_checked(out: Path | str | None = None) -> Iterator[tuple[str, Verdict, Verdict]]:
    """(experiment, verdict with four seeds, what all seeds would say at the same confidence) of
    every claim that four seeds decided, where each of its models was trained for a second look.

    The first verdict stands; the other shows how far it can be relied on.

    Args:
        out: see ``second_looks``.
    """
    for name in second_look.CLAIMS:
        experiment = get_experiment(name)
        claims, result = experiment.registered_claims(), experiment.load(STANDARD, out=out)
        once, _ = second_look.first_and_second(result)
        for claim in claims:
            first, models = claim.judge(once), [result.one(**one) for one in claim.compared]
            if first.status in (HELD, NOT_HELD) and all(map(second_look.further_seeds, models)):
                yield name, first, claim.judge(result)


def second_looks_markdown(out: Path | str | None = None) -> str:
    """How many claims were looked at again and how they ended, and a folded table of them.

    Args:
        out: see ``second_looks``.
    """
    found = list(second_looks(out))
    done = [second for _, _, second in found if second is not None]
    if not found:
        return f"No claim of the list is undecided with four seeds.\n\n{_checked(out)}".rstrip()
    words = f"{len(done)} of {len(found)} claims have been looked at again"
    if done:
        counts = Counter(one.status for one in done)
        told = ", ".join(f"{counts[status]} {status}" for status in MARKS if counts[status])
        words += f"; they are now: {told}"
    rows = [
        [
            name,
            plain(first.claim),
            plain(first.numbers),
            "waits for its runs"
            if second is None
            else f"{MARKS[second.status]}: {plain(second.numbers)}",
        ]
        for name, first, second in found
    ]
    heads = ["experiment", "claim", "undecided with four seeds", "with twelve"]
    shown = f"{words}.\n\n{folded('Each of them', table(heads, rows))}"
    return f"{shown}\n\n{_checked(out)}".rstrip()


def _checked(out: Path | str | None) -> str:
    checked = list(first_looks_checked(out))
    if not checked:
        return ""
    other = [one for one in checked if one[1].status != one[2].status]
    words = (
        f"The further seeds also check what four seeds had decided. That can be done for "
        f"{len(checked)} claims, all of whose models have them. With every seed and 90 % "
        f"intervals {len(checked) - len(other)} of them would come out the same"
    )
    if not other:
        return f"{words}."
    rows = [
        [
            name,
            plain(first.claim),
            f"{MARKS[first.status]}: {plain(first.numbers)}",
            f"{second.status}: {plain(second.numbers)}",
        ]
        for name, first, second in other
    ]
    heads = ["experiment", "claim", "with four seeds, as it stands", "all seeds would say"]
    return f"{words}, and {len(other)} would not:\n\n{table(heads, rows)}"
