"""``python -m coefdyn.lab capabilities``: prints and checks what each row can do on each task.

A line per cell in fixed columns: task, row, mark, length or margin, accuracies of a construction in
float32 and bfloat16, construction or lemma. ``--far`` reads one word of 2^20 tokens instead, for
every *can*. With ``--keep`` the larger of gap and margin of every *cannot* is written after each
cell to ``data/capabilities/hulls.json``, with where and when it was found.
"""

from __future__ import annotations

import argparse
import json
import time
from collections import Counter
from collections.abc import Sequence
from typing import Any

import torch

from coefdyn.lab.capabilities.cells import Cell, cells, certify, check, far, rounded
from coefdyn.lab.places import data_folder
from coefdyn.lab.training.provenance import provenance

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Check every entry, or those of some tasks, rows or marks, and print it."""
    parser = argparse.ArgumentParser(prog="python -m coefdyn.lab capabilities")
    parser.add_argument(
        "--only", nargs="+", metavar="NAME", help="tasks, rows or marks; default: all"
    )
    parser.add_argument("--random", type=int, default=60, help="random members per cannot")
    parser.add_argument("--optimise", type=int, default=1, help="optimised members per cannot")
    parser.add_argument("--far", action="store_true", help="read a word of 2^20 tokens per can")
    parser.add_argument("--keep", action="store_true", help="write what was found per cannot")
    parsed = parser.parse_args(arguments)
    torch.set_num_threads(1)
    start, seen = time.perf_counter(), Counter[str]()
    found: list[dict[str, Any]] = []
    for cell in cells():
        if parsed.only and not {cell.task, cell.row, cell.mark} & set(parsed.only):
            continue
        if parsed.far and cell.mark != "can":
            continue
        number = _checked(cell, parsed)
        if cell.mark == "cannot" and parsed.keep:
            found.append({"task": cell.task, "row": cell.row, "lemma": cell.name,
                          "worst": float(number)})  # fmt: skip
            _keep({"random": parsed.random, "optimised": parsed.optimise, "cells": found})
        seen[cell.mark] += 1
        kinds = "".join(f"{one:<7.3f}" for one in rounded(cell))
        line = f"{cell.task:<12}{cell.row:<22}{cell.mark:<13}{number:<9}{kinds:<14}{cell.name}"
        print(line.rstrip(), flush=True)
    print(", ".join(f"{count} {mark}" for mark, count in seen.items()))
    print(f"{time.process_time():.0f} s of one core, {time.perf_counter() - start:.0f} s in all")
    return 0


def _checked(cell: Cell, asked: argparse.Namespace) -> str:
    """The number of a line; raises where the entry does not hold."""
    if asked.far:
        margin = far(cell)
        return "" if margin is None else f"{margin:.3f}"
    if cell.mark != "cannot":
        return check(cell)
    return f"{max(*certify(cell, random=asked.random, optimise=asked.optimise), 0.0):.0e}"


def _keep(found: dict[str, Any]) -> None:
    """Write what was found so far, with where and when."""
    place = data_folder() / "capabilities" / "hulls.json"
    place.parent.mkdir(exist_ok=True)
    kept = {"provenance": provenance("cpu"), **found}
    place.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")
