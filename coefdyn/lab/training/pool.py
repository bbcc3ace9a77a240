"""Worker processes that train runs side by side: one per CPU core, or several on one GPU.

They are separate programs that exchange JSON lines, so nothing is pickled, no ``__main__`` guard is
needed, a notebook can start them, and stopping them stops the work.
"""

from __future__ import annotations

import json
import os
import queue
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from coefdyn.lab.places import PACKAGE
from coefdyn.lab.training.config import RunConfig

__all__ = ["WorkerFailed", "WorkerPool", "checkpoint_path", "usable_cores"]

Event = dict[str, Any]

#: seconds of silence of all workers after which a "waiting" event comes
WAIT_S = 0.5


class WorkerFailed(RuntimeError):
    """A worker process reported an error or ended; its message is included."""


def usable_cores() -> int:
    """Number of CPU cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def checkpoint_path(folder: Path | None, config: RunConfig) -> Path | None:
    """Path of a run's checkpoint, if there is a folder for it."""
    return None if folder is None else folder / f"{config.key}.safetensors"


def _environment() -> dict[str, str]:
    """The parent's environment, with one thread per process and this package importable."""
    paths = [str(PACKAGE.parent), *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    threads = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
    return {**os.environ, **threads, "PYTHONPATH": os.pathsep.join(paths)}


class WorkerPool:
    """Worker processes that each train one run at a time.

    Args:
        workers: number of processes.
        device, mode, method: passed to each run, see ``TrainOptions``.
        checkpoint_folder: where each unfinished run keeps its checkpoint; None for none.
        weights: see ``TrainOptions``.
    """

    def __init__(
        self,
        workers: int,
        *,
        device: str = "cpu",
        mode: str = "eager",
        method: str = "parallel",
        checkpoint_folder: Path | None = None,
        weights: Path | None = None,
    ) -> None:
        self.options = {"device": device, "mode": mode, "method": method}
        self.folder, self.weights = checkpoint_folder, weights
        self._events: queue.Queue[tuple[int, Event]] = queue.Queue()
        self._processes = [self._start(index) for index in range(workers)]

    def _start(self, index: int) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-m", "coefdyn.lab.training.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=_environment(),
        )
        threading.Thread(target=self._listen, args=(index, process), daemon=True).start()
        return process

    def _listen(self, index: int, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None, "the worker's output is a pipe"
        for line in process.stdout:
            self._events.put((index, json.loads(line)))
        self._events.put((index, {"event": "failed", "message": "the worker process ended"}))

    def run(
        self, configs: list[RunConfig], may_start: Callable[[RunConfig], bool]
    ) -> Iterator[tuple[RunConfig, Event]]:
        """Train every run, each alone in a process; yields (run, event) as events arrive.

        Events are "step" and at last "record"; "waiting", of any of the runs, where all workers
        are silent for a while.

        Args:
            configs: the runs, started in this order.
            may_start: asked before each start; a run it refuses is left out.

        Raises:
            WorkerFailed: with the worker's traceback.
        """
        waiting = list(reversed(configs))
        busy: dict[int, RunConfig] = {}

        def feed(index: int) -> None:
            while waiting:
                config = waiting.pop()
                if may_start(config):
                    busy[index] = config
                    self._send(index, config)
                    return

        for index in range(len(self._processes)):
            feed(index)
        while busy:
            try:
                index, event = self._events.get(timeout=WAIT_S)
            except queue.Empty:  # a worker that compiles is silent, and may have to be stopped
                yield next(iter(busy.values())), {"event": "waiting"}
                continue
            config = busy.get(index)
            if config is None:
                continue
            if event["event"] == "failed":
                raise WorkerFailed(f"run {config.key} failed:\n{event['message']}")
            yield config, event
            if event["event"] == "record":
                del busy[index]
                feed(index)

    def _send(self, index: int, config: RunConfig) -> None:
        path = checkpoint_path(self.folder, config)
        folders = {"checkpoint": path, "weights": self.weights}
        kept = {name: None if one is None else str(one) for name, one in folders.items()}
        job = {"run": config.to_dict(), **self.options, **kept}
        stream = self._processes[index].stdin
        assert stream is not None, "the worker's input is a pipe"
        try:
            stream.write(json.dumps(job) + "\n")
            stream.flush()
        except BrokenPipeError:
            pass  # the listener reports the end of the process as a failure

    def close(self) -> None:
        """End every worker at once."""
        for process in self._processes:
            process.kill()
        for process in self._processes:
            process.wait()
            for stream in (process.stdin, process.stdout):
                if stream is not None:
                    stream.close()

    def __enter__(self) -> WorkerPool:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()
