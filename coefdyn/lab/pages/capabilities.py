"""The table can | learns | why: every cell's mark, what one layer learned, and the reason.

Ticked tasks keep the rows that can do all of them. At a length of choice stand the bytes of a row's
state, by the library's own count in float32, and the time per token that ``step-times`` measured.
"""

from __future__ import annotations

import html
import json
from collections.abc import Mapping, Sequence

import torch

from coefdyn.lab.capabilities.cells import Cell, cells
from coefdyn.lab.capabilities.hand import WIDTH, Hand
from coefdyn.lab.capabilities.neighbours import NEIGHBOURS, carried_by
from coefdyn.lab.experiments.board import ROWS, tasks_of
from coefdyn.lab.pages.learned import (
    BOARD,
    FURTHER,
    LEARNS,
    SIGNS,
    Learned,
    Seeds,
    disagreement,
    in_more_steps,
    learned_seeds,
)
from coefdyn.lab.pages.scoreboard import CHOOSES
from coefdyn.lab.places import data_file

__all__ = ["capabilities_html", "found_note"]

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
        count, curves = seeds.count, seeds.curves
        learned = f"Learned by one layer: {seeds.count} seeds solved it."
    further = f" One more seed, five times the steps: {in_more_steps(more)}." if more else ""
    return (
        f'<td data-mark="{cell.mark}"><details><summary aria-label="{name}: {sign} {word} {count}">'
        f"<b>{sign}</b> <small>{word}</small> <small>{count}</small></summary>"
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
