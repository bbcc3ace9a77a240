"""Workers that train runs side by side, and those of this machine: one process per CPU core.

The standard library starts the processes. They do not import the script that started them, so that
it needs no ``__main__`` guard and a notebook can start them.
"""

from __future__ import annotations

import multiprocessing
import os
import queue
import signal
import sys
import threading
import traceback
from abc import ABC, abstractmethod
from collections.abc import Callable
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from dataclasses import replace
from multiprocessing.context import SpawnContext, SpawnProcess
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

import torch

from coefdyn.lab.training.checkpoint import checkpoint_path
from coefdyn.lab.training.config import RunConfig
from coefdyn.lab.training.loop import TrainOptions, train_run
from coefdyn.lab.training.results import Record

__all__ = ["LocalWorkers", "WorkerFailed", "Workers", "in_a_process", "usable_cores"]


T = TypeVar("T")


class WorkerFailed(RuntimeError):
    """Runs failed in their worker, or their worker ended; the tracebacks are included."""


def usable_cores() -> int:
    """Number of CPU cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


class Workers(ABC):
    """Places where runs are trained, each one run at a time."""

    #: what is waited for, beside the progress bar
    note = ""

    def __init__(self) -> None:
        #: runs whose futures are done
        self.ended: queue.SimpleQueue[tuple[RunConfig, Any]] = queue.SimpleQueue()

    def submit(self, config: RunConfig) -> Any:
        """Start a run; returns its future."""
        future = self._start(config)
        future.add_done_callback(lambda done: self.ended.put((config, done)))
        return future

    @abstractmethod
    def _start(self, config: RunConfig) -> Any:
        """Start a run; returns a future with ``add_done_callback``."""

    @abstractmethod
    def free(self) -> int:
        """Number of runs that could start now."""

    @abstractmethod
    def result(self, config: RunConfig, future: Any) -> Record | None:
        """Record of a run whose future is done; None where the run has to go on elsewhere.

        Raises:
            WorkerFailed: with the traceback of what the run raised.
        """

    @abstractmethod
    def steps(self) -> dict[str, int]:
        """Finished steps of the runs that are being trained, by key."""

    @abstractmethod
    def close(self) -> None:
        """Stop everything at once."""

    def __enter__(self) -> Workers:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


class _Process(SpawnProcess):
    """A process that does not import the script of its parent."""

    def start(self) -> None:
        main = sys.modules["__main__"]
        sys.modules["__main__"] = ModuleType("__main__")
        try:
            super().start()
        finally:
            sys.modules["__main__"] = main


class _Context(SpawnContext):
    """Starts processes of this kind, and knows the last one."""

    started: _Process | None = None

    def Process(self, *args: Any, **named: Any) -> _Process:  # type: ignore[override]
        self.started = _Process(*args, **named)
        return self.started


class _Place:
    """One process that trains one run after another, and how far it is.

    A pool of one, so that the end of a process concerns its own run alone.
    """

    def __init__(self) -> None:
        self.done = multiprocessing.RawValue("q", 0)
        self.run: str | None = None
        self.context = _Context()
        self.pool = ProcessPoolExecutor(1, self.context, _begin, (self.done,))

    def close(self) -> None:
        """End the process, whatever it does."""
        if self.context.started is not None:
            with suppress(ValueError):  # it ended, and the pool has closed it
                self.context.started.kill()
        self.pool.shutdown(wait=True, cancel_futures=True)


class LocalWorkers(Workers):
    """Processes of this machine.

    Args:
        count: how many.
        options: of every run.
        checkpoints: folder where an unfinished run keeps its checkpoint; None for none.
    """

    def __init__(self, count: int, options: TrainOptions, checkpoints: Path | None) -> None:
        super().__init__()
        self.options, self.checkpoints = options, checkpoints
        self._places = [_Place() for _ in range(count)]

    def free(self) -> int:
        return sum(place.run is None for place in self._places)

    def _start(self, config: RunConfig) -> Future[Record]:
        place = next(place for place in self._places if place.run is None)
        place.run, place.done.value = config.key, 0
        options = replace(self.options, checkpoint=checkpoint_path(self.checkpoints, config.key))
        return place.pool.submit(_train, config.to_dict(), options)

    def result(self, config: RunConfig, future: Future[Record]) -> Record:
        number = next(n for n, place in enumerate(self._places) if place.run == config.key)
        try:
            return future.result()
        except BrokenProcessPool:
            self._places[number].close()
            self._places[number] = _Place()
            raise WorkerFailed("the process that trained it ended") from None
        finally:
            self._places[number].run = None

    def steps(self) -> dict[str, int]:
        return {place.run: place.done.value for place in self._places if place.run is not None}

    def close(self) -> None:
        for place in self._places:
            place.close()


def in_a_process(work: Callable[..., T], *arguments: Any) -> T:
    """Result of a function that a worker process computes."""
    place = _Place()
    try:
        return place.pool.submit(work, *arguments).result()
    finally:
        place.close()


#: steps of this process's run, which its parent reads
_done: Any = None


def _begin(done: Any) -> None:
    """Prepare a process: one thread, an end with its parent, and no interrupts but the parent's."""
    global _done
    _done = done
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    torch.set_num_threads(1)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None, "this process was started by another one"
    parent.join()
    os._exit(1)


def _train(run: dict[str, Any], options: TrainOptions) -> Record:
    def on_step(done: int, _: int) -> None:
        _done.value = done

    try:
        return train_run(RunConfig.from_dict(run), replace(options, on_step=on_step))
    except Exception:
        raise WorkerFailed(traceback.format_exc()) from None
