"""The table can | learns | why: every cell's mark, what one layer learned, and the reason."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence

from coefdyn.lab.capabilities.cells import Cell, cells
from coefdyn.lab.capabilities.neighbours import NEIGHBOURS, carried_by
from coefdyn.lab.experiments import EXPERIMENTS, get_experiment
from coefdyn.lab.experiments.board import ROWS, tasks_of
from coefdyn.lab.experiments.plan import STANDARD

__all__ = ["capabilities_html", "contradictions", "learned_seeds"]

#: the experiment of one mixer and a linear decoder, once it has runs
LEARNS = "one-layer"
#: a seed has solved a task above this accuracy
SOLVED = 0.999
SIGNS = {"can": "can", "cannot": "cannot", "to a length": "so far", "open": "open"}


def learned_seeds() -> dict[tuple[str, str], list[float]]:
    """Accuracies of the kept seeds with one layer, by task and row; empty before the first run."""
    if LEARNS not in EXPERIMENTS:
        return {}
    result = get_experiment(LEARNS).load(STANDARD)
    return {
        (one.variant.facets["task"], one.variant.facets["row"]): list(one.values())
        for one in result.outcomes()
    }


def contradictions(learned: Mapping[tuple[str, str], Sequence[float]]) -> list[str]:
    """Cells marked *cannot* that a seed has solved: a lemma or a run is wrong there.

    Args:
        learned: of ``learned_seeds``.
    """
    return [
        f"{one.task}, {one.row}"
        for one in cells()
        if one.mark == "cannot" and max(learned.get((one.task, one.row), [0.0])) > SOLVED
    ]


def capabilities_html(learned: Mapping[tuple[str, str], Sequence[float]] | None = None) -> str:
    """One line per row, one column per task; a cell unfolds what its mark rests on.

    Args:
        learned: of ``learned_seeds``; None for what is kept.
    """
    kept = learned_seeds() if learned is None else learned
    found = {(one.task, one.row): one for one in cells()}
    heads = "".join(f'<th scope="col">{html.escape(task)}</th>' for task in tasks_of())
    lines = "".join(
        f'<tr><th scope="row">{html.escape(row)}</th>'
        + "".join(_cell(found[task, row], kept.get((task, row))) for task in tasks_of())
        + "</tr>"
        for row in ROWS
    )
    return (
        '<div class="cd-scoreboard"><div class="cd-scroll" tabindex="0" role="region" '
        'aria-label="What one layer can do"><table><thead><tr><th scope="col">one layer</th>'
        f"{heads}</tr></thead><tbody>{lines}</tbody></table></div></div>"
    )


def _cell(cell: Cell, seeds: Sequence[float] | None) -> str:
    name = html.escape(f"{cell.task}, {cell.row}")
    if seeds:
        solved = sum(one > SOLVED for one in seeds)
        learns = f"{solved} of {len(seeds)} seeds solved it"
    else:
        learns = "not run yet"
    return (
        f'<td data-mark="{cell.mark}"><details><summary aria-label="{name}: {cell.mark}">'
        f"<b>{SIGNS[cell.mark]}</b></summary><div><p><b>{name}</b>: {cell.mark}. {_why(cell)}</p>"
        f"<p>Learned by one layer: {learns}.</p></div></details></td>"
    )


def _why(cell: Cell) -> str:
    if cell.mark == "open":
        return "Neither a construction nor a proof is known here."
    if cell.mark == "cannot":
        return f'<a href="by_hand.html#lemma-{cell.name.replace(" ", "-")}">{cell.name}</a>'
    words = NEIGHBOURS[carried_by(cell.task, cell.row)][0]
    where = f'<a href="by_hand.html#by-hand-constructions">{html.escape(cell.name)}</a>'
    bound = "" if cell.mark == "can" else " Bound open."
    return f"By hand: {where}. It rests on {html.escape(words)}.{bound}"
