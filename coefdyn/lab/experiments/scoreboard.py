"""Nine small tasks times every row: what a design can learn, on one budget."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import TYPE_CHECKING

from coefdyn.lab.experiments import plan
from coefdyn.lab.experiments.base import Experiment
from coefdyn.lab.experiments.board import ROWS, STEPS, board_cell, row_model, tasks_of
from coefdyn.lab.experiments.figures import new_figure
from coefdyn.lab.experiments.result import Result

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["EXPERIMENT", "claims", "figure", "load", "run"]

#: beside the board: the long memory with a quarter of its noise, for the rows that a claim compares
NEARER, NOISE, NEARER_ROWS = "memory through 64 tokens", 64, ("Mamba-2", "LRU")


def _variant(task: str, row: str, steps: int = STEPS) -> plan.Variant:
    return board_cell({"task": task, "row": row}, tasks_of()[task], row_model(row), steps)


def _nearer(row: str) -> plan.Variant:
    """The cell of the long memory with less noise, at its own learning rate."""
    board = _variant("long memory", row)
    task = board.task.with_changes({"seq_len": NOISE + 3})  # the mark, the value, the question
    facets = {"task": NEARER, "row": row}
    return replace(board, facets=facets, task=task, train=plan.standard_training(STEPS))


def _quick() -> plan.Plan:
    rows = ("softmax attention", "linear attention")
    return plan.quick_plan([replace(_variant("recall", row), train=None) for row in rows], 200)


def _cells(steps: int = STEPS, *, nearer: bool = False) -> plan.Plan:
    variants = [_variant(*cell, steps) for cell in product(tasks_of(), ROWS)]
    variants += [_nearer(row) for row in NEARER_ROWS * nearer]
    return plan.standard_plan(variants, plan.standard_training(STEPS), pilot=1)


def _draw(result: Result) -> Figure:
    """A table of cells: mean accuracy by shade, and the number."""
    drawn, (axes,) = new_figure(width=9.0, height=4.2)
    tasks = [task for task in tasks_of() if result.find(task=task)]
    rows = list(dict.fromkeys(v.facets["row"] for v in result.variants))
    cells = [[result.one(task=task, row=row) for task in tasks] for row in rows]
    shade = [[float("nan") if one is None else one.accuracy for one in line] for line in cells]
    axes.imshow(shade, vmin=0, vmax=1, cmap="Blues", aspect="auto")
    for y, line in enumerate(cells):
        for x, one in enumerate(line):
            words = "not run" if one is None else f"{one.accuracy:.2f}"
            dark = one is not None and one.accuracy > 0.6
            axes.text(x, y, words, ha="center", va="center", fontsize="small",
                      color="white" if dark else "black")  # fmt: skip
    axes.set_xticks(range(len(tasks)), tasks, fontsize="small")
    axes.set_yticks(range(len(rows)), rows, fontsize="small")
    axes.set_title(f"test accuracy, mean over seeds ({result.profile})", loc="left")
    return drawn


EXPERIMENT = Experiment(
    id="scoreboard",
    title="Nine small tasks: what each row learns on one budget, and who foresaw it",
    source="this book",
    about="Two layers, width 64, 4 heads, SwiGLU 128, a short convolution of width 4 wherever the "
    "row has one, rotary positions for the three attentions with A = I; everything else as the "
    "row's authors have it, so DeltaProduct has two factors per token and beta up to 2. S6 and LRU "
    "have one head per channel. Standard: 2000 steps, and beside the board the long memory with 64 "
    "tokens of noise for Mamba-2 and LRU, which learn nothing with 256. The forecasts were "
    "committed before the first run. Quick: softmax and linear attention on recall, 200 steps. "
    "Paper: 10 000 steps.",
    plans={
        "quick": _quick,
        plan.STANDARD: lambda: _cells(nearer=True),
        "paper": lambda: _cells(5 * STEPS),
    },
    drawing=_draw,
)
run, load, figure, claims = EXPERIMENT.functions()
