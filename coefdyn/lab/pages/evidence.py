"""The evidence page, and an experiment's part in a chapter, generated from the result files.

A chapter shows the figure and the numbers of its runs; what is judged are the headline claims
(``coefdyn.lab.pages.headlines``).
"""

from __future__ import annotations

import json
import math
import statistics
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from coefdyn.lab.experiments import get_experiment, intervals, ledger, rule
from coefdyn.lab.experiments.base import Experiment, judged_by_accuracy
from coefdyn.lab.experiments.plan import STANDARD, Plan
from coefdyn.lab.experiments.result import Outcome, Result
from coefdyn.lab.pages.markdown import plain, table
from coefdyn.lab.scripts.repeat import DIFFERS, EQUAL, WITHIN, repeats_file

__all__ = [
    "OTHER_FIGURES",
    "caption_markdown",
    "ledger_markdown",
    "load_results",
    "others_markdown",
    "rates_markdown",
    "repeats_markdown",
    "runtimes_markdown",
    "show",
    "show_kept",
]

#: the profiles whose results are kept
KEPT = (STANDARD, "paper")
#: measurements of the sources that no experiment covers: place, subject, and reason
OTHER_FIGURES = (
    (
        "dynamical systems framework, Table 1 and Appendix M",
        "three attentions and S6 on Text, Retrieval and Pathfinder of Long Range Arena",
        "no small stand-in: dsf-table-1 has the other two tasks and language; its paper profile "
        "has Text too",
    ),
    (
        "dynamical systems framework, Table 2, column LRA Image",
        "three normalisers of normalized attention on images as pixel sequences",
        "no experiment: the other column is dsf-normalizers",
    ),
    (
        "eigenvalue paper, Sections 4 and 5",
        "a gate, or an exponential normaliser, costs accuracy on CIFAR-10; a convolution gains it "
        "on selective tasks",
        "no experiment on CIFAR-10. Of the convolution the gain of Mamba-2 on MQAR is judged "
        "(convolution/helps-mamba-2); all else is an exploration, spectra-mods",
    ),
    (
        "eigenvalue paper, figures of its appendix",
        "the histograms of its Figure 1 by seed, head and task",
        "no figure of ours: spectra keeps one histogram per layer",
    ),
)


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


def show_kept(experiment: Experiment, results: Mapping[str, Result]) -> None:
    """Display an experiment's kept runs in a notebook: the figures, and the numbers folded.

    Args:
        experiment: whose runs.
        results: profile name -> its result, that of the standard profile among them.
    """
    from IPython.display import Markdown, display

    if not results[STANDARD].records:
        command = f"python -m coefdyn.lab run {experiment.stored_as or experiment.id}"
        display(Markdown(f"Not yet run at the standard size: `{command} --profile standard`."))  # type: ignore[no-untyped-call]
    for result in results.values():
        if result.records:
            show(experiment, result)
    rates = rates_markdown(results[STANDARD])
    if rates:
        display(Markdown(rates))  # type: ignore[no-untyped-call]
    numbers = _numbers_markdown(experiment, results[STANDARD])
    if numbers:
        title = ":::{dropdown} Accuracy, and how soon it reaches 0.9, by variant"
        display(Markdown(f"{title}\n{numbers}\n:::"))  # type: ignore[no-untyped-call]


def rates_markdown(result: Result) -> str:
    """The learning rates that were tried, and where a better one may lie beyond, in small print.

    Empty where nothing is trained or judged by accuracy.
    """
    judged, plan = _judged(result), result.plan
    if not judged or not isinstance(plan, Plan):
        return ""
    tried = sorted({rate for one in judged for rate in result.tried(one.variant)})
    edge = [one for one in judged if result.at_edge(one)]
    chose = len(plan.pilot or plan.seeds)
    words = (
        f"Learning rates from {tried[0]:g} to {tried[-1]:g} were tried"
        f"{', until one solved the task' if plan.until_solved else ''}. Each design has the one "
        f"that {chose} of its own seeds chose on validation sequences."
    )
    if edge:
        names = "; ".join(f"{plain(one.variant.name)}: {one.rate:g}" for one in edge)
        words += (
            f" {len(edge)} of {len(judged)} designs have the smallest or the largest of theirs "
            f"without solving the task, so a better one may lie beyond. These are {names}."
        )
    return f"*{words}*"


def _judged(result: Result) -> list[Outcome]:
    """Finished variants of an experiment that trains, where the task is judged by accuracy."""
    if not isinstance(result.plan, Plan):
        return []
    return [one for one in result.outcomes() if judged_by_accuracy(one.variant.task)]


def _numbers_markdown(experiment: Experiment, result: Result) -> str:
    """Table per variant of the standard size: rate, accuracy, seeds that reach 0.9, median steps.

    Where coefficients near zero were counted, their shares stand beside: raw, which the lemmas are
    about, and divided by eta, as the sources count them. A seed that never gets to 0.9 counts as
    later than all that do. Empty where nothing has been run, where no task is judged by accuracy,
    and where another experiment's page has these models.
    """
    if experiment.stored_as:
        return ""
    judged = _judged(result)
    if not judged:
        return ""
    forms = {"raw": "near zero, raw", "normalized": "near zero, divided"}
    counted = all("near_zero_fraction" in one.records[0]["diagnostics"].get("raw", ())
                  for one in judged)  # fmt: skip
    rows = []
    for one in judged:
        shares = [one.diagnostic("near_zero_fraction", form) for form in forms] if counted else []
        rows.append([*_reached(one), *(f"{statistics.fmean(values):.3f}" for values in shares)])
    heads = [
        "variant",
        "rate",
        f"accuracy and its {100 * intervals.CONFIDENCE:.0f} % interval",
        "seeds that reach 0.9",
        "median steps to 0.9",
        *(forms.values() if counted else ()),
    ]
    words = (
        "The accuracy is that of the test sequences after training; when 0.9 is reached, the "
        "validation sequences tell. A seed that never gets there counts as later than all that do."
    )
    return f"{words}\n\n{table(heads, rows)}"


def _reached(outcome: Outcome) -> list[str]:
    """Name, rate, accuracy, and how many seeds of a variant reach 0.9, how soon."""
    steps = [math.inf if step is None else step for step in outcome.steps_to()]
    reached, middle = sum(map(math.isfinite, steps)), statistics.median(steps)
    late = "half or more never reach it" if reached else "never"
    values = outcome.values()
    interval = intervals.t_interval(values)
    return [
        plain(outcome.variant.name),
        f"{outcome.rate:g}",
        str(interval) if len(values) >= rule.MIN_SEEDS else f"{interval.mean:.3f}",
        f"{reached} of {len(steps)}",
        f"{middle:g}" if math.isfinite(middle) else late,
    ]


def ledger_markdown() -> str:
    """The ledger as one table: experiment and claim, and what the first rule said of it."""
    rows = [[f"`{one.id}`", plain(one.claim), one.status] for one in ledger.verdicts()]
    return table(["id", "claim", "by the first rule, which is withdrawn"], rows)


def others_markdown() -> str:
    """Measurements of the sources that no experiment of this book covers, with the reason."""
    return table(["source", "what it measures", "here"], OTHER_FIGURES)


def repeats_markdown(folder: Path | str | None = None) -> str:
    """Number of kept runs that gave the same numbers when trained once more.

    Args:
        folder: that of ``standard.json``; None for ``data/repeats``.
    """
    path = repeats_file(STANDARD) if folder is None else Path(folder) / f"{STANDARD}.json"
    found = json.loads(path.read_text(encoding="utf-8")) if path.exists() else []
    if not found:
        return "None so far: `python -m coefdyn.lab repeat --profile standard --runs 3 --draw 1`."
    counts = Counter(one["status"] for one in found)
    alike = [one for one in found if one["kept_by"]["device"] == one["again_by"]["device"]]
    same = sum(one["status"] == EQUAL for one in alike)
    return (
        f"Of {len(found)} repeated runs {counts[EQUAL]} gave the same numbers to the last digit, "
        f"{counts[WITHIN]} an accuracy within the interval, and {counts[DIFFERS]} another one. "
        f"On the type of machine that had kept them, {same} of {len(alike)} were equal."
    )


def runtimes_markdown(kept: Mapping[str, Any] | None, profile: str = "quick") -> str:
    """Seconds of every chapter's execution, with their sum.

    Args:
        kept: ``data/runtimes.json`` as a dictionary, or None where it has not been written.
        profile: which executions.
    """
    seconds = {} if kept is None else kept["seconds"].get(profile, {})
    if not seconds:
        return "Not yet measured: `make execute FORCE=1`, then `make runtimes`."
    rows = [[f"[{name}]({name}.ipynb)", f"{value:.1f}"] for name, value in sorted(seconds.items())]
    rows.append(["**all chapters**", f"**{sum(seconds.values()):.1f}**"])
    return table(["chapter", "seconds"], rows)
