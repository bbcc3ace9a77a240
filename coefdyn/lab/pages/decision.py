"""Verdicts on the claims of one experiment as Markdown, for its chapter and the evidence page.

Typed is only what an experiment's `reading` says, and that is shown for the verdicts it was written
for alone. The names are public in ``coefdyn.lab.pages.evidence``.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path

from coefdyn.lab.experiments import get_experiment, intervals, ledger, rule
from coefdyn.lab.experiments.base import Experiment, judged_by_accuracy
from coefdyn.lab.experiments.plan import STANDARD, Plan
from coefdyn.lab.experiments.result import (
    HELD,
    NO_TEST,
    NOT_HELD,
    NOT_RUN,
    UNDECIDED,
    WITHDRAWN,
    Result,
    Verdict,
)
from coefdyn.lab.pages.markdown import plain, table

__all__ = [
    "KEPT",
    "MARKS",
    "answer",
    "caption_markdown",
    "claims_markdown",
    "decision_markdown",
    "load_results",
    "registered_words",
    "show",
    "show_decision",
]

MARKS = {
    HELD: "**held**",
    NOT_HELD: "**not held**",
    UNDECIDED: "**undecided**",
    NO_TEST: "**no test**",
    NOT_RUN: "not run",
    WITHDRAWN: "withdrawn",
}
#: the profiles whose results are kept, and their names in the book
KEPT = {"standard": "standard", "paper": "paper scale"}


def load_results(name: str, out: Path | str | None = None) -> dict[str, Result]:
    """Load the kept results of an experiment: profile -> result, empty where nothing has been run.

    Args:
        name: its id, such as "principle-6".
        out: folder of the result files; None for ``data/results``.

    Raises:
        ValueError: for an unknown id, naming the nearest one.
    """
    experiment = get_experiment(name)
    kept = [profile for profile in KEPT if profile in experiment.profiles]
    return {profile: experiment.load(profile, out=out) for profile in kept}


def claims_markdown(experiment: Experiment, results: Mapping[str, Result]) -> str:
    """One row per registered claim: id and sentence, verdict with its numbers, test, control.

    Before it stands when they were fixed. The standard profile alone decides.

    Args:
        experiment: whose claims.
        results: profile name -> its result, that of the standard profile among them; where it is
            empty every claim is "not run".
    """
    result = results[STANDARD]
    rows = [
        [
            f"`{one.id}`: {one.claim}",
            f"{MARKS[one.status]}: {one.numbers}" if result.records else "not run",
            one.test,
            one.control,
        ]
        for one in experiment.claims(result)
    ]
    shown = table(["claim", "verdict", "test and threshold", "control"], rows)
    return f"{_registered(experiment, result)}\n\n{shown}"


def _registered(experiment: Experiment, result: Result) -> str:
    """Registration of the claims, their later changes, and the command that finishes the runs."""
    stored = experiment.stored_as or experiment.id
    command = f"`python -m coefdyn.lab run {stored} --profile standard`"
    if not result.records:
        return f"Not yet run at the standard size: {command}."
    words = registered_words(experiment)
    if result.missing:
        words += f" {len(result.records)} runs finished, {result.missing} to go: {command}."
    return words


def registered_words(experiment: Experiment) -> str:
    """Commit in which an experiment's claims were registered, and what changed later, in words."""
    return ledger.registered(experiment.id)


def caption_markdown(result: Result) -> str:
    """Source of a figure's numbers, in one line of small print."""
    return f"*{plain(result.caption())}*"


def show(experiment: Experiment, result: Result) -> None:
    """Display figure and caption in a notebook; the caption alone while no point is finished."""
    from IPython.display import Markdown, display

    trained = isinstance(result.plan, Plan)
    finished = bool(result.outcomes() if trained else result.records)
    figures = [experiment.figure(result)] if finished else []
    display(*figures, Markdown(caption_markdown(result)))  # type: ignore[no-untyped-call]


def decision_markdown(experiment: Experiment, results: Mapping[str, Result]) -> str:
    """Summary of an experiment's claims in one sentence, with the reason.

    Args:
        experiment: whose claims.
        results: profile name -> its result. The standard size decides, and is among them.
    """
    if not results[STANDARD].records:
        command = f"`python -m coefdyn.lab run {experiment.stored_as or experiment.id}"
        return (
            "**Not tested yet**, because the runs of the standard size are missing: "
            f"{command} --profile standard`."
        )
    return answer(experiment, results[STANDARD])


def show_decision(experiment: Experiment, results: Mapping[str, Result]) -> None:
    """Display the decision in a notebook: one sentence, the figures, and the claims folded."""
    from IPython.display import Markdown, display

    def say(words: str) -> None:
        display(Markdown(words))  # type: ignore[no-untyped-call]

    say(decision_markdown(experiment, results))
    for result in results.values():
        if result.records:
            show(experiment, result)
    claims = claims_markdown(experiment, results)
    say(f":::{{dropdown}} Every claim with its test, threshold and control\n{claims}\n:::")
    learned = _learned_markdown(experiment, results)
    if learned:
        say(f":::{{dropdown}} Accuracy, and how soon it reaches 0.9, by variant\n{learned}\n:::")


def _learned_markdown(experiment: Experiment, results: Mapping[str, Result]) -> str:
    """Table per variant of the standard size: accuracy, seeds that reach 0.9, and median steps.

    A seed that never gets there counts as later than all that do. Empty where nothing has been run,
    where no task is judged by accuracy, and where another experiment's page has these models.
    """
    result = results.get(STANDARD)
    if result is None or experiment.stored_as or not isinstance(result.plan, Plan):
        return ""
    rows, late = [], "half or more never reach it"
    for outcome in result.outcomes():
        if not judged_by_accuracy(outcome.variant.task):
            continue
        steps = [math.inf if step is None else step for step in outcome.steps_to()]
        reached, middle = sum(map(math.isfinite, steps)), statistics.median(steps)
        values = outcome.values()
        interval = intervals.t_interval(values)
        rows.append(
            [
                plain(outcome.variant.name),
                str(interval) if len(values) >= rule.MIN_SEEDS else f"{interval.mean:.3f}",
                f"{reached} of {len(steps)}",
                f"{middle:g}" if math.isfinite(middle) else late if reached else "never",
            ]
        )
    interval_words = f"accuracy and its {100 * intervals.CONFIDENCE:.0f} % interval"
    heads = ["variant", interval_words, "seeds that reach 0.9", "median steps to 0.9"]
    words = (
        "The accuracy is that of the test sequences after training; when 0.9 is reached, the "
        "validation sequences tell. A seed that never gets there counts as later than all that do."
    )
    return f"{words}\n\n{table(heads, rows)}" if rows else ""


def answer(experiment: Experiment, result: Result) -> str:
    """Answer in a word or two for several claims, the reading of the runs, and the counts.

    Supported: some held, none was refuted, and no more are undecided than held; with more of those,
    mostly undecided. Supported in part: some held, some were refuted.
    """
    verdicts = experiment.claims(result)
    found: dict[str, list[Verdict]] = {status: [] for status in MARKS}
    for one in verdicts:
        found[one.status].append(one)
    held = [one for one in found[HELD] if not one.against]
    refuted = [one for one in found[NOT_HELD] if not one.against]
    refuted += [one for one in found[HELD] if one.against]
    if held and not refuted:
        word = "Supported" if len(held) >= len(found[UNDECIDED]) else "Mostly undecided"
    elif held:
        word = "Supported in part"
    else:
        gone = len(found[WITHDRAWN]) == len(verdicts)
        open_word = "Withdrawn" if gone else "Not tested yet" if found[NOT_RUN] else "No test"
        closed_word = "Contradicted" if len(refuted) > len(found[UNDECIDED]) else "Undecided"
        word = closed_word if refuted or found[UNDECIDED] else open_word
    if found[NOT_RUN] and (held or refuted or found[UNDECIDED]):
        word += " so far"
    if experiment.reading:
        told = ", ".join(f"{len(those)} {status}" for status, those in found.items() if those)
        return f"**{word}.** {experiment.reading} ({told}.)"
    parts = [f"{len(held)} of {len(verdicts)} claims held"] if held else []
    if refuted:
        those = [one.claim for one in refuted if not one.against]
        if those:
            parts.append("these did not hold: " + "; ".join(those))
        parts += [f"the opposite held: {one.claim}" for one in refuted if one.against]
    if found[UNDECIDED]:
        parts.append(f"{_claims(found[UNDECIDED])} undecided: the interval contains the threshold")
    if found[NO_TEST]:
        parts.append(
            f"{_claims(found[NO_TEST])} without a test: the models did not learn, all of them "
            "solved the task, or the control failed"
        )
    if found[NOT_RUN]:
        parts.append(f"{_claims(found[NOT_RUN])} still waiting for runs")
    for why in dict.fromkeys(one.numbers for one in found[WITHDRAWN]):
        those = [one for one in found[WITHDRAWN] if one.numbers == why]
        parts.append(f"{_claims(those)} {why}")
    return f"**{word}**, because " + ", and ".join(parts) + "."


def _claims(found: Sequence[Verdict]) -> str:
    return "1 claim is" if len(found) == 1 else f"{len(found)} claims are"
