"""Forecasts of the six principles for the scoreboard, written before it was run.

A forecast says of a row and a task: it learns, it does not, or no opinion. "Learns" means a mean
test accuracy of at least 0.9 within the standard budget. Those of the row DeltaProduct were written
before its own runs, when six tasks of the other rows were known. The reasons name the principle:

1  a nonlinear readout keeps every token, a linear one a sum of fixed size
2  a readout with a wide zero set leaves tokens out
3  A_t other than I, or an embedding, tells positions
4  the structure of A_t says what can be done to what is stored: shrink, erase by key, flip
5  the size of b_j decides whether training starts
6  eta and A_t together keep sums in range

The score is Brier's: the mean of (probability - what came)^2 over the cells.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

__all__ = [
    "FORECASTS",
    "LEARNS",
    "PROBABILITY",
    "Forecast",
    "base_rate_score",
    "brier",
    "probability",
    "state_size_forecast",
]

#: mean test accuracy from which on a row has learned a task
LEARNS = 0.9
#: what a word is worth: + learns, - does not, ? no opinion
PROBABILITY = {"+": 0.9, "-": 0.1, "?": 0.5}

Cell = tuple[str, str]


@dataclass(frozen=True)
class Forecast:
    """A word of ``PROBABILITY`` and the reason."""

    word: str
    reason: str


#: the rows in the order of the words below
ROWS = (
    "softmax attention", "linear attention", "normalized attention", "GLA", "Mamba-2", "DeltaNet",
    "Gated DeltaNet", "mLSTM", "LRU", "S6", "DeltaProduct",
)  # fmt: skip

#: task -> one word per row, and the reasons
TABLE: dict[str, tuple[str, str]] = {
    "recall": (
        "+??++++?--+",
        "1, 4: four pairs fit into 16 x 16 numbers per head, and sums of few keys can be told "
        "apart; linear attention's positive features and the mLSTM's floor may blur them; LRU's "
        "eigenvalues read no token, so it cannot store by key; S6's channels share keys of 4",
    ),
    "overwrite": (
        "?--??++?-?+",
        "4: the last value wins only where older writes shrink or are erased; A = I with a linear "
        "readout adds up all three values, and rotary positions turn rather than shrink; softmax "
        "can prefer what stands near; LRU shrinks, but stores nothing by key",
    ),
    "copy": (
        "+-??+?+?-+?",
        "2, 3: fillers have to be left out and places counted; exp does the first, and Delta near "
        "0 does it where the write reads the token; a sum without zero set keeps the fillers",
    ),
    "forget": (
        "?--++-++---",
        "4: a reset needs an A_t that can shrink everything at once: a decay that reads the token; "
        "I - beta k k^T erases one key, I none, LRU none on demand; S6's state is small",
    ),
    "position": (
        "+??-----+?-",
        "3: eight places back is beyond two convolutions of width 4; rotary positions and softmax "
        "can point there; LRU's complex eigenvalues make delays; decays of one sign do not",
    ),
    "count": (
        "++?????????",
        "6: a row sum makes averages, and the sign of an average is the majority; the others need "
        "an eigenvalue at 1, which they can learn or not",
    ),
    "parity": (
        "----------+",
        "4: a sign has to flip with the token, so A_t needs an eigenvalue below 0 that reads the "
        "token; beta stays below 1 here, and LRU's eigenvalues read nothing; DeltaProduct's beta "
        "reaches 2",
    ),
    "S3": (
        "----------+",
        "4: products that do not commute need A_t that do not commute; reflections would do, and "
        "beta below 1 makes no reflection; two reflections of DeltaProduct make a rotation",
    ),
    "long memory": (
        "+--++?++???",
        "2, 4: 256 tokens of the values' kind have to be left out; exp does it, and so does a "
        "decay that reads the token and stays at 1; sums over all of them drown the value",
    ),
}
FORECASTS: dict[Cell, Forecast] = {
    (task, row): Forecast(word, reason)
    for task, (words, reason) in TABLE.items()
    for row, word in zip(ROWS, words, strict=True)
}


def probability(cell: Cell) -> float:
    """The forecast of a cell (task, row) as the probability that it learns; .5 without one."""
    known = FORECASTS.get(cell)
    return PROBABILITY["?" if known is None else known.word]


def brier(found: Mapping[Cell, bool], said: Mapping[Cell, float]) -> float:
    """Mean of (p - outcome)^2 over the cells that were found; 0 is perfect, 1 the worst.

    Raises:
        ValueError: for no cell, or a probability outside [0, 1].
    """
    if not found:
        raise ValueError("a Brier score needs at least one cell.")
    wrong = {cell: p for cell, p in said.items() if not 0 <= p <= 1}
    if wrong:
        raise ValueError(f"probabilities lie in [0, 1]; got {wrong}.")
    return sum((said[cell] - float(seen)) ** 2 for cell, seen in found.items()) / len(found)


def base_rate_score(found: Mapping[Cell, bool]) -> float:
    """Brier score of the share that learned as every cell's forecast: a hindsight baseline."""
    rate = sum(found.values()) / len(found)
    return brier(found, dict.fromkeys(found, rate))


def state_size_forecast(sizes: Mapping[str, float]) -> dict[str, float]:
    """Row -> probability by the rank of its state alone: .1 for the smallest, .9 for the largest.

    Rows of one size share the mean of their ranks.
    """
    order = sorted(sizes.values())
    last = max(1, len(order) - 1)

    def rank(size: float) -> float:
        places = [place for place, other in enumerate(order) if other == size]
        return sum(places) / len(places)

    return {row: 0.1 + 0.8 * rank(size) / last for row, size in sizes.items()}
