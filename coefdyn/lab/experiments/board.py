"""The scoreboard's rows, tasks and scores; a reader's own design is judged on it, too."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from coefdyn.lab.experiments import rule
from coefdyn.lab.experiments.forecasts import (
    FORECASTS,
    LEARNS,
    base_rate_score,
    brier,
    probability,
    state_size_forecast,
)
from coefdyn.lab.experiments.plan import Variant, quick_model, standard_training
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
from coefdyn.models import ModelConfig

__all__ = [
    "FIRST_ROWS",
    "HEADS",
    "ROWS",
    "STEPS",
    "board_cell",
    "foreseen",
    "learned",
    "row_model",
    "scores",
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


def scores(result: Result) -> dict[str, float]:
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


def _state_sizes() -> dict[str, float]:
    """Numbers that one layer keeps of the past, by row; infinite where it keeps every token."""
    width, sizes = 64, {}
    for row, (_, options, _) in ROWS.items():
        heads = options.get("n_heads", width)
        n = options.get("key_dim", width // heads)
        sizes[row] = float(heads * n * (width // heads))
    return {**sizes, "softmax attention": float("inf"), "LRU": 2.0 * width}
