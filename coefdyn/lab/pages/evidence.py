"""Results for the book, generated from the result files, for the chapters and the evidence page.

Typed is only what an experiment's `reading` says, and that is shown for the verdicts it was written
for alone.
"""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from coefdyn.lab.experiments import EXPERIMENTS, get_experiment, rule, second_look
from coefdyn.lab.experiments.base import Experiment, judged_by_accuracy
from coefdyn.lab.experiments.figures import new_figure
from coefdyn.lab.experiments.plan import STANDARD, Plan
from coefdyn.lab.experiments.registration import changed_since
from coefdyn.lab.experiments.result import (
    HELD,
    NO_TEST,
    NOT_HELD,
    NOT_RUN,
    UNDECIDED,
    Result,
    Verdict,
    core_hours,
)
from coefdyn.lab.pages.markdown import folded, plain, table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = [
    "OTHER_FIGURES",
    "STATEMENTS",
    "caption_markdown",
    "claims_figure",
    "claims_markdown",
    "decision_markdown",
    "evidence_markdown",
    "load_results",
    "others_markdown",
    "perplexity_markdown",
    "registered_words",
    "runtimes_markdown",
    "show",
    "show_decision",
    "statements_markdown",
]

MARKS = {
    HELD: "**held**",
    NOT_HELD: "**not held**",
    UNDECIDED: "**undecided**",
    NO_TEST: "**no test**",
    NOT_RUN: "not run",
}
#: the statuses in a picture: the decided ones dark, the others light
COLORS = {
    HELD: "#0E96A8",
    NOT_HELD: "#C2562F",
    UNDECIDED: "#8B95A3",
    NO_TEST: "#C9CFD6",
    NOT_RUN: "#FFFFFF",
}
#: the profiles whose results are kept, and what the book calls them
KEPT = {"quick": "quick", "standard": "standard", "paper": "paper scale"}
#: what the folded tables of these sizes hold, the last one first
SIZES = {
    "quick": "The runs of the smoke test, by figure",
    "standard": "The runs that decide, by figure",
    "paper": "The runs at the scale of the sources, by figure",
}

#: the chapters of the experiments that belong to no principle
SECOND_VIEW = {
    "dsf-mqar": "second_view/dynamical_systems",
    "dsf-normalizers": "second_view/dynamical_systems",
    "dsf-table-1": "second_view/dynamical_systems",
    "spectra": "second_view/spectra",
    "spectra-mods": "second_view/spectra",
    "scoreboard": "scoreboard",
    "heads": "principles/principle_2_2",
}

#: what the sources measure and no experiment covers: where, what, and why not
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
        "S4's and LRU's eigenvalues move away from their start; a gate, or an exponential "
        "normaliser, costs accuracy on CIFAR-10; a convolution gains it on selective tasks",
        "no verdict: the histograms and accuracies stand in the figures; only the gain on MQAR "
        "with one layer is a claim of spectra-mods",
    ),
    (
        "eigenvalue paper, figures of its appendix",
        "the histograms of its Figure 1 by seed, head and task",
        "no figure of ours: spectra keeps one histogram per layer",
    ),
)


#: of a statement without a run of the standard size
NOT_TESTED = "**Not tested yet.**"

#: what the sources state, in the order of the book, and the experiments that put it to a test
STATEMENTS = {
    "Principle 1: quadratic time without a state of fixed size, linear with one": ("principle-1",),
    "Principle 2: a wide zero set lets a readout suppress tokens": ("principle-2",),
    "Principle 2.1: feature maps have a thinner one": ("principle-2.1",),
    "Principle 2.2: n - 1 exact zeros, and no more": ("principle-2.2",),
    "Principle 3: an evolution other than the identity gives positions": ("principle-3",),
    "Principle 4: more transformations give more accuracy, and their parameters matter": (
        "principle-4",
    ),
    "Principle 5: scalings that offset the growth of scores": ("principle-5", "principle-5-lm"),
    "Principle 6: normalizer and evolution keep training stable": ("principle-6",),
    "The dynamical systems framework": ("dsf-mqar", "dsf-normalizers", "dsf-table-1"),
    "Eigenvalue spectra": ("spectra", "spectra-mods"),
    "The scoreboard of this book, and the principles as forecasts": ("scoreboard",),
    "Heads (this book): recall follows the state, not their number": ("heads",),
}

#: the experiments of STATEMENTS whose id says little to a reader
IN_WORDS = {
    "principle-5-lm": "Principle 5, language",
    "dsf-mqar": "Framework, recall",
    "dsf-normalizers": "Framework, normalizers",
    "dsf-table-1": "Framework, long range",
    "heads": "Heads and state",
    "spectra": "Spectra",
    "spectra-mods": "Spectra, changed parts",
    "scoreboard": "Scoreboard",
}


def load_results(name: str, out: Path | str | None = None) -> dict[str, Result]:
    """The kept results of an experiment: profile -> result, empty where nothing has been run.

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
    """One row per claim: the verdict, with the numbers that decided it.

    Where there is a standard profile, it alone decides: its claims with test, threshold and
    control, and the commit in which they were registered. Elsewhere one column per profile.

    Args:
        experiment: whose claims.
        results: profile name -> its result; empty results give "not run".
    """
    if STANDARD in results:
        return _registered_markdown(experiment, results[STANDARD])
    columns = {name: experiment.claims(result) for name, result in results.items()}
    claims = list(dict.fromkeys(one.claim for found in columns.values() for one in found))
    heads = [KEPT.get(name, name) for name in columns]
    rows = [[claim, *(_cell(claim, found) for found in columns.values())] for claim in claims]
    return table(["claim", *heads], rows)


def _registered_markdown(experiment: Experiment, result: Result) -> str:
    """The registered claims: id and sentence, test, control, verdict; and when they were fixed."""
    rows = [
        [
            f"`{one.id}`: {one.claim}",
            f"{MARKS[one.status]}: {one.numbers}" if result.records else "not run",
            one.test,
            one.control,
        ]
        for one in experiment.claims(result)
    ]
    return f"{_registered(experiment, result)}\n\n" + table(
        ["claim", "verdict", "test and threshold", "control"], rows
    )


def _registered(experiment: Experiment, result: Result) -> str:
    """Since when the claims stand, which were changed, and what finishes the runs."""
    stored = experiment.stored_as or experiment.id
    command = f"`python -m coefdyn.lab run {stored} --profile standard`"
    if not result.records:
        return f"Not yet run at the standard size: {command}."
    words = registered_words(experiment, result)
    if result.missing:
        words += f" {len(result.records)} runs finished, {result.missing} to go: {command}."
    return words


def registered_words(experiment: Experiment, result: Result) -> str:
    """In which commit an experiment's claims were registered, and which came or changed since.

    Runs that were taken over from another experiment are named, with how many of them are older
    than the first run that was made for this one.

    Args:
        experiment: whose claims.
        result: its standard result, with at least one record.
    """
    first = experiment.registered(result)
    if first is None:
        return "The records do not say in which commit these claims were registered."
    words = f"Registered in commit {first.commit}, before the first run"
    taken, own = _taken_over(experiment, result)
    if taken:
        older = sum(when < min(own, default=when) for when in taken)
        words += (
            f" that was made for these claims; {len(taken)} runs were taken over from "
            f"{experiment.borrows_from}, {older} of them older than that one"
        )
    words += "."
    changed = changed_since(experiment.registrations(), first)
    if changed:
        words += f" Changed or added since: {', '.join(changed)}."
    again = [one for one in result.records if one["seed"] in second_look.SEEDS]
    if again:
        commit = min(again, key=lambda one: one["timestamp"])["revision"]
        words += f" Which of them get a second look stood in commit {commit}, before its first run."
    return words


def _taken_over(experiment: Experiment, result: Result) -> tuple[list[str], list[str]]:
    """When the runs ended that another experiment's kept file has, too; and when the others did."""
    there: set[tuple[str, str]] = set()
    if experiment.borrows_from is not None:
        other = get_experiment(experiment.borrows_from).file(result.profile)
        there = {(one["key"], one["timestamp"]) for one in other.records()}
    ended: tuple[list[str], list[str]] = ([], [])
    for one in result.records:
        ended[(one["key"], one["timestamp"]) not in there].append(one["timestamp"])
    return ended


def _cell(claim: str, found: Sequence[Verdict]) -> str:
    matching = [one for one in found if one.claim == claim]
    if not matching:
        return "not planned"
    verdict = matching[0]
    mark = MARKS[verdict.status]
    return mark if verdict.status == NOT_RUN else f"{mark}: {verdict.numbers}"


def caption_markdown(result: Result) -> str:
    """Where a figure's numbers come from, in one line of small print."""
    return f"*{plain(result.caption())}*"


def show(experiment: Experiment, result: Result) -> None:
    """Display figure and caption in a notebook; the caption alone while no point is finished."""
    from IPython.display import Markdown, display

    trained = isinstance(result.plan, Plan)
    finished = bool(result.outcomes() if trained else result.records)
    figures = [experiment.figure(result)] if finished else []
    display(*figures, Markdown(caption_markdown(result)))  # type: ignore[no-untyped-call]


def perplexity_markdown(results: Mapping[str, Result]) -> str:
    """Table 3 of the paper beside each result: mean and range over seeds."""
    from coefdyn.lab.experiments.principle_5_lm import MODELS, REPORTED, WORDS

    def mean(result: Result, kind: str, b: str) -> str:
        eps = {"eps": "1e-5"} if result.profile == STANDARD else {}
        outcome = result.one(model=kind, b=b, **eps)
        if outcome is None:
            return "not yet run"
        values = outcome.values("perplexity")
        middle = f"{sum(values) / len(values):.2f}"
        spread = f" ({min(values):.2f} to {max(values):.2f})" if len(values) > 1 else ""
        return middle + spread

    rows = [
        [MODELS[kind], WORDS[b], *(mean(one, kind, b) for one in results.values()), f"{value:.2f}"]
        for (kind, b), value in REPORTED.items()
    ]
    heads = [f"here, {KEPT.get(name, name)}" for name in results]
    return table(["model", "b", *heads, "the paper, WikiText-103"], rows)


def decision_markdown(experiment: Experiment, results: Mapping[str, Result]) -> str:
    """In one sentence what the runs say about an experiment's claims, and why.

    Args:
        experiment: whose claims.
        results: profile name -> its result. The standard size decides; an experiment without one
            has decided nothing.
    """
    if STANDARD not in results or not results[STANDARD].records:
        return f"**Not tested yet**, because {_why_not_tested(experiment, results)}"
    return _answer(experiment, results[STANDARD])


def statements_markdown(out: Path | str | None = None) -> str:
    """Every statement of the sources with one plain sentence: supported or not, and why.

    Why nothing has been tested, and the command that does it, is said once, by the page.

    Args:
        out: folder of the result files; None for ``data/results``.
    """
    lines = []
    for statement, names in STATEMENTS.items():
        told = []
        for name in names:
            experiment = get_experiment(name)
            results = load_results(name, out)
            started = STANDARD in results and results[STANDARD].records
            words = _answer(experiment, results[STANDARD]) if started else NOT_TESTED
            told.append(f"{_link(name)}: {words}" if len(names) > 1 else words)
        where = f" ({_link(names[0])})" if len(names) == 1 else ""
        lines.append(f"- {statement}{where}. " + " ".join(told))
    return "\n".join(lines)


def claims_figure(out: Path | str | None = None) -> Figure:
    """A bar per experiment: how many claims held, did not, are undecided, or had no test.

    Args:
        out: folder of the result files; None for ``data/results``.
    """
    every = [name for names in STATEMENTS.values() for name in names]
    counts = [_counts(get_experiment(name), load_results(name, out)[STANDARD]) for name in every]
    names = [IN_WORDS.get(name, name.replace("principle-", "Principle ")) for name in every]
    figure, (axes,) = new_figure(width=5.6, height=4.6)
    left = [0] * len(names)
    for status, color in COLORS.items():
        widths = [found[status] for found in counts]
        bars = axes.barh(
            names, widths, left=left, color=color, edgecolor="#8B95A3", lw=0.6, label=status
        )
        ink = "white" if status in (HELD, NOT_HELD) else "#2B3340"
        axes.bar_label(
            bars, [str(n or "") for n in widths], label_type="center", color=ink, fontsize=8
        )
        left = [sum(pair) for pair in zip(left, widths, strict=True)]
    axes.invert_yaxis()
    axes.grid(visible=False)
    axes.set_xlabel("claims, at the standard size")
    figure.legend(loc="outside upper center", ncols=3, frameon=False)
    return figure


def _counts(experiment: Experiment, result: Result) -> Counter[str]:
    """Status -> number of claims."""
    return Counter(one.status for one in experiment.claims(result))


def show_decision(experiment: Experiment, results: Mapping[str, Result]) -> None:
    """Display what decides, in a notebook: one sentence, the figures, and the claims folded."""
    from IPython.display import Markdown, display

    def say(words: str) -> None:
        display(Markdown(words))  # type: ignore[no-untyped-call]

    say(decision_markdown(experiment, results))
    for profile, result in results.items():
        if profile != "quick" and result.records:
            show(experiment, result)
    claims = claims_markdown(experiment, results)
    say(f":::{{dropdown}} Every claim with its test, threshold and control\n{claims}\n:::")
    learned = _learned_markdown(experiment, results)
    if learned:
        say(f":::{{dropdown}} Accuracy, and how soon it reaches 0.9, by variant\n{learned}\n:::")


def _learned_markdown(experiment: Experiment, results: Mapping[str, Result]) -> str:
    """Per variant of the standard size: accuracy, the seeds that reach 0.9, and the median steps.

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
        interval = rule.t_interval(values)
        rows.append(
            [
                plain(outcome.variant.name),
                str(interval) if len(values) >= rule.MIN_SEEDS else f"{interval.mean:.3f}",
                f"{reached} of {len(steps)}",
                f"{middle:g}" if math.isfinite(middle) else late if reached else "never",
            ]
        )
    interval_words = f"accuracy and its {100 * rule.CONFIDENCE:.0f} % interval"
    heads = ["variant", interval_words, "seeds that reach 0.9", "median steps to 0.9"]
    words = (
        "The accuracy is that of the test sequences after training; when 0.9 is reached, the "
        "validation sequences tell. A seed that never gets there counts as later than all that do."
    )
    return f"{words}\n\n{table(heads, rows)}" if rows else ""


def _answer(experiment: Experiment, result: Result) -> str:
    """A word or two for several claims, what the runs showed, and the counts.

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
        open_word = "Not tested yet" if found[NOT_RUN] else "No test"
        closed_word = "Contradicted" if len(refuted) > len(found[UNDECIDED]) else "Undecided"
        word = closed_word if refuted or found[UNDECIDED] else open_word
    if found[NOT_RUN] and (held or refuted or found[UNDECIDED]):
        word += " so far"
    reading = experiment.reading
    if reading is not None and reading.fits(verdicts):
        told = ", ".join(f"{len(those)} {status}" for status, those in found.items() if those)
        return f"**{word}.** {reading.words} ({told}.)"
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
    return f"**{word}**, because " + ", and ".join(parts) + "."


def _claims(found: Sequence[Verdict]) -> str:
    return "1 claim is" if len(found) == 1 else f"{len(found)} claims are"


def _why_not_tested(experiment: Experiment, results: Mapping[str, Result]) -> str:
    """What is missing, and the command that makes it."""
    if STANDARD not in results:
        return "it has no standard size: the quick runs compare two seeds and have no interval."
    command = f"`python -m coefdyn.lab run {experiment.stored_as or experiment.id}"
    return f"the runs of the standard size are missing: {command} --profile standard`."


def evidence_markdown(out: Path | str | None = None) -> str:
    """What has been run at each size: core-hours, and a folded table with a row per figure.

    Args:
        out: folder of the result files; None for ``data/results``.
    """
    found: dict[str, dict[str, Result]] = {profile: {} for profile in reversed(SIZES)}
    waiting: dict[str, list[str]] = {profile: [] for profile in KEPT}
    for name in EXPERIMENTS:
        for profile, result in load_results(name, out).items():
            if result.records:
                found[profile][name] = result
            else:
                waiting[profile].append(name)
    heads = ["figure", "claims", "runs", "seeds", "training time", "hardware"]
    parts = []
    for profile, results in found.items():
        if results:
            rows = [
                [_figure(get_experiment(name), name), *_evidence(get_experiment(name), result)]
                for name, result in results.items()
            ]
            parts += [_spent(profile, results), folded(SIZES[profile], table(heads, rows))]
    parts += [
        f"Not yet run at {'the ' if profile != 'paper' else ''}"
        f"{KEPT[profile]}{' size' if profile != 'paper' else ''}: {', '.join(names)}."
        for profile, names in waiting.items()
        if names
    ]
    return "\n\n".join(parts)


def _spent(profile: str, results: Mapping[str, Result]) -> str:
    """Of how many experiments a size has runs, and the hours of a core that they took."""
    size = KEPT[profile] if profile == "paper" else f"the {KEPT[profile]} size"
    which = "1 experiment has" if len(results) == 1 else f"{len(results)} experiments have"
    return (
        f"At {size} {which} runs, which took {core_hours(*results.values()):.1f} hours "
        "of a CPU core in all; a run that two experiments share counts once."
    )


def others_markdown() -> str:
    """What the sources measure and no experiment of this book covers, with the reason."""
    return table(["source", "what it measures", "here"], OTHER_FIGURES)


def _figure(experiment: Experiment, name: str) -> str:
    """The figure in words, with a link to the chapter that shows it."""
    words = experiment.source.removeprefix("coefficient-dynamics paper, ")
    return f"{words}: {_link(name)}"


def _link(name: str) -> str:
    """An experiment's id as a link to the chapter that shows it, seen from the evidence page."""
    chapter = "principles/" + EXPERIMENTS[name].removesuffix("_lm")
    return f"[{name}]({SECOND_VIEW.get(name, chapter)}.ipynb)"


def _evidence(experiment: Experiment, result: Result) -> list[str]:
    """Verdicts, runs, seeds, training time and hardware of one result that has runs."""
    records = result.records
    planned = len(records) + result.missing
    smoke = result.profile == "quick" and STANDARD in experiment.profiles
    counts = Counter() if smoke else _counts(experiment, result)
    verdicts = [f"{counts[status]} {status}" for status in MARKS]
    seconds = sum(record["wall_s"] / record.get("replicas", 1) for record in records)
    return [
        "a smoke test, no claims"
        if smoke
        else ", ".join(words for words in verdicts if not words.startswith("0 ")),
        f"{len(records)} of {planned}",
        result.seeds_in_words().partition(" ")[2],
        _duration(seconds),
        plain(" and ".join(sorted({record["device"] for record in records}))),
    ]


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


def _duration(seconds: float) -> str:
    """Seconds in the unit that fits, such as "42 s", "12 min" or "3.5 h"."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
