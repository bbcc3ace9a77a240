"""The evidence page, and an experiment's part in a chapter, generated from the result files."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from coefdyn.lab.experiments.plan import STANDARD
from coefdyn.lab.pages.decision import (
    caption_markdown,
    claims_markdown,
    decision_markdown,
    load_results,
    registered_words,
    show,
    show_decision,
)
from coefdyn.lab.pages.markdown import table
from coefdyn.lab.scripts.repeat import DIFFERS, EQUAL, WITHIN, repeats_file

__all__ = [
    "OTHER_FIGURES",
    "caption_markdown",
    "claims_markdown",
    "decision_markdown",
    "load_results",
    "others_markdown",
    "registered_words",
    "repeats_markdown",
    "runtimes_markdown",
    "show",
    "show_decision",
]

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
