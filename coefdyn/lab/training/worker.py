"""Worker process that trains the runs it receives: ``python -m coefdyn.lab.training.worker``.

Jobs come as JSON lines on standard input, events go as JSON lines to standard output. When the
input closes, because the parent is done or was killed, the process ends at once.
"""

from __future__ import annotations

import json
import os
import queue
import sys
import threading
import traceback
from pathlib import Path
from typing import Any

import torch

from coefdyn.lab.training.config import RunConfig
from coefdyn.lab.training.loop import TrainOptions, train_run
from coefdyn.lab.training.results import Record

__all__ = ["main"]


def _read_jobs(jobs: queue.Queue[str]) -> None:
    for line in sys.stdin:
        jobs.put(line)
    os._exit(0)


def _run(job: dict[str, Any], send: Any) -> Record:
    config = RunConfig.from_dict(job["run"])
    every = max(1, config.train.steps // 200)

    def on_step(done: int, total: int) -> None:
        if done % every == 0 or done == total:
            send({"event": "step", "done": done})

    checkpoint = None if job["checkpoint"] is None else Path(job["checkpoint"])
    options = TrainOptions(
        device=job["device"],
        mode=job["mode"],
        method=job["method"],
        on_step=on_step,
        checkpoint=checkpoint,
        weights=None if job["weights"] is None else Path(job["weights"]),
    )
    return train_run(config, options)


def main() -> None:
    """Serve jobs until the input closes."""
    torch.set_num_threads(1)
    out = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # anything printed goes to the error stream, not between the events

    def send(event: dict[str, Any]) -> None:
        out.write(json.dumps(event) + "\n")

    jobs: queue.Queue[str] = queue.Queue()
    threading.Thread(target=_read_jobs, args=(jobs,), daemon=True).start()
    while True:
        job = json.loads(jobs.get())
        try:
            send({"event": "record", "record": _run(job, send)})
        except Exception:
            send({"event": "failed", "message": traceback.format_exc()})


if __name__ == "__main__":
    main()
