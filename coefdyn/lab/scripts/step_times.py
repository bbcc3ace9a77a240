"""``python -m coefdyn.lab step-times``: time per token of the scoreboard's rows, one mixer each.

Prints, and with ``--keep`` writes ``data/capabilities/times.json``, which the table of capabilities
shows: microseconds of one core (process time, so that other processes do not count) per token, of a
step behind so many tokens, and of the whole pass over so many. Mixers have the scoreboard's sizes,
fresh weights and float32, and include projections and convolutions.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import time
from collections.abc import Callable, Sequence

import torch

from coefdyn import mixers
from coefdyn.lab.capabilities.hand import WIDTH
from coefdyn.lab.experiments.board import ROWS
from coefdyn.lab.places import data_folder
from coefdyn.lab.training.provenance import provenance

__all__ = ["LENGTHS", "main", "times_of"]

#: tokens before a step, and of a whole pass
LENGTHS = (64, 512, 4096)


def times_of(row: str, lengths: Sequence[int] = LENGTHS, rounds: int = 5) -> dict[str, list[float]]:
    """Microseconds per token of one core: "step" and "pass", one number per length.

    Args:
        row: of ``board.ROWS``.
        lengths: tokens before the step, and of the pass.
        rounds: passes, and tens of steps, of which the median counts.
    """
    name, options, position = ROWS[row]
    given = dict(options) if position == "none" else {**options, "position": position}
    torch.manual_seed(0)
    mixer = getattr(mixers, name)(d_model=WIDTH, **given)
    found: dict[str, list[float]] = {"step": [], "pass": []}
    with torch.no_grad():
        for length in lengths:
            x, token = torch.randn(1, length, WIDTH), torch.randn(1, 1, WIDTH)
            _, state = mixer.extend(x)
            step = _microseconds(lambda token=token, state=state: mixer.extend(token, state),
                                 10 * rounds)  # fmt: skip
            whole = _microseconds(lambda x=x: mixer(x), rounds)
            found["step"].append(round(step, 1))
            found["pass"].append(round(whole / length, 2))
    return found


def _microseconds(work: Callable[[], object], rounds: int) -> float:
    """Median process time of some calls, after one that does not count."""
    seconds = []
    for _ in range(rounds + 1):
        start = time.process_time()
        work()
        seconds.append(time.process_time() - start)
    return 1e6 * statistics.median(seconds[1:])


def main(arguments: Sequence[str] | None = None) -> int:
    """Time every row on one thread."""
    parser = argparse.ArgumentParser(prog="python -m coefdyn.lab step-times")
    parser.add_argument("--rounds", type=int, default=5, help="passes, and tens of steps, a row")
    parser.add_argument("--keep", action="store_true", help="write data/capabilities/times.json")
    parsed = parser.parse_args(arguments)
    torch.set_num_threads(1)
    load = os.getloadavg()[0]
    rows = {}
    print(f"{'µs per token':<22}" + "".join(f"{'after ' + str(n):>12}" for n in LENGTHS)
          + "".join(f"{'all ' + str(n):>12}" for n in LENGTHS))  # fmt: skip
    for row in ROWS:
        rows[row] = times_of(row, rounds=parsed.rounds)
        numbers = (*rows[row]["step"], *rows[row]["pass"])
        print(f"{row:<22}" + "".join(f"{one:>12.1f}" for one in numbers), flush=True)
    if parsed.keep:
        where = {**provenance("cpu"), "cores": os.cpu_count(), "threads": 1, "load": round(load, 1)}
        kept = {"provenance": where, "rounds": parsed.rounds, "lengths": LENGTHS,
                "microseconds": rows}  # fmt: skip
        place = data_folder() / "capabilities" / "times.json"
        place.parent.mkdir(exist_ok=True)
        place.write_text(json.dumps(kept, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return 0
