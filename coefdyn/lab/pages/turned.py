"""Claims that more steps, a chosen learning rate and more seeds have turned round, as Markdown."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from coefdyn.lab.experiments import EXPERIMENTS, get_experiment
from coefdyn.lab.experiments.plan import STANDARD
from coefdyn.lab.experiments.result import NO_TEST, NOT_RUN, Verdict
from coefdyn.lab.pages.evidence import MARKS, load_results
from coefdyn.lab.pages.markdown import folded, plain, table

__all__ = ["REASONS", "turned", "turned_markdown"]

#: sentence of a claim -> what turned it, where that is not the steps, the rate and the seeds
REASONS = {
    "softmax in a fused kernel takes quadratic time": (
        "lengths to 16 384 instead of 4096, where the fixed costs weigh less"
    ),
    "selective copying: the identity, whose zero set is a point, does worst": (
        "the control: with eta = 1 the identity is ahead of ReLU, so its row sum made it worst"
    ),
    "fuzzy recall: the identity, whose zero set is a point, does worst": (
        "the control: with eta = 1 the identity is not clearly behind ReLU"
    ),
    "A = I without embedding, exp: no better than the most frequent value": (
        "the quick models had not learned what can be learned without order: one layer, which by "
        "the theorem sees only which tokens came before, gets above that guess as well"
    ),
    "memorization: ReLU, with most coefficients near zero, is at least as accurate as exp": (
        "with these steps both solve the task"
    ),
    "the three maps differ by at most 0.05": "with these steps all three solve the task",
}
#: where the numbers of one comparison begin in those of several
PART = re.compile(r"(?:^|; )(held|not held|undecided|no test|not run): ")


def turned(out: Path | str | None = None) -> Iterator[tuple[str, Verdict, Verdict]]:
    """(experiment, verdict by quick's means, verdict at standard) where the two differ.

    A claim that one of the profiles does not make, or that is not run, is left out.

    Args:
        out: folder of the result files; None for ``data/results``.
    """
    for name in EXPERIMENTS:
        experiment, results = get_experiment(name), load_results(name, out)
        if STANDARD not in results:
            continue
        quick = {one.claim: one for one in experiment.claims_by_means(results["quick"])}
        verdicts = experiment.claims(results[STANDARD])
        for claim, now in zip(experiment.registered_claims(), verdicts, strict=True):
            before = quick.get(claim.quick or claim.sentence)
            if before is None or before.status == NOT_RUN:
                continue
            if now.status not in (before.status, NOT_RUN):
                yield name, before, now


def _briefly(found: Verdict) -> str:
    """The numbers of one comparison; of several, how many of them ended how."""
    parts = Counter(PART.findall(found.numbers))
    if parts.total() < 2:
        return found.numbers
    words = ", ".join(f"{count} {status}" for status, count in parts.items())
    if found.status in parts:
        return f"{parts.total()} comparisons, {words}"
    control = "failed" if found.status == NO_TEST else f"is {found.status}"
    return f"{parts.total()} comparisons, {words}; their control {control}"


def turned_markdown(out: Path | str | None = None) -> str:
    """How many claims went from which verdict to which, and a folded table with both numbers."""
    found = list(turned(out))
    if not found:
        return "None so far."
    rows = [
        [
            name,
            plain(now.claim),
            f"{MARKS[before.status]}: {plain(before.numbers)}",
            f"{MARKS[now.status]}: {plain(_briefly(now))}",
            REASONS.get(now.claim, ""),
        ]
        for name, before, now in found
    ]
    ways = Counter((before.status, now.status) for _, before, now in found)
    told = ", ".join(f"{count} from {was} to {now}" for (was, now), count in ways.most_common())
    claims = "1 claim" if len(found) == 1 else f"{len(found)} claims"
    heads = ["experiment", "claim", "quick, by means", "standard", "what turned it"]
    return f"{claims} went to another side: {told}.\n\n{folded('Each of them', table(heads, rows))}"
