"""Nine small tasks times every row: what a design can learn, on one budget."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from coefdyn.lab.experiments import rule
from coefdyn.lab.experiments.base import Experiment
from coefdyn.lab.experiments.figures import new_figure
from coefdyn.lab.experiments.forecasts import (
    FORECASTS,
    LEARNS,
    base_rate_score,
    brier,
    probability,
    state_size_forecast,
)
from coefdyn.lab.experiments.plan import (
    STANDARD,
    Plan,
    Variant,
    quick_model,
    standard_plan,
    standard_training,
)
from coefdyn.lab.experiments.result import Outcome, Result
from coefdyn.lab.tasks import (
    ForgetConfig,
    LongMemoryConfig,
    MajorityConfig,
    MqarConfig,
    OverwriteConfig,
    ParityConfig,
    PermutationConfig,
    PositionConfig,
    SelectiveCopyingConfig,
    TaskConfig,
)
from coefdyn.lab.training import TrainConfig
from coefdyn.models import ModelConfig

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = [
    "EXPERIMENT",
    "FIRST_ROWS",
    "ROWS",
    "board_cell",
    "claims",
    "figure",
    "foreseen",
    "learned",
    "load",
    "row_model",
    "run",
    "tasks_of",
]

HEADS = {"n_heads": 4, "short_convolution": 4}
#: row -> the mixer, its options, and the positions of its model; what is not said is its authors'
ROWS: dict[str, tuple[str, dict[str, Any], str]] = {
    "softmax attention": ("SoftmaxAttention", HEADS, "rotary"),
    "linear attention": ("LinearAttention", HEADS, "rotary"),
    "normalized attention": ("NormalizedAttention", HEADS, "rotary"),
    "GLA": ("GLA", HEADS, "none"),
    "Mamba-2": ("Mamba2", {**HEADS, "key_dim": 16}, "none"),
    "DeltaNet": ("DeltaNet", HEADS, "none"),
    "Gated DeltaNet": ("GatedDeltaNet", HEADS, "none"),
    "mLSTM": ("MLSTM", HEADS, "none"),
    "LRU": ("LRU", {}, "none"),
    "S6": ("S6", {"key_dim": 4}, "none"),
    "DeltaProduct": ("DeltaProduct", HEADS, "none"),
}
#: what claims about every row speak of; DeltaProduct came later, as the row that can reflect
FIRST_ROWS = tuple(row for row in ROWS if row != "DeltaProduct")
#: one head per channel makes whole matrices slow, and so do long sequences: chunk by chunk
ONE_PER_CHANNEL = ("S6", "LRU")
#: steps of the standard profile; the long task has shorter batches
STEPS = 2000
#: beside the board: the long memory with a quarter of its noise, for the rows that a claim compares
NEARER, NOISE, NEARER_ROWS = "memory through 64 tokens", 64, ("Mamba-2", "LRU")


def tasks_of() -> dict[str, TaskConfig]:
    """The nine tasks by name, from what most rows should learn to what few can."""
    return {
        "recall": MqarConfig.quick(),
        "overwrite": OverwriteConfig.quick(),
        "copy": SelectiveCopyingConfig.quick().with_changes({"train_examples": 6_400}),
        "forget": ForgetConfig.quick(),
        "position": PositionConfig.quick(),
        "count": MajorityConfig.quick(),
        "parity": ParityConfig.quick(),
        "S3": PermutationConfig.quick(),
        "long memory": LongMemoryConfig.quick(),
    }


def foreseen(variant: Variant) -> bool:
    """Return whether it is a cell of the board whose forecast came before every run."""
    return variant.facets["row"] in FIRST_ROWS and variant.facets["task"] in tasks_of()


def learned(outcome: Outcome) -> bool:
    """Mean accuracy of at least ``LEARNS``: what a forecast is about."""
    return outcome.accuracy >= LEARNS


class Scoreboard(Experiment):
    id = "scoreboard"
    title = "Nine small tasks: what each row learns on one budget, and who foresaw it"
    source = "this book"
    profiles = ("live", "quick", "standard", "paper")
    about = (
        "Two layers, width 64, 4 heads, SwiGLU 128, a short convolution of width 4 wherever the "
        "row has one, rotary positions for the three attentions with A = I; everything else as "
        "the row's authors have it, so DeltaProduct has two factors per token and beta up to 2. "
        "S6 and LRU have one head per channel. Standard: 2000 steps, and beside "
        "the board the long memory with 64 tokens of noise for Mamba-2 and LRU, which learn "
        "nothing with 256. "
        "The forecasts were committed before the first run. Quick: 20 steps of each cell, a smoke "
        "test. Live: softmax and linear attention on recall, 200 steps. Paper: 10 000 steps."
    )

    def plan(self, profile: str) -> Plan:
        cells = [(task, row) for task in tasks_of() for row in ROWS]
        if profile == "live":
            cells = [("recall", "softmax attention"), ("recall", "linear attention")]
        variants = [_variant(*cell, profile) for cell in cells]
        if profile == STANDARD:
            variants += map(_nearer, NEARER_ROWS)
        if profile in (STANDARD, "paper"):
            return standard_plan(variants, standard_training(STEPS), pilot=1)
        train = TrainConfig(
            steps=200 if profile == "live" else 20,
            batch=32,
            final_learning_rate=0.0,
            evaluate_every=100,
        )
        return Plan(variants=tuple(variants), train=train, learning_rates=(3e-3,))

    def draw(self, result: Result) -> Figure:
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

    def scores(self, result: Result) -> dict[str, float]:
        """Brier scores over the finished cells: the principles' forecasts and two baselines.

        DeltaProduct's cells do not count: its forecasts were made before its own runs, but when
        six tasks of the other rows were known.
        "principles, with an opinion" leaves out the cells where they have none. Lower is better;
        0.25 is what a coin gets. Empty while no cell is finished.
        """
        found = {
            (one.variant.facets["task"], one.variant.facets["row"]): learned(one)
            for one in result.outcomes()
            if len(one.records) >= rule.MIN_SEEDS and foreseen(one.variant)
        }
        if not found:
            return {}
        opinions = {cell: FORECASTS[cell].word for cell in found if cell in FORECASTS}
        said = {cell: seen for cell, seen in found.items() if opinions.get(cell, "?") != "?"}
        sizes = state_size_forecast(_state_sizes())
        scores = {
            "principles": brier(found, {cell: probability(cell) for cell in found}),
            "base rate": base_rate_score(found),
            "state size alone": brier(found, {cell: sizes[cell[1]] for cell in found}),
        }
        if said:
            scores["principles, with an opinion"] = brier(
                said, {cell: probability(cell) for cell in said}
            )
            scores["base rate of these cells"] = base_rate_score(said)
        return scores


def board_cell(
    facets: dict[str, str], task: TaskConfig, model: ModelConfig, steps: int = STEPS
) -> Variant:
    """A cell of the board at the standard size: one model on one task, by the board's protocol.

    Args:
        facets: name the cell.
        task: which sequences; above 100 tokens in shorter batches, and chunk by chunk.
        model: which network.
        steps: optimiser steps.
    """
    long = task.seq_len > 100
    by_chunks = long or model.mixer in ONE_PER_CHANNEL
    train = standard_training(steps, batch=8 if long else 32)
    method = "chunked" if by_chunks else None
    return Variant(facets=facets, task=task, model=model, train=train, method=method)


def row_model(row: str) -> ModelConfig:
    """The model of a row of the board."""
    mixer, options, position = ROWS[row]
    return replace(quick_model(dict(options), position=position), mixer=mixer)


def _variant(task: str, row: str, profile: str) -> Variant:
    steps = 5 * STEPS if profile == "paper" else STEPS
    found = board_cell({"task": task, "row": row}, tasks_of()[task], row_model(row), steps)
    return found if profile in (STANDARD, "paper") else replace(found, train=None)


def _nearer(row: str) -> Variant:
    """The cell of the long memory with less noise, at its own learning rate."""
    board = _variant("long memory", row, STANDARD)
    task = board.task.with_changes({"seq_len": NOISE + 3})  # the mark, the value, the question
    facets = {"task": NEARER, "row": row}
    return replace(board, facets=facets, task=task, train=standard_training(STEPS))


def _state_sizes() -> dict[str, float]:
    """Numbers that one layer keeps of the past, by row; infinite where it keeps every token."""
    width, sizes = 64, {}
    for row, (_, options, _) in ROWS.items():
        heads = options.get("n_heads", width)
        n = options.get("key_dim", width // heads)
        sizes[row] = float(heads * n * (width // heads))
    return {**sizes, "softmax attention": float("inf"), "LRU": 2.0 * width}


EXPERIMENT = Scoreboard()
run, load, figure, claims = EXPERIMENT.functions()
