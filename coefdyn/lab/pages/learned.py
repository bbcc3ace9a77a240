"""Seeds of one layer: what each cell learned, and where the seeds and the table part.

A cell says what weights set by hand can do, and the seeds say what training found.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from coefdyn.lab.capabilities.cells import Cell, cells
from coefdyn.lab.experiments import EXPERIMENTS, get_experiment
from coefdyn.lab.experiments.one_layer import FURTHER_RATES
from coefdyn.lab.experiments.plan import STANDARD
from coefdyn.lab.experiments.result import Outcome, Result
from coefdyn.lab.pages.markdown import table
from coefdyn.lab.pages.scoreboard import curves_svg

__all__ = [
    "BOARD",
    "FURTHER",
    "LEARNS",
    "SIGNS",
    "Learned",
    "Seeds",
    "contradictions",
    "disagreement",
    "disagreements_markdown",
    "further_note",
    "in_more_steps",
    "learned_note",
    "learned_seeds",
    "missed",
]

#: the experiments of one mixer and a linear decoder, and of two whole layers
LEARNS, BOARD = "one-layer", "scoreboard"
#: one layer's profile of five times the steps
FURTHER = "paper"
#: a seed has solved a task above this accuracy
SOLVED = 0.999
#: a mark's sign and its words
SIGNS = {
    "can": ("\u2713", "can"),
    "cannot": ("\u2717", "cannot"),
    "to a length": ("\u2026", "so far"),
    "open": ("?", "open"),
}


@dataclass(frozen=True, kw_only=True)
class Seeds:
    """Accuracies of a cell's seeds, at the rate that its first seed chose.

    Args:
        accuracies: on the test sequences, one per seed.
        solved: number of seeds that passed .999 on the validation sequences, which ends a run, or
            on the test sequences.
        rate: learning rate of all seeds.
        edge: whether a better rate may lie beyond those tried.
        grown: change of the best seed's validation accuracy over the last quarter of its steps.
        curves: drawing of the validation accuracies against steps, as SVG.
    """

    accuracies: tuple[float, ...]
    solved: int
    rate: float = 3e-3
    edge: bool = False
    grown: float = 0.0
    curves: str = ""

    @property
    def count(self) -> str:
        """Solved seeds out of all."""
        return f"{self.solved} of {len(self.accuracies)}"


#: seeds by task and row
Learned = Mapping[tuple[str, str], Seeds]


def learned_seeds(
    experiment: str = LEARNS, profile: str = STANDARD
) -> dict[tuple[str, str], Seeds]:
    """Kept seeds of every trained cell, by task and row; empty before the first run.

    Args:
        experiment: "one-layer", or "scoreboard" for two layers.
        profile: "standard", or "paper" for one layer's five times the steps.
    """
    if experiment not in EXPERIMENTS:
        return {}
    result = get_experiment(experiment).load(profile)
    return {
        (one.variant.facets["task"], one.variant.facets["row"]): _seeds(one, result)
        for one in result.outcomes()
    }


def _seeds(outcome: Outcome, result: Result) -> Seeds:
    best = max(outcome.records, key=lambda one: one["final"]["accuracy"])
    curve = [value or 0.0 for value in best["metrics"]["accuracy"]]
    return Seeds(
        accuracies=tuple(outcome.values()),
        solved=sum(one["solved"] or one["final"]["accuracy"] > SOLVED for one in outcome.records),
        rate=outcome.rate,
        edge=result.at_edge(outcome),
        grown=curve[-1] - curve[3 * len(curve) // 4 - 1],
        curves=curves_svg(outcome),
    )


def contradictions(learned: Learned) -> list[str]:
    """Cells marked *cannot* that a seed has solved: a lemma or a run is wrong there.

    Args:
        learned: of ``learned_seeds``.
    """
    return [
        f"{one.task}, {one.row}"
        for one in cells()
        if one.mark == "cannot" and (one.task, one.row) in learned
        if learned[one.task, one.row].solved > 0
    ]


def disagreement(cell: Cell, seeds: Seeds | None) -> str:
    """One sentence where what one layer can and what it learned are two things, else "".

    Args:
        cell: one of ``cells()``.
        seeds: of its one layer.
    """
    if seeds is None:
        return ""
    if cell.mark in ("can", "to a length") and seeds.solved == 0:
        return (
            f"It can, and none of {len(seeds.accuracies)} seeds solved it; the best is right in "
            f"{max(seeds.accuracies):.3f} of its answers."
        )
    if cell.mark == "open" and seeds.solved > 0:
        return "A seed solved it, so some weights do it at this length."
    return ""


def disagreements_markdown(learned: Learned | None = None, further: Learned | None = None) -> str:
    """A line per cell that one layer can do and no seed solved, with a look at why.

    The look is at the rate (a better one may lie beyond those tried), at the steps (the best seed's
    change over the last quarter, and one more seed for five times as many) and at depth (two whole
    layers).

    Args:
        learned, further: of ``learned_seeds``, and for five times the steps; None for what is kept.
    """
    kept = learned_seeds() if learned is None else learned
    more = learned_seeds(LEARNS, FURTHER) if further is None else further
    two, lines = learned_seeds(BOARD), []
    for one in missed(kept):
        place = one.task, one.row
        seeds, whole = kept[place], two.get(place)
        rate = f"{seeds.rate:g}, at the edge" if seeds.edge else f"{seeds.rate:g}"
        lines.append([
            f"{one.task}, {one.row}", SIGNS[one.mark][1], f"{max(seeds.accuracies):.3f}", rate,
            f"{seeds.grown:+.2f}", in_more_steps(more.get(place)),
            "not run" if whole is None else whole.count,
        ])  # fmt: skip
    heads = ["task, row", "by hand", "best of one layer", "rate", "last quarter of the steps",
             "five times the steps", "two layers that solve it"]  # fmt: skip
    return table(heads, lines)


def missed(learned: Learned) -> list[Cell]:
    """Cells that one layer can do, to a length at least, and that no seed of it solved.

    Args:
        learned: of ``learned_seeds``.
    """
    trained = [one for one in cells() if (one.task, one.row) in learned and one.mark != "open"]
    return [one for one in trained if disagreement(one, learned[one.task, one.row])]


def in_more_steps(seeds: Seeds | None) -> str:
    """Outcome of one more seed for five times the steps, with its rate, in a few words.

    Args:
        seeds: of one cell; None before it is run.
    """
    if seeds is None:
        return "not run"
    return f"{'solved' if seeds.solved else f'{max(seeds.accuracies):.3f}'}, rate {seeds.rate:g}"


def further_note(learned: Learned | None = None, further: Learned | None = None) -> str:
    """Number of cells that no seed solved, and those that five times the steps did, in Markdown.

    Args:
        learned, further: of ``learned_seeds``, and for five times the steps; None for what is kept.
    """
    kept = learned_seeds() if learned is None else learned
    more = learned_seeds(LEARNS, FURTHER) if further is None else further
    found = [more[one.task, one.row] for one in missed(kept) if (one.task, one.row) in more]
    if not found:
        return "No cell has been given more steps yet."
    same, higher = (
        sum(one.solved > 0 and one.rate == rate for one in found) for rate in FURTHER_RATES
    )
    left = len(missed(kept)) - len(found)
    are = "cell is" if left == 1 else "cells are"
    waiting = f" {left} {are} still to be run." if left else ""
    return (
        f"Of {len(found)} cells that were given five times the steps, one more seed solved {same} "
        f"at the rate {FURTHER_RATES[0]:g} and {higher} only at {FURTHER_RATES[1]:g}; "
        f"{len(found) - same - higher} stay unsolved.{waiting}"
    )


def learned_note(learned: Learned | None = None) -> str:
    """Number of cells, by mark, that a seed of one layer solved, in Markdown.

    Args:
        learned: of ``learned_seeds``; None for what is kept.
    """
    kept = learned_seeds() if learned is None else learned
    marks = Counter(one.mark for one in cells() if (one.task, one.row) in kept)
    solved = Counter(
        one.mark for one in cells()
        if (one.task, one.row) in kept and kept[one.task, one.row].solved > 0
    )  # fmt: skip
    words = [
        f"{solved[mark]} of the {marks[mark]} cells marked *{SIGNS[mark][1]}*"
        for mark in SIGNS if marks[mark]
    ]  # fmt: skip
    if not words:
        return "No cell has been trained in one layer yet."
    left = sum(1 for _ in cells()) - marks.total()
    more = f" {left} cells are still to be trained." if left else ""
    return f"At least one seed of one layer solved {', '.join(words)}.{more}"
