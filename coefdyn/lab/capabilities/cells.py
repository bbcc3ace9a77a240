"""One entry per cell, checked here: what each of the scoreboard's rows can do on each task.

- *can*: one set of weights has a margin of at least ``LEAST`` at the task's length and at 64, 512
  and 4096 tokens, on all words tried. ``far`` asks it of a word of 2^20 tokens, too, of a row that
  can be read piece by piece.
- *cannot*: no member of the large class has a positive margin at the scoreboard's length.
- *to a length*: a member decides all words tried of the scoreboard's length in float32, and of no
  other member is it known that it keeps a margin.
- *open*: the rest.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch

from coefdyn.lab.capabilities import following, keyed, placed, selective
from coefdyn.lab.capabilities.certificate import gaps, optimised
from coefdyn.lab.capabilities.check import BATCHES, LENGTHS, decides, measure
from coefdyn.lab.capabilities.hand import Member
from coefdyn.lab.capabilities.lemmas import LEMMAS, witness
from coefdyn.lab.capabilities.words import far_words, own_length, random_words
from coefdyn.lab.experiments.board import ROWS, tasks_of

__all__ = [
    "CONSTRUCTIONS",
    "LEAST",
    "MEETS",
    "Cell",
    "cells",
    "certify",
    "check",
    "construct",
    "far",
    "rounded",
]

#: least margin of *can*, and largest gap between hulls that count as meeting
LEAST, MEETS = 0.01, 1e-9
#: tokens at a time on the longest words
PIECE = 8192
EXACT = ("GLA", "DeltaNet", "Gated DeltaNet", "DeltaProduct")
SUMS = ("softmax attention", "linear attention", "normalized attention", "GLA", "Mamba-2",
        "DeltaNet", "Gated DeltaNet", "LRU", "DeltaProduct")  # fmt: skip
WRITES = ("GLA", "Mamba-2", "DeltaNet", "Gated DeltaNet", "mLSTM", "DeltaProduct")
#: task -> its construction, the rows that it serves at every length, and those to a length
CONSTRUCTIONS = {
    "recall": (keyed.recall, (*WRITES, "S6"), SUMS[:3]),
    "overwrite": (keyed.overwrite, EXACT,
                  ("softmax attention", "normalized attention", "Mamba-2", "mLSTM")),
    "copy": (following.copy, ("DeltaProduct",), ()),
    "forget": (keyed.forget, ("GLA", "Mamba-2", "Gated DeltaNet", "mLSTM"),
               ("softmax attention", "normalized attention")),
    "position": (following.position, ("softmax attention", "GLA", "LRU", "DeltaProduct"), ()),
    "count": (following.count, ("mLSTM",), (*SUMS, "S6")),
    "parity": (following.parity, ("DeltaProduct",), ()),
    "S3": (following.product, ("DeltaProduct",), ()),
    "long memory": (keyed.long_memory, (*SUMS[:2], *WRITES, "S6"), ("normalized attention",)),
}  # fmt: skip


#: cells to a length with a construction of their own
OWN = {
    ("overwrite", "linear attention"): placed.later_weighs_more,
    ("forget", "linear attention"): placed.behind_the_reset,
    ("forget", "DeltaNet"): placed.mark_the_old,
    ("forget", "DeltaProduct"): placed.mark_the_old,
    ("long memory", "LRU"): placed.remember_by_filter,
}


@dataclass(frozen=True, kw_only=True)
class Cell:
    """An entry of the table.

    mark: "can", "cannot", "to a length" or "open".
    name: of the construction or the lemma, empty where it is open.
    """

    task: str
    row: str
    mark: str
    name: str


def cells() -> Iterator[Cell]:
    """All cells, task by task."""
    closed = {cell: name for name, found in LEMMAS.items() for cell in found}
    for task in tasks_of():
        build, always, some = CONSTRUCTIONS[task]
        for row in ROWS:
            own = OWN.get((task, row))
            marks = {"can": row in always, "to a length": row in some or own is not None,
                     "cannot": (task, row) in closed}  # fmt: skip
            held = [mark for mark, holds in marks.items() if holds]
            assert len(held) < 2, f"{task}, {row}: {' and '.join(held)}"
            mark = held[0] if held else "open"
            built = "" if mark == "open" else (own or build).__name__
            name = closed.get((task, row), built)
            yield Cell(task=task, row=row, mark=mark, name=name)


def construct(task: str, row: str) -> Member:
    """The member that a cell marked *can* or *to a length* is about.

    Raises:
        ValueError: for a cell without one.
    """
    build, always, some = CONSTRUCTIONS[task]
    if (task, row) in OWN:
        return OWN[task, row](row)
    if row not in (*always, *some):
        raise ValueError(f"{row} has no construction for {task}.")
    return getattr(selective, build.__name__)(row) if row == "S6" else build(row)


def rounded(cell: Cell) -> tuple[float, ...]:
    """Accuracy of a cell's construction in float32 and bfloat16, on random words of its length.

    Empty for a cell without one.
    """
    if cell.mark in ("cannot", "open"):
        return ()
    words = random_words(cell.task, own_length(cell.task), BATCHES[0])
    kinds = (torch.float32, torch.bfloat16)
    return tuple(measure(construct(cell.task, cell.row), words, kind)[0] for kind in kinds)


def certify(cell: Cell, *, random: int = 60, optimise: int = 1) -> tuple[float, float]:
    """Largest gap between hulls and largest margin that a program finds for a cell of a lemma.

    Args:
        cell: one of ``cells()`` that is marked *cannot*.
        random: members of the large class whose hulls are compared.
        optimise: members that are optimised against the words.

    Raises:
        AssertionError: where one of the two is above ``MEETS``.
    """
    shown = witness(cell.name, cell.task, cell.row)
    gap = gaps(cell.row, shown, random)
    margin = max(optimised(cell.row, shown, seed) for seed in range(optimise))
    assert gap <= MEETS >= margin, f"{cell}: hulls {gap:.1e} apart, margin {margin:.1e}"
    return gap, margin


def check(cell: Cell) -> str:
    """Check an entry that is not *cannot*, which ``certify`` checks; returns its number.

    Args:
        cell: one of ``cells()``.

    Returns:
        for *can* the least margin, for *to a length* the greatest length found; "" for *open*.

    Raises:
        AssertionError: where the entry does not hold.
    """
    if cell.mark == "open":
        return ""
    member, own = construct(cell.task, cell.row), own_length(cell.task)
    found: dict[int, float] = {}
    for length, count in zip((own, *LENGTHS), BATCHES, strict=True):
        if length < own:
            continue
        kept = [decides(member, cell.task, length, count, kind, shorter=cell.mark == "can")
                for kind in (torch.float64, torch.float32)]  # fmt: skip
        if not all(right for right, _ in kept):
            break
        found[length] = min(margin for _, margin in kept)
    assert own in found, f"{cell}: wrong at its own length"
    if cell.mark == "can":
        assert len(found) >= 3 and min(found.values()) >= LEAST, f"{cell}: {found}"
        assert max(found) == LENGTHS[-1], f"{cell}: {found}"
        return f"{min(found.values()):.3f}"
    return f">= {max(found)}"


def far(cell: Cell) -> float | None:
    """Margin of a construction in float32 on one word of 2^20 tokens, read piece by piece.

    None for softmax attention, which keeps every token, and for the LRU, which forgets all but 1 %
    of what is older than 32 tokens.

    Args:
        cell: one of ``cells()`` that is marked *can*.

    Raises:
        AssertionError: for a wrong answer, or a margin below ``LEAST``.
    """
    member = construct(cell.task, cell.row)
    if cell.row == "LRU" or member.mixer.state_size() is None:
        return None
    accuracy, margin = measure(member, far_words(cell.task), torch.float32, piece=PIECE)
    assert accuracy == 1 and margin >= LEAST, f"{cell}: {accuracy}, margin {margin:.4f}"
    return margin
