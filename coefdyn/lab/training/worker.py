"""A process that trains what it is told: ``python -m coefdyn.lab.training.worker``.

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
from typing import Any

import torch

from coefdyn.lab.training.config import RunConfig
from coefdyn.lab.training.loop import TrainOptions, train_group

__all__ = ["main"]


def _read_jobs(jobs: queue.Queue[str]) -> None:
    for line in sys.stdin:
        jobs.put(line)
    os._exit(0)


def _run(job: dict[str, Any], send: Any) -> None:
    configs = [RunConfig.from_dict(values) for values in job["runs"]]
    every = max(1, configs[0].train.steps // 200)

    def on_step(done: int, total: int) -> None:
        if done % every == 0 or done == total:
            send({"event": "step", "done": done})

    options = TrainOptions(
        device=job["device"],
        mode=job["mode"],
        method=job["method"],
        on_step=on_step,
        on_evaluation=lambda step, rows, _: send({"event": "evaluation", "rows": rows}),
        on_record=lambda record: send({"event": "record", "record": record}),
    )
    train_group(configs, options)


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
            _run(job, send)
            send({"event": "done"})
        except Exception:
            send({"event": "failed", "message": traceback.format_exc()})


if __name__ == "__main__":
    main()
