"""``python -m coefdyn.lab capabilities``: prints and checks what each row can do on each task.

A line per cell in fixed columns: task, row, mark, length or margin, accuracies of a construction in
float32 and bfloat16, construction or lemma. ``--far`` reads one word of 2^20 tokens instead, for
every *can*. With ``--keep`` what was found is written after each cell, with where and when:
``data/capabilities/hulls.json`` for *cannot*, ``data/capabilities/far.json`` with ``--far``.
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
    parser.add_argument("--keep", action="store_true", help="write what was found to data")
    parsed = parser.parse_args(arguments)
    torch.set_num_threads(1)
    start, seen = time.perf_counter(), Counter[str]()
    found: list[dict[str, Any]] = []
    for cell in cells():
        if parsed.only and not {cell.task, cell.row, cell.mark} & set(parsed.only):
            continue
        if parsed.far and cell.mark != "can":
            continue
        number, kept = _checked(cell, parsed)
        if kept:
            kind = "construction" if parsed.far else "lemma"
            found.append({"task": cell.task, "row": cell.row, kind: cell.name, **kept})
        if kept and parsed.keep:
            _keep("far" if parsed.far else "hulls", parsed, found)
        seen[cell.mark] += 1
        kinds = "".join(f"{one:<7.3f}" for one in rounded(cell))
        line = f"{cell.task:<12}{cell.row:<22}{cell.mark:<13}{number:<9}{kinds:<14}{cell.name}"
        print(line.rstrip(), flush=True)
    print(", ".join(f"{count} {mark}" for mark, count in seen.items()))
    print(f"{time.process_time():.0f} s of one core, {time.perf_counter() - start:.0f} s in all")
    return 0


def _checked(cell: Cell, asked: argparse.Namespace) -> tuple[str, dict[str, float]]:
    """The number of a line, and what is kept of it."""
    if asked.far:
        margin = far(cell)
        return ("", {}) if margin is None else (f"{margin:.3f}", {"margin": margin})
    if cell.mark != "cannot":
        return check(cell), {}
    gap, margin = certify(cell, random=asked.random, optimise=asked.optimise)
    return f"{max(gap, margin, 0.0):.0e}", {"gap": gap, "margin": margin}


def _keep(name: str, asked: argparse.Namespace, found: list[dict[str, Any]]) -> None:
    """Write what was found so far, with where and when."""
    place = data_folder() / "capabilities" / f"{name}.json"
    place.parent.mkdir(exist_ok=True)
    members = {} if asked.far else {"random": asked.random, "optimised": asked.optimise}
    kept = {"provenance": provenance("cpu"), **members, "cells": found}
    place.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")
