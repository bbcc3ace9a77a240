"""The table can | learns | why: every cell's mark, what one layer learned, and the reason.

Ticked tasks keep the rows that can do all of them. At a length of choice stand the bytes of a row's
state, by the library's own count in float32, and the time per token that ``step-times`` measured.

Longer than other files: a cell of the table and the notes below it are told from the same seeds.
"""

from __future__ import annotations

import html
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch

from coefdyn.lab.capabilities.cells import Cell, cells
from coefdyn.lab.capabilities.hand import WIDTH, Hand
from coefdyn.lab.capabilities.neighbours import NEIGHBOURS, carried_by
from coefdyn.lab.experiments import EXPERIMENTS, get_experiment
from coefdyn.lab.experiments.board import ROWS, tasks_of
from coefdyn.lab.experiments.one_layer import FURTHER_RATES
from coefdyn.lab.experiments.plan import STANDARD
from coefdyn.lab.experiments.result import Outcome, Result
from coefdyn.lab.pages.markdown import table
from coefdyn.lab.pages.scoreboard import CHOOSES, curves_svg
from coefdyn.lab.places import data_file

__all__ = [
    "Seeds",
    "capabilities_html",
    "contradictions",
    "disagreement",
    "disagreements_markdown",
    "found_note",
    "further_note",
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
#: what the program of the lemmas found, and the times, in the folder ``data``
HULLS, TIMES = "capabilities/hulls.json", "capabilities/times.json"
#: bytes of a number of the state, and the lengths at which it can be asked for
NUMBER, LENGTHS = 4, (64, 512, 4096, 65_536, 1_048_576)
#: length that is shown first
SHOWN = 4096
#: task -> the place on the page "By hand" that its construction belongs to
PLACES = {
    "overwrite": "overwrite",
    "count": "count",
    "parity": "parity",
    "S3": "parity",
    "copy": "copy",
}
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
            f"{seeds.grown:+.2f}", _in_more_steps(more.get(place)),
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


def _in_more_steps(seeds: Seeds | None) -> str:
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
    waiting = f" {left} cells are still to be run." if left else ""
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


def capabilities_html(learned: Learned | None = None) -> str:
    """One line per row, one column per task; a cell unfolds what its mark rests on.

    Args:
        learned: of ``learned_seeds``; None for what is kept.
    """
    kept, two = learned_seeds() if learned is None else learned, learned_seeds(BOARD)
    more = learned_seeds(LEARNS, FURTHER)
    times = json.loads(data_file(TIMES).read_text(encoding="utf-8"))
    found = {(one.task, one.row): one for one in cells()}
    heads = "".join(
        f'<th scope="col"><label>{html.escape(task)} '
        f'<input class="cd-keep" type="checkbox" value="{html.escape(task)}"></label></th>'
        for task in tasks_of()
    )
    lines = "".join(
        f'<tr><th scope="row">{html.escape(row)}</th>'
        + "".join(
            _cell(found[task, row], *(of.get((task, row)) for of in (kept, more, two)))
            for task in tasks_of()
        )
        + _state_cell(row)
        + _time_cell(times["lengths"], times["microseconds"][row])
        + "</tr>"
        for row in ROWS
    )
    lengths = "".join(
        f'<option value="{one}"{" selected" if one == SHOWN else ""}>{one:,}</option>'
        for one in LENGTHS
    )
    return (
        '<div class="cd-scoreboard"><p class="cd-keep" role="group" aria-label="Rows to keep">'
        "<label>Tick tasks, and keep the rows that <select>"
        '<option value="can">can do them at every length tried</option>'
        '<option value="can, to a length">can, or so far</option></select></label> '
        f"<label>state and time at <select>{lengths}</select> tokens</label></p>"
        '<div class="cd-scroll" tabindex="0" role="region" '
        'aria-label="What one layer can do"><table><thead><tr><th scope="col">one layer</th>'
        f'{heads}<th scope="col">state, bytes</th><th scope="col">a token, µs</th></tr></thead>'
        f"<tbody>{lines}</tbody></table></div>"
        f'<p class="cd-keep" role="status"></p>'
        '<div class="cd-chosen" role="status">Choose a cell: its reason and its curves stand here.'
        f"</div></div><script>{SCRIPT}</script>"
    )


def _state_cell(row: str) -> str:
    """Bytes of the state after ``SHOWN`` tokens, with what the script needs for other lengths."""
    mixer = Hand(row).mixer
    growth = NUMBER * mixer.state_growth()
    first = NUMBER * mixer.extend(torch.zeros(1, WIDTH).double())[1].numbers()
    total = first + growth * (SHOWN - 1)
    return f'<td data-first="{first}" data-growth="{growth}">{total:,}</td>'


def _time_cell(lengths: Sequence[int], measured: Mapping[str, Sequence[float]]) -> str:
    """Microseconds of a step and of a pass per token at ``SHOWN``, and at every timed length."""
    pairs = zip(measured["step"], measured["pass"], strict=True)
    shown = {
        str(length): (f"{step:,.0f}", f"{whole:.1f}")
        for length, (step, whole) in zip(lengths, pairs, strict=True)
    }
    step, whole = shown[str(SHOWN)]
    return (
        f'<td data-times="{html.escape(json.dumps(shown))}"><small>step <b>{step}</b></small>'
        f"<small>pass <b>{whole}</b></small></td>"
    )


def _cell(cell: Cell, seeds: Seeds | None, more: Seeds | None, two: Seeds | None) -> str:
    name = html.escape(f"{cell.task}, {cell.row}")
    sign, word = SIGNS[cell.mark]
    if seeds is None:
        count, curves, learned = "", "", "Learned by one layer: not run yet."
    else:
        count, curves = f"<small>{seeds.count}</small>", seeds.curves
        learned = f"Learned by one layer: {seeds.count} seeds solved it."
    further = f" One more seed, five times the steps: {_in_more_steps(more)}." if more else ""
    return (
        f'<td data-mark="{cell.mark}"><details><summary aria-label="{name}: {word}">'
        f"<b>{sign}</b><small>{word}</small>{count}</summary>"
        f"<div><p><b>{name}</b>: {cell.mark}. {_why(cell)}</p>"
        f"<p>{learned} {disagreement(cell, seeds)}{further}</p>{curves}"
        f"<p>By the two layers below: {_between(two)}.</p></div></details></td>"
    )


def _between(seeds: Seeds | None) -> str:
    if seeds is None:
        return "not run yet"
    least, most = min(seeds.accuracies), max(seeds.accuracies)
    return f"{len(seeds.accuracies)} seeds, accuracies from {least:.2f} to {most:.2f}"


def found_note() -> str:
    """Findings of the programs, and where the times were measured, in Markdown."""
    hulls, times = (
        json.loads(data_file(name).read_text(encoding="utf-8")) for name in (HULLS, TIMES)
    )
    worst, where = max(one["worst"] for one in hulls["cells"]), times["provenance"]
    return (
        f"In each of the {len(hulls['cells'])} cells marked *cannot*, a program compared the hulls "
        f"of {hulls['random']:,} random members and trained {hulls['optimised']} against the "
        f"lemma's words; no gap and no margin was above {worst:.0e}. Times are of one mixer in "
        f"float32 with its projections: microseconds of one core, {where['device']}, torch "
        f"{where['torch']}, {where['threads']} thread (`python -m coefdyn.lab step-times`)."
    )


def _why(cell: Cell) -> str:
    if cell.mark == "open":
        return "Neither a construction nor a proof is known here."
    if cell.mark == "cannot":
        return f'<a href="by_hand.html#lemma-{cell.name.replace(" ", "-")}">{cell.name}</a>'
    words = NEIGHBOURS[carried_by(cell.task, cell.row)][0]
    place = PLACES.get(cell.task, "constructions")
    where = f'<a href="by_hand.html#by-hand-{place}">{html.escape(cell.name)}</a>'
    bound = "" if cell.mark == "can" else " Bound open."
    return f"By hand: {where}. It rests on {html.escape(words)}.{bound}"


SCRIPT = """
(() => {
  const board = document.currentScript.previousElementSibling;
  const [marks, length] = board.querySelectorAll("select");
  const body = board.querySelector("tbody");
  const rows = [...body.rows];
  const boxes = [...board.querySelectorAll("thead input")];
  const status = board.querySelector("[role=status]");
  const keep = () => {
    const asked = boxes.flatMap((box, at) => (box.checked ? [at] : []));
    const enough = marks.value.split(", ");
    for (const line of rows) {
      const cells = line.querySelectorAll("td");
      line.hidden = !asked.every((at) => enough.includes(cells[at].dataset.mark));
      const { first, growth } = cells[boxes.length].dataset;
      const bytes = Number(first) + Number(growth) * (Number(length.value) - 1);
      cells[boxes.length].textContent = bytes.toLocaleString("en");
      const time = cells[boxes.length + 1];
      const found = JSON.parse(time.dataset.times)[length.value] ?? ["not timed", "not timed"];
      time.querySelectorAll("b").forEach((place, at) => (place.textContent = found[at]));
    }
    const left = rows.filter((line) => !line.hidden).length;
    const named = asked.map((at) => boxes[at].value).join(", ");
    status.textContent = named === "" ? "" : `${left} of ${rows.length} rows: ${named}.`;
  };
  board.toggleAttribute("data-keeps", true);
  board.addEventListener("change", keep);
  keep();
  CHOOSES
})();
""".replace("CHOOSES", CHOOSES.strip())
