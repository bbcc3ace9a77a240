"""``python -m coefdyn.lab capabilities``: prints and checks what each row can do on each task.

A line per cell in fixed columns: task, row, mark, length or margin, accuracies of a construction in
float32 and bfloat16, construction or lemma. With ``--keep`` what the program found for the cells
marked *cannot* is written to ``data/capabilities/hulls.json`` after each of them, with where and
when it was found.
"""

from __future__ import annotations

import argparse
import json
import time
from collections import Counter
from collections.abc import Sequence
from typing import Any

import torch

from coefdyn.lab.capabilities.cells import Cell, cells, certify, check, rounded
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
    parser.add_argument("--keep", action="store_true", help="keep what was found per cannot")
    parsed = parser.parse_args(arguments)
    torch.set_num_threads(1)
    begin, seen = time.perf_counter(), Counter[str]()
    found: list[dict[str, Any]] = []
    for cell in cells():
        if parsed.only and not {cell.task, cell.row, cell.mark} & set(parsed.only):
            continue
        if cell.mark == "cannot":
            gap, margin = certify(cell, random=parsed.random, optimise=parsed.optimise)
            number = f"{max(gap, margin, 0.0):.0e}"
            found.append({**_named(cell), "gap": gap, "margin": margin})
            if parsed.keep:
                _keep({"random": parsed.random, "optimised": parsed.optimise, "cells": found})
        else:
            number = check(cell)
        seen[cell.mark] += 1
        kinds = "".join(f"{one:<7.3f}" for one in rounded(cell))
        line = f"{cell.task:<12}{cell.row:<22}{cell.mark:<13}{number:<9}{kinds:<14}{cell.name}"
        print(line.rstrip(), flush=True)
    print(", ".join(f"{count} {mark}" for mark, count in seen.items()))
    spent = time.process_time(), time.perf_counter() - begin
    print(f"{spent[0]:.0f} s of one core, {spent[1]:.0f} s by the clock")
    return 0


def _named(cell: Cell) -> dict[str, str]:
    return {"task": cell.task, "row": cell.row, "lemma": cell.name}


def _keep(kept: dict[str, Any]) -> None:
    place = data_folder() / "capabilities" / "hulls.json"
    place.parent.mkdir(exist_ok=True)
    kept = {"provenance": provenance("cpu"), **kept}
    place.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")
