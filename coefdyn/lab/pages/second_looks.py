"""What a second look with more seeds made of undecided claims, as Markdown."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from coefdyn.lab.experiments import get_experiment, second_look
from coefdyn.lab.experiments.plan import STANDARD
from coefdyn.lab.experiments.result import Verdict
from coefdyn.lab.experiments.rule import UNDECIDED
from coefdyn.lab.pages.evidence import MARKS
from coefdyn.lab.pages.markdown import folded, plain, table

__all__ = ["second_looks", "second_looks_markdown"]


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


def second_looks_markdown(out: Path | str | None = None) -> str:
    """How many claims were looked at again and how they ended, and a folded table of them.

    Args:
        out: see ``second_looks``.
    """
    found = list(second_looks(out))
    done = [second for _, _, second in found if second is not None]
    if not found:
        return "No claim of the list is undecided with four seeds."
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
    return f"{words}.\n\n{folded('Each of them', table(heads, rows))}"
