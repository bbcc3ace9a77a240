"""A comparison of a reader's designs as one page that needs nothing else."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from typing import Any

from coefdyn.lab.experiments.result import Result
from coefdyn.lab.headline.runs import PILOT
from coefdyn.lab.pages.scoreboard import curves_svg

__all__ = ["judged_html", "state_in_words"]

STYLE = """
:root { color-scheme: light dark }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 70rem; margin: 2rem auto; padding: 0 1rem }
.scroll { overflow-x: auto }
table { border-collapse: collapse }
th, td { padding: .3rem .7rem; text-align: left; vertical-align: top; border-top: 1px solid #8888 }
td { font-variant-numeric: tabular-nums }
figure { display: inline-block; margin: .5rem 1rem .5rem 0 }
svg { max-width: 100%; height: auto; stroke: #888; stroke-width: 1; color: CanvasText }
svg text { fill: CanvasText; stroke: none; font-size: 11px }
small { display: block; opacity: .8 }
"""
HEADS = (
    "design", "solved", "accuracy", "each seed and the interval of the share", "steps to .9",
    "learning rate", "parameters", "state", "ms a step",
)  # fmt: skip
#: width and height of a strip from 0 to 1, and its margin, in pixels
STRIP = (160, 24, 6)


def judged_html(
    result: Result,
    mine: str,
    *,
    rows: Sequence[dict[str, Any]],
    verdicts: Sequence[tuple[str, str, str]],
    limits: Sequence[str],
) -> str:
    """The page: comparisons, limits, a table and curves per task, protocol and provenance.

    Args:
        result: the finished runs; its variants have the facets "task" and "design".
        mine: the design that the others are compared with.
        rows, verdicts, limits: those of a ``Comparison`` of ``coefdyn.lab.judge``.
    """
    seeds = len(result.plan.seeds)
    title = html.escape(f"{mine}, judged on {seeds} seeds")
    said = "".join(
        f"<li><b>{html.escape(status)}</b>: {html.escape(words)}<small>{html.escape(told)}</small>"
        for words, status, told in verdicts
    )
    limited = "".join(f"<li>{html.escape(one)}" for one in limits)
    tasks = dict.fromkeys(row["task"] for row in rows)
    parts = "".join(
        _task(task, [row for row in rows if row["task"] == task], result) for task in tasks
    )
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" '
        f'content="width=device-width"><title>{title}</title><style>{STYLE}</style>'
        f"<h1>{title}</h1><ul>{said}</ul><h2>What {seeds} seeds cannot decide</h2>"
        f"<ul>{limited}</ul>{parts}<h2>How it was judged</h2>"
        f"<p>{html.escape(_protocol(result))}</p>"
        f"<p>{html.escape(result.caption())}</p></html>"
    )


def _protocol(result: Result) -> str:
    models = [variant.model for variant in result.variants]
    sizes = dict.fromkeys(
        f"{one.layers} layers of width {one.width}"
        + (f" with a SwiGLU of {one.mlp}" if one.mlp else "")
        for one in models
    )
    return (
        f"Around each design: {' or '.join(sizes)}. Learning rates start at "
        "three a factor of about 3 apart; the pilot seeds "
        f"{' and '.join(map(str, PILOT))}, which are never judged, search until both "
        "neighbours of the best are no better, or it solves the task, with at most seven rates. "
        "A seed has solved a task from an accuracy of .9 on; shares have exact 95 % intervals, "
        "differences of shares score intervals, means Student's, cut at 0 and 1. No threshold was "
        "registered before the runs, so all of it is exploratory. State numbers are of all layers, "
        "per sequence; parameters those of the blocks."
    )


def _task(task: str, rows: list[dict[str, Any]], result: Result) -> str:
    heads = "".join(f'<th scope="col">{one}' for one in HEADS)
    lines = "".join(f"<tr>{_cells(row)}" for row in rows)
    found = [result.one(task=task, design=row["design"]) for row in rows]
    curves = "".join(
        f"<figure>{curves_svg(one)}<figcaption>{html.escape(one.variant.facets['design'])}"
        "</figcaption></figure>"
        for one in found
        if one is not None and one.records
    )
    return (
        f"<h2>{html.escape(task)}</h2><p>A guess gives {rows[0]['guess']:.2f}.</p>"
        f'<div class="scroll" tabindex="0"><table><thead><tr>{heads}</thead><tbody>{lines}</tbody>'
        f"</table></div>{curves}"
    )


def _cells(row: Mapping[str, Any]) -> str:
    name = f'<th scope="row">{html.escape(row["design"])}'
    cost = f"<td>{row['parameters']}<td>{html.escape(state_in_words(row))}"
    if not row["seeds"]:
        return f'{name}<td colspan="5">not run{cost}<td>'
    share, mean = row["share"], row["accuracy"]
    reached = sorted(step for step in row["steps"] if step is not None)
    late = len(row["steps"]) - len(reached)
    steps = ", ".join([*map(str, reached), *([f"{late} never"] if late else [])])
    mark = "bracketed" if row["bracketed"] else "not bracketed: nothing is decided"
    nan = f"<small>{row['diverged']} diverged</small>" if row["diverged"] else ""
    interval = "" if row["seeds"] < 2 else f"<small>[{mean.low:.2f}, {mean.high:.2f}]</small>"
    return (
        f"{name}<td>{row['solved']} of {row['seeds']}"
        f"<small>[{share.low:.2f}, {share.high:.2f}]</small>{nan}"
        f"<td>{mean.mean:.3f}{interval}<td>{_strip(row)}<td>{steps}"
        f"<td>{row['learning_rate']:g}<small>{mark}</small>{cost}"
        f"<td>{1000 * row['seconds_per_step']:.1f}"
    )


def _strip(row: Mapping[str, Any]) -> str:
    """Accuracies as points, and the interval of the share of seeds that solve it as a bar."""
    (width, height, left), share = STRIP, row["share"]

    def at(value: float) -> str:
        return f"{left + (width - 2 * left) * value:.1f}"

    points = "".join(
        f'<circle cx="{at(value)}" cy="7" r="3" fill="none" stroke="currentColor"/>'
        for value in row["values"]
        if value == value
    )
    words = (
        f"accuracies {', '.join(f'{value:.2f}' for value in row['values'])}; share "
        f"{share.low:.2f} to {share.high:.2f}"
    )
    return (
        f'<svg role="img" aria-label="{words}" viewBox="0 0 {width} {height}" width="{width}" '
        f'height="{height}"><path d="M{at(0)} {height - 1}H{at(1)}"/>{points}'
        f'<path d="M{at(share.low)} 17H{at(share.high)}" stroke="currentColor" stroke-width="3"/>'
        "</svg>"
    )


def state_in_words(row: Mapping[str, Any]) -> str:
    """The numbers of a state in words, from a row of ``Comparison.rows``."""
    if row["state"] is not None:
        return f"{row['state']} numbers"
    return f"{row['state_growth']} a token" if row["state_growth"] else "not known"
