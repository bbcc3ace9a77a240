"""The evidence page, and an experiment's part in a chapter, generated from the result files."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from coefdyn.lab.experiments import EXPERIMENTS, get_experiment
from coefdyn.lab.experiments.base import Experiment
from coefdyn.lab.experiments.figures import new_figure
from coefdyn.lab.experiments.plan import STANDARD
from coefdyn.lab.experiments.result import (
    HELD,
    NO_TEST,
    NOT_HELD,
    NOT_RUN,
    UNDECIDED,
    WITHDRAWN,
    Result,
    core_hours,
)
from coefdyn.lab.pages.decision import (
    KEPT,
    MARKS,
    answer,
    caption_markdown,
    claims_markdown,
    decision_markdown,
    load_results,
    registered_words,
    show,
    show_decision,
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
    "registered_words",
    "runtimes_markdown",
    "show",
    "show_decision",
    "statements_markdown",
]

#: the statuses in a picture: the decided ones dark, the others light
COLORS = {
    HELD: "#0E96A8",
    NOT_HELD: "#C2562F",
    UNDECIDED: "#8B95A3",
    NO_TEST: "#C9CFD6",
    NOT_RUN: "#FFFFFF",
    WITHDRAWN: "#F3E3C8",
}
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
            words = answer(experiment, results[STANDARD]) if started else NOT_TESTED
            told.append(f"{_link(name)}: {words}" if len(names) > 1 else words)
        where = f" ({_link(names[0])})" if len(names) == 1 else ""
        lines.append(f"- {statement}{where}. " + " ".join(told))
    return "\n".join(lines)


def claims_figure(out: Path | str | None = None) -> Figure:
    """Plot a bar per experiment: claims that held, did not, are undecided, or had no test.

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
    """Number of claims per status."""
    return Counter(one.status for one in experiment.claims(result))


def evidence_markdown(out: Path | str | None = None) -> str:
    """Overview of the runs at each size: core-hours, and a folded table with a row per figure.

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
    """Number of experiments with runs at a size, and the core-hours of these runs."""
    size = KEPT[profile] if profile == "paper" else f"the {KEPT[profile]} size"
    which = "1 experiment has" if len(results) == 1 else f"{len(results)} experiments have"
    return (
        f"At {size} {which} runs, which took {core_hours(*results.values()):.1f} hours "
        "of a CPU core in all; a run that two experiments share counts once."
    )


def others_markdown() -> str:
    """Measurements of the sources that no experiment of this book covers, with the reason."""
    return table(["source", "what it measures", "here"], OTHER_FIGURES)


def _figure(experiment: Experiment, name: str) -> str:
    """Name of the figure, with a link to the chapter that shows it."""
    words = experiment.source.removeprefix("coefficient-dynamics paper, ")
    return f"{words}: {_link(name)}"


def _link(name: str) -> str:
    """Experiment's id as a link from the evidence page to the chapter that shows it."""
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
