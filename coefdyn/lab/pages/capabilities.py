"""The table can | learns | why: every cell's mark, what one layer learned, and the reason.

Ticked tasks keep the rows that can do all of them. The bytes of a row's state are those of the
library's own count, in float32, at a length of choice.
"""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence

import torch

from coefdyn.lab.capabilities.cells import Cell, cells
from coefdyn.lab.capabilities.hand import WIDTH, Hand
from coefdyn.lab.capabilities.neighbours import NEIGHBOURS, carried_by
from coefdyn.lab.experiments import EXPERIMENTS, get_experiment
from coefdyn.lab.experiments.board import ROWS, tasks_of
from coefdyn.lab.experiments.plan import STANDARD

__all__ = ["capabilities_html", "contradictions", "learned_seeds"]

#: the experiment of one mixer and a linear decoder, once it has runs
LEARNS = "one-layer"
#: a seed has solved a task above this accuracy
SOLVED = 0.999
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
    heads = "".join(
        f'<th scope="col"><label>{html.escape(task)} '
        f'<input class="cd-keep" type="checkbox" value="{html.escape(task)}"></label></th>'
        for task in tasks_of()
    )
    lines = "".join(
        f'<tr><th scope="row">{html.escape(row)}</th>'
        + "".join(_cell(found[task, row], kept.get((task, row))) for task in tasks_of())
        + _state_cell(row)
        + "</tr>"
        for row in ROWS
    )
    lengths = "".join(
        f"<option{' selected' if one == SHOWN else ''}>{one}</option>" for one in LENGTHS
    )
    return (
        '<div class="cd-scoreboard"><p class="cd-keep" role="group" aria-label="Rows to keep">'
        "<label>Tick tasks, and keep the rows that <select>"
        '<option value="can">can do them at every length tried</option>'
        '<option value="can, to a length">can, or so far</option></select></label> '
        f"<label>state after <select>{lengths}</select> tokens</label></p>"
        '<div class="cd-scroll" tabindex="0" role="region" '
        'aria-label="What one layer can do"><table><thead><tr><th scope="col">one layer</th>'
        f'{heads}<th scope="col">state, bytes</th></tr></thead><tbody>{lines}</tbody></table></div>'
        f'<p class="cd-keep" role="status"></p></div><script>{SCRIPT}</script>'
    )


def _state_cell(row: str) -> str:
    """Bytes of the state after ``SHOWN`` tokens, with what the script needs for other lengths."""
    mixer = Hand(row).mixer
    growth = NUMBER * mixer.state_growth()
    first = NUMBER * mixer.extend(torch.zeros(1, WIDTH).double())[1].numbers()
    total = first + growth * (SHOWN - 1)
    return f'<td data-first="{first}" data-growth="{growth}">{total:,}</td>'


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
    place = PLACES.get(cell.task, "constructions")
    where = f'<a href="by_hand.html#by-hand-{place}">{html.escape(cell.name)}</a>'
    bound = "" if cell.mark == "can" else " Bound open."
    return f"By hand: {where}. It rests on {html.escape(words)}.{bound}"


SCRIPT = """
(() => {
  const board = document.currentScript.previousElementSibling;
  const [marks, length] = board.querySelectorAll("select");
  const rows = [...board.querySelectorAll("tbody tr")];
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
    }
    const left = rows.filter((line) => !line.hidden).length;
    const named = asked.map((at) => boxes[at].value).join(", ");
    status.textContent = named === "" ? "" : `${left} of ${rows.length} rows: ${named}.`;
  };
  board.toggleAttribute("data-keeps", true);
  board.addEventListener("change", keep);
  keep();
})();
"""
