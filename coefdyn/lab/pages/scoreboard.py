"""The scoreboard as a table to sort and filter: forecasts beside results, a curve behind a cell."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence

from coefdyn.lab.experiments import rule
from coefdyn.lab.experiments.forecasts import FORECASTS, LEARNS, TABLE
from coefdyn.lab.experiments.result import Outcome, Result
from coefdyn.lab.experiments.scoreboard import EXPERIMENT, ROWS, tasks_of
from coefdyn.lab.pages.markdown import table

__all__ = ["reasons_markdown", "scoreboard_html", "scores_markdown"]

#: what a forecast's sign says
WORDS = {"+": "learns", "-": "does not", "?": "no opinion"}
#: where the explorer opens at a row's design; the others have no preset
CHAPTERS = {
    "softmax attention": "architectures/softmax_attention.html#cd?preset=softmax",
    "linear attention": "architectures/linear_attention.html#cd?preset=linear",
    "normalized attention": "architectures/normalized_attention.html#cd?preset=normalized",
    "GLA": "architectures/gla.html#cd?preset=gla",
    "Mamba-2": "architectures/mamba2.html#cd?preset=mamba2",
    "DeltaNet": "architectures/deltanet.html#cd?preset=deltanet",
    "Gated DeltaNet": "architectures/gated_deltanet.html#cd?preset=gated_deltanet",
    "mLSTM": "architectures/mlstm.html#cd?preset=mlstm",
}
#: what a row keeps of the past, for the filter
KINDS = {row: "all" if row == "softmax attention" else "fixed" for row in ROWS}
#: width and height of a curve, in pixels
SIZE = (220, 90)


def scoreboard_html(result: Result) -> str:
    """One line per row, one column per task: result, interval and forecast; curves unfold.

    A cell without four seeds says "not run". The script beside the table sorts it by a column and
    filters its rows; without it the table is complete.

    Args:
        result: of the experiment "scoreboard".
    """
    tasks = list(tasks_of())
    heads = "".join(
        f'<th scope="col" aria-sort="none"><button type="button">{html.escape(task)}</button></th>'
        for task in tasks
    )
    lines = "".join(_line(row, tasks, result) for row in ROWS)
    return (
        '<div class="cd-scoreboard"><p role="group" aria-label="Rows"><label>Rows '
        '<select><option value="">all</option><option value="fixed">a state of fixed size</option>'
        '<option value="all">every past token</option></select></label> '
        '<label>of forecasts <select><option value="">everything</option>'
        '<option value="right">those that came true</option>'
        '<option value="wrong">those that did not</option></select></label></p>'
        f'<div class="cd-scroll" tabindex="0" role="region" aria-label="The scoreboard"><table>'
        f'<thead><tr><th scope="col">row</th>{heads}</tr></thead><tbody>{lines}</tbody></table>'
        f"</div></div><script>{SCRIPT}</script>"
    )


def scores_markdown(result: Result) -> str:
    """Brier scores of the principles and of two baselines, or that there are none yet."""
    scores = EXPERIMENT.scores(result)
    if not scores:
        return (
            "No cell has four finished seeds yet, so nobody has a score. The runs: "
            "`python -m coefdyn.lab run scoreboard --profile standard`."
        )
    rows = [[name, f"{score:.3f}"] for name, score in scores.items()]
    body = table(["who foretold", "Brier score (lower is better, 0.25 is a coin)"], rows)
    done = [one for one in result.outcomes() if len(one.records) >= rule.MIN_SEEDS]
    if len(done) == len(result.variants):
        return body
    tasks = ", ".join(dict.fromkeys(one.variant.facets["task"] for one in done))
    return (
        f"From {len(done)} of {len(result.variants)} cells so far (tasks: {tasks}). That says how "
        f"these went, and not yet how well anybody foretells.\n\n{body}"
    )


def reasons_markdown() -> str:
    """Why the principles foresee what they do: one line per task."""
    return table(
        ["task", "because of principle"], [[task, why] for task, (_, why) in TABLE.items()]
    )


def _line(row: str, tasks: Sequence[str], result: Result) -> str:
    name = html.escape(row)
    link = f'<a href="{html.escape(CHAPTERS[row])}">{name}</a>' if row in CHAPTERS else name
    cells = "".join(_cell(task, row, result.one(task=task, row=row)) for task in tasks)
    return f'<tr data-kind="{KINDS[row]}"><th scope="row">{link}</th>{cells}</tr>'


def _cell(task: str, row: str, outcome: Outcome | None) -> str:
    word = FORECASTS[task, row].word
    said = f"<small>forecast: {WORDS[word]}</small>"
    if outcome is None or len(outcome.records) < rule.MIN_SEEDS:
        return f'<td data-value="-1">not run<br>{said}</td>'
    interval = rule.t_interval(outcome.values())
    came = "" if word == "?" else "right" if (word == "+") == (interval.mean >= LEARNS) else "wrong"
    numbers = f"<b>{interval.mean:.2f}</b> <small>[{interval.low:.2f}, {interval.high:.2f}]</small>"
    steps = [step for step in outcome.steps_to() if step is not None]
    reached = f"{len(steps)} of {len(outcome.records)} seeds reach 0.9"
    if steps:
        reached += f", first after {min(steps)} steps"
    curves = (
        f"<details><summary>curves</summary>{_curves(outcome)}<small>{reached}</small></details>"
    )
    return (
        f'<td data-value="{interval.mean:.4f}" data-came="{came}">{numbers}<br>{said}{curves}</td>'
    )


def _curves(outcome: Outcome) -> str:
    """Validation accuracy against steps, one line per seed, as a drawing of its own."""
    width, height = SIZE
    lines = []
    for record in outcome.records:
        curve: Mapping[str, Sequence[float]] = record["metrics"]
        last = record["config"]["train"]["steps"]
        points = " ".join(
            f"{width * step / last:.1f},{height * (1 - value):.1f}"
            for step, value in zip(curve["step"], curve["accuracy"], strict=True)
            if value is not None
        )
        lines.append(f'<polyline points="{points}" fill="none" stroke="currentColor"/>')
    words = html.escape(f"accuracy of {outcome.variant.name} against steps, a line per seed")
    return (
        f'<svg role="img" aria-label="{words}" viewBox="0 0 {width} {height}" width="{width}" '
        f'height="{height}"><path d="M0 {height * 0.1}H{width}" stroke-dasharray="3"/>'
        f"{''.join(lines)}</svg>"
    )


SCRIPT = """
(() => {
  const board = document.currentScript.previousElementSibling;
  const [kind, came] = board.querySelectorAll("select");
  const body = board.querySelector("tbody");
  const number = (line, at) => Number(line.cells[at].dataset.value);
  board.querySelector("thead").addEventListener("click", (event) => {
    const head = event.target.closest("th");
    if (!event.target.closest("button")) return;
    const at = head.cellIndex;
    const down = head.getAttribute("aria-sort") !== "descending";
    for (const other of head.parentElement.cells) other.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", down ? "descending" : "ascending");
    const sign = down ? -1 : 1;
    body.append(...[...body.rows].sort((a, b) => sign * (number(a, at) - number(b, at))));
  });
  board.addEventListener("change", () => {
    for (const line of body.rows) {
      line.hidden = kind.value !== "" && line.dataset.kind !== kind.value;
      for (const cell of line.querySelectorAll("td")) {
        cell.toggleAttribute("data-faint", came.value !== "" && cell.dataset.came !== came.value);
      }
    }
  });
})();
"""
