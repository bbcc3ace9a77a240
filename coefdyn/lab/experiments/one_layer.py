"""One mixer and a linear decoder on the nine tasks: what a design learns in the form of the proofs.

What a design *can* do is a statement about the output y of one layer, read by a fixed linear
decoder. These runs ask the same form what it *learns*: no feed-forward, no norm, no gate and no
skip, on the scoreboard's sizes and by its protocol. A mixer's output projection and the head after
it are one linear map. Without a norm the embedding starts at the size that a norm would give it.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import TYPE_CHECKING, Any

from coefdyn.lab.experiments import plan, scoreboard
from coefdyn.lab.experiments.base import Experiment
from coefdyn.lab.experiments.board import ROWS, STEPS, board_cell, row_model, tasks_of
from coefdyn.models import ModelConfig

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from coefdyn.lab.experiments.result import Result

__all__ = ["EXPERIMENT", "SEEDS", "bare_model", "claims", "figure", "load", "run"]

#: seeds that no other run has; the first of them tries the learning rates, as on the scoreboard
SEEDS = (400, 401, 402, 403)
#: a look at why a cell stays unsolved: one more seed, at the protocol's highest rate, then beyond
FURTHER_SEED, FURTHER_RATES = 404, (1e-2, 3e-2)
#: mixers with a term that adds their input to their output
WITH_SKIP = ("Mamba2", "LRU", "S6")


def bare_model(row: str) -> ModelConfig:
    """One layer of a row of the scoreboard with nothing around its mixer.

    Args:
        row: of ``board.ROWS``.
    """
    board = row_model(row)
    bare: dict[str, Any] = {} if row == "LRU" else {"output_gate": "none", "output_norm": "none"}
    if board.mixer in WITH_SKIP:
        bare["skip"] = False
    assert isinstance(board.options, dict), "a row of the scoreboard is one mixer"
    return replace(
        board,
        layers=1,
        mlp=None,
        norm="none",
        skip=False,
        embedding_std=1.0,
        options={**board.options, **bare},
    )


def _plan(steps: int = STEPS) -> plan.Plan:
    variants = [
        board_cell({"task": task, "row": row}, tasks_of()[task], bare_model(row), steps)
        for task, row in product(tasks_of(), ROWS)
    ]
    board = plan.standard_plan(variants, plan.standard_training(steps), pilot=1)
    return replace(board, seeds=SEEDS, pilot=SEEDS[:1])


def _further() -> plan.Plan:
    board, seeds = _plan(5 * STEPS), (FURTHER_SEED,)
    return replace(board, learning_rates=FURTHER_RATES, seeds=seeds, pilot=seeds)


def _quick() -> plan.Plan:
    cells = [one for one in _plan().variants if one.facets["task"] == "count"][:2]
    return plan.quick_plan([replace(one, train=None) for one in cells], 200)


def _draw(result: Result) -> Figure:
    return scoreboard.EXPERIMENT.draw(result)


EXPERIMENT = Experiment(
    id="one-layer",
    title="Nine small tasks: what one layer of each row learns, with nothing around it",
    source="this book",
    about="One mixer of width 64 and a linear decoder: no feed-forward, norm, gate or skip; heads, "
    "short convolution and positions as on the scoreboard. The embedding starts with standard "
    "deviation 1. Standard: the scoreboard's protocol, 2000 steps, four seeds of its own. Quick: "
    "softmax and linear attention on count, 200 steps. Paper: one more seed for 10 000 steps, at "
    "the rate 0.01 and, where it does not solve the task, 0.03; of cells that can be built and no "
    "seed of the standard profile solved.",
    plans={"quick": _quick, plan.STANDARD: _plan, "paper": _further},
    drawing=_draw,
)
run, load, figure, claims = EXPERIMENT.functions()
