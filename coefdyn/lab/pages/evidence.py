"""The evidence page, and an experiment's part in a chapter, generated from the result files."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

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

__all__ = [
    "OTHER_FIGURES",
    "caption_markdown",
    "claims_markdown",
    "decision_markdown",
    "load_results",
    "others_markdown",
    "registered_words",
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
