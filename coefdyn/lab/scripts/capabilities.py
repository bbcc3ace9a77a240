"""``python -m coefdyn.lab capabilities``: prints and checks what each row can do on each task.

A line per cell in fixed columns: task, row, mark, length or margin, accuracies of a construction in
float32 and bfloat16, construction or lemma.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Sequence

import torch

from coefdyn.lab.capabilities.cells import cells, check, rounded

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Check every entry, or those of some tasks or rows, and print it."""
    parser = argparse.ArgumentParser(prog="python -m coefdyn.lab capabilities")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="tasks or rows; default: all")
    parser.add_argument("--random", type=int, default=60, help="random members per cannot")
    parser.add_argument("--optimise", type=int, default=1, help="optimised members per cannot")
    parsed = parser.parse_args(arguments)
    torch.set_num_threads(1)
    seen: Counter[str] = Counter()
    for cell in cells():
        if parsed.only and not {cell.task, cell.row} & set(parsed.only):
            continue
        number = check(cell, random=parsed.random, optimise=parsed.optimise)
        seen[cell.mark] += 1
        kinds = "".join(f"{one:<7.3f}" for one in rounded(cell))
        line = f"{cell.task:<12}{cell.row:<22}{cell.mark:<13}{number:<9}{kinds:<14}{cell.name}"
        print(line.rstrip(), flush=True)
    print(", ".join(f"{count} {mark}" for mark, count in seen.items()))
    return 0
