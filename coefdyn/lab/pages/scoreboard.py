"""The scoreboard as a sortable table: forecasts beside results, with a curve for each cell."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence

from coefdyn.lab.experiments import intervals, rule
from coefdyn.lab.experiments.board import FIRST_ROWS, ROWS, foreseen, learned, scores, tasks_of
from coefdyn.lab.experiments.forecasts import FORECASTS, LEARNS, TABLE
from coefdyn.lab.experiments.result import Outcome, Result
from coefdyn.lab.pages.markdown import table

__all__ = [
    "CHOOSES",
    "curves_svg",
    "foreseen_markdown",
    "reasons_markdown",
    "scoreboard_html",
    "scores_markdown",
]

#: meaning of a forecast's sign
WORDS = {"+": "learns", "-": "does not", "?": "no opinion"}
#: where the explorer opens at a row's design; without a preset, the row's chapter
CHAPTERS = {
    "softmax attention": "architectures/softmax_attention.html#cd?preset=softmax",
    "linear attention": "architectures/linear_attention.html#cd?preset=linear",
    "normalized attention": "architectures/normalized_attention.html#cd?preset=normalized",
    "GLA": "architectures/gla.html#cd?preset=gla",
    "Mamba-2": "architectures/mamba2.html#cd?preset=mamba2",
    "DeltaNet": "architectures/deltanet.html#cd?preset=deltanet",
    "Gated DeltaNet": "architectures/gated_deltanet.html#cd?preset=gated_deltanet",
    "mLSTM": "architectures/mlstm.html#cd?preset=mlstm",
    "DeltaProduct": "since/beyond_one_reflection.html",
}
#: kind of a row's memory, for the filter
KINDS = {row: "all" if row == "softmax attention" else "fixed" for row in ROWS}
#: width and height of a drawing of curves, in pixels, and the space of its labels
SIZE, MARGIN = (300, 120), (34, 18)
#: symbols in the reasons -> their form in HTML, and in Markdown
SYMBOLS = {
    "A_t": ("<i>A</i><sub>t</sub>", r"$\Evo{A_t}$"),
    "A = I": ("<i>A</i> = <i>I</i>", r"$\Evo{A_t} = I$"),
    "I - beta k k^T": ("<i>I</i> \u2212 \u03b2<i>kk</i><sup>T</sup>", r"$I - \beta k k^\top$"),
}


def scoreboard_html(result: Result) -> str:
    """One line per row, one column per task, shaded by accuracy; a cell unfolds its details.

    The last column counts the tasks that a row learned, the last line the rows that learned a
    task. A cell without four seeds says "not run". The script beside the table sorts it by a
    column, filters it, and shows the chosen cell below the table; without it cells unfold in place.

    Args:
        result: of the experiment "scoreboard".
    """
    tasks = list(tasks_of())
    heads = "".join(
        f'<th scope="col" aria-sort="none"><button type="button">{html.escape(name)}</button></th>'
        for name in (*tasks, "learned")
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
        f'<thead><tr><th scope="col">row</th>{heads}</tr></thead><tbody>{lines}</tbody>'
        f"<tfoot>{_foot(tasks, result)}</tfoot></table></div>"
        '<div class="cd-chosen" role="status">Choose a cell: its curves, its interval and the '
        f"reason of its forecast stand here.</div></div><script>{SCRIPT}</script>"
    )


def scores_markdown(result: Result) -> str:
    """Brier scores of the principles and of two baselines, or a note that there are none yet."""
    found = scores(result)
    if not found:
        return (
            "No cell has four finished seeds yet, so nobody has a score. The runs: "
            "`python -m coefdyn.lab run scoreboard --profile standard`."
        )
    rows = [[name, f"{score:.3f}"] for name, score in found.items()]
    body = table(["who foretold", "Brier score (lower is better, 0.25 is a coin)"], rows)
    cells = [one for one in result.variants if foreseen(one)]
    outcomes = [result.outcome(one) for one in cells]
    done = [one for one in outcomes if one is not None and _finished(one)]
    if len(done) == len(cells):
        return body
    tasks = ", ".join(dict.fromkeys(one.variant.facets["task"] for one in done))
    return (
        f"From {len(done)} of {len(cells)} cells so far (tasks: {tasks}). That says how "
        f"these went, and not yet how well anybody foretells.\n\n{body}"
    )


def foreseen_markdown(result: Result) -> str:
    """Table by task: rows that learned it, forecasts that came true, and the wrong ones.

    Rows whose forecasts do not count (see ``board.scores``) and unfinished cells are left out.

    Args:
        result: of the experiment "scoreboard".
    """
    rows = []
    for task in tasks_of():
        found = {row: result.one(task=task, row=row) for row in FIRST_ROWS}
        done = {row: learned(one) for row, one in found.items() if one and _finished(one)}
        said = {row: FORECASTS[task, row].word for row in done}
        wrong = [row for row in done if said[row] == ("-" if done[row] else "+")]
        opinions = sum(word != "?" for word in said.values())
        right = f"{opinions - len(wrong)} of {opinions}" if done else "not run"
        learners = f"{sum(done.values())} of {len(done)}" if done else "not run"
        rows.append([task, learners, right, ", ".join(wrong) or ("none" if done else "")])
    heads = ["task", "rows that learned it", "forecasts that came true", "wrong about"]
    return table(heads, rows)


def reasons_markdown() -> str:
    """Reasons for the principles' forecasts: one line per task."""
    rows = []
    for task, (_, why) in TABLE.items():
        for words, (_, markdown) in SYMBOLS.items():
            why = why.replace(words, markdown)
        rows.append([task, why])
    return table(["task", "because of principle"], rows)


def _finished(outcome: Outcome | None) -> bool:
    return outcome is not None and len(outcome.records) >= rule.MIN_SEEDS


def _line(row: str, tasks: Sequence[str], result: Result) -> str:
    name = html.escape(row)
    link = f'<a href="{html.escape(CHAPTERS[row])}">{name}</a>' if row in CHAPTERS else name
    found = [result.one(task=task, row=row) for task in tasks]
    cells = "".join(_cell(task, row, one) for task, one in zip(tasks, found, strict=True))
    count, words = _learned(found)
    total = f'<td data-value="{count}">{words}</td>'
    return f'<tr data-kind="{KINDS[row]}"><th scope="row">{link}</th>{cells}{total}</tr>'


def _foot(tasks: Sequence[str], result: Result) -> str:
    counts = "".join(
        f"<td>{_learned([result.one(task=task, row=row) for row in ROWS])[1]}</td>"
        for task in tasks
    )
    return f'<tr><th scope="row">learned by</th>{counts}<td></td></tr>'


def _learned(outcomes: Sequence[Outcome | None]) -> tuple[int, str]:
    """Number of finished cells that have learned, also in words."""
    done = [one for one in outcomes if one is not None and _finished(one)]
    count = sum(learned(one) for one in done)
    return count, f"{count} of {len(done)}" if done else "not run"


def _cell(task: str, row: str, outcome: Outcome | None) -> str:
    word = FORECASTS[task, row].word
    name = html.escape(f"{task}, {row}")
    said = f"The principles foretold: {WORDS[word]}. {_reason(task)}"
    if outcome is None or not _finished(outcome):
        return (
            f'<td data-value="-1"><details><summary aria-label="{name}: not run">not run</summary>'
            f"<div><p><b>{name}</b>: not run.</p><p>{said}</p></div></details></td>"
        )
    interval = intervals.t_interval(outcome.values()).within(0.0, 1.0)
    came = "" if word == "?" else "right" if (word == "+") == learned(outcome) else "wrong"
    mark = came or "open"
    steps = [step for step in outcome.steps_to() if step is not None]
    reached = f"{len(steps)} of {len(outcome.records)} seeds reach 0.9"
    if steps:
        reached += f", first after {min(steps)} steps"
    rate = outcome.records[0]["config"]["train"]["learning_rate"]
    more = (
        f"<p><b>{name}</b>: mean accuracy {interval.mean:.2f}, 90 % interval "
        f"[{interval.low:.2f}, {interval.high:.2f}], learning rate {rate:g}. {reached}.</p>"
        f"{curves_svg(outcome)}<p>{said}</p>"
    )
    shown = f'<b>{interval.mean:.2f}</b> <small class="cd-came">{mark}</small>'
    label = f'aria-label="{name} and its forecast: {interval.mean:.2f} {mark}"'
    return (
        f'<td data-value="{interval.mean:.4f}" data-came="{came}" '
        f'style="--cd-share:{100 * max(interval.mean, 0):.0f}%"><details>'
        f"<summary {label}>{shown}</summary><div>{more}</div></details></td>"
    )


def _reason(task: str) -> str:
    why = html.escape(TABLE[task][1])
    for words, (page, _) in SYMBOLS.items():
        why = why.replace(words, page)
    return f"Because of {'principles' if why[1] == ',' else 'principle'} {why}."


def curves_svg(outcome: Outcome) -> str:
    """Draw validation accuracy against steps as SVG, one line per seed.

    Args:
        outcome: of one variant.
    """
    (width, height), (left, below) = SIZE, MARGIN
    lines, last = [], 1
    for record in outcome.records:
        curve: Mapping[str, Sequence[float]] = record["metrics"]
        last = record["config"]["train"]["steps"]
        points = " ".join(
            f"{left + (width - left) * step / last:.1f},{6 + height * (1 - value):.1f}"
            for step, value in zip(curve["step"], curve["accuracy"], strict=True)
            if value is not None
        )
        lines.append(f'<polyline points="{points}" fill="none" stroke="currentColor"/>')
    words = html.escape(f"accuracy of {outcome.variant.name} against steps, a line per seed")
    ticks = "".join(
        f'<path d="M{left} {6 + height * (1 - at):.1f}H{width}" stroke-dasharray="{dash}"/>'
        f'<text x="{left - 6}" y="{10 + height * (1 - at):.1f}" text-anchor="end">{at:g}</text>'
        for at, dash in ((LEARNS, "3"), (0.5, "none"), (0.0, "none"))
    )
    return (
        f'<svg role="img" aria-label="{words}" viewBox="0 0 {width} {height + 6 + below}" '
        f'width="{width}" height="{height + 6 + below}">{ticks}{"".join(lines)}'
        f'<text x="{width}" y="{height + 4 + below}" text-anchor="end">{last} steps</text>'
        f'<text x="{left}" y="{height + 4 + below}">0</text></svg>'
    )


#: shows a cell that is chosen in a board's ``body`` below its table
CHOOSES = """
  board.toggleAttribute("data-live", true);
  const chosen = board.querySelector(".cd-chosen");
  body.addEventListener("click", (event) => {
    const cell = event.target.closest("summary")?.parentElement;
    if (!cell) return;
    event.preventDefault();
    const again = cell.open;
    for (const other of body.querySelectorAll("details[open]")) other.open = false;
    board.toggleAttribute("data-chosen", !again); // a second press lets go of the answer
    if (again) return;
    cell.open = true;
    chosen.replaceChildren(...cell.querySelector("div").cloneNode(true).childNodes);
    const design = cell.closest("tr").querySelector("th a");
    if (design) {
      const line = document.createElement("p");
      const link = design.cloneNode(true);
      link.textContent = `${design.textContent} in ${design.hash ? "the explorer" : "its chapter"}`;
      line.append(link);
      chosen.append(line);
    }
    chosen.scrollTop = 0;
    // The answer takes the lower half.
    const low = cell.getBoundingClientRect().bottom - innerHeight / 2;
    if (low > 0) scrollBy({ top: low, behavior: "instant" });
  });
"""
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
      for (const cell of line.querySelectorAll("td:not(:last-child)")) {
        cell.toggleAttribute("data-faint", came.value !== "" && cell.dataset.came !== came.value);
      }
    }
  });
  CHOOSES
})();
""".replace("CHOOSES", CHOOSES.strip())
