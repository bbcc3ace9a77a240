"""Train any list of runs, in this process or in several on one device, with resume."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from coefdyn.lab.training.config import RunConfig
from coefdyn.lab.training.loop import Stopped, TrainOptions, train_run
from coefdyn.lab.training.pool import WorkerPool, checkpoint_path, usable_cores
from coefdyn.lab.training.results import Record, ResultFile
from coefdyn.lab.training.run_locks import RunLocks
from coefdyn.progress import Progress

__all__ = ["RunOptions", "train_runs"]

#: seconds between two looks at runs that another process is training
WAIT_S = 5.0


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """Options of training a list of runs: devices, processes, budget.

    Args:
        device: "cpu", "cuda" or "cuda:1"; None for a GPU if there is one, else the CPU.
        workers: processes that share the device, at most one per run; 1 trains in this process.
            None for one per core on a CPU, and 1 on a GPU.
        mode: "eager" or "compiled", see ``TrainOptions``.
        method: how coefficients are applied, see ``TrainOptions``.
        budget_s: no run is started once this many seconds have passed; None for no limit.
        progress: show a bar; None for "on a terminal or in a notebook".
        should_stop: asked after every step; a true answer stops all training at once.
        extra: entries added to every record (experiment, profile, variant), by run key.
        checkpoint_folder: where unfinished runs keep their checkpoints, so that they go on from
            there after a kill; None for none.
        weights: see ``TrainOptions``.
    """

    device: str | None = None
    workers: int | None = None
    mode: str = "eager"
    method: str = "parallel"
    budget_s: float | None = None
    progress: bool | None = None
    should_stop: Callable[[], bool] | None = None
    extra: Callable[[str], dict[str, Any]] | None = None
    checkpoint_folder: Path | None = None
    weights: Path | None = None

    def resolved_device(self) -> str:
        """The device, with None resolved."""
        return self.device or ("cuda" if torch.cuda.is_available() else "cpu")

    def local_device(self) -> torch.device:
        """Device for work on this machine, with None resolved.

        Raises:
            ValueError: if a GPU is asked for where torch sees none.
        """
        device = torch.device(self.resolved_device())
        if device.type == "cuda" and not torch.cuda.is_available():
            raise ValueError(
                f"device={self.device!r} asks for a GPU, but torch {torch.__version__} sees none "
                "here; use device='cpu', or None for whatever is there."
            )
        return device


def train_runs(
    configs: Sequence[RunConfig],
    results: ResultFile | None = None,
    options: RunOptions | None = None,
) -> list[Record]:
    """Train the runs that ``results`` does not hold yet; return the records of all finished ones.

    Each record is appended to ``results`` at once, so a killed call loses at most the runs in
    flight. Several calls may fill one file: each run is trained by one of them, and all wait for
    the last. Runs left out for lack of time have no record in the answer.

    Args:
        configs: any runs; equal ones are trained once.
        results: where records are kept and looked up; None keeps nothing.
        options: device, processes, time.

    Raises:
        ResultsNotWritten: when a record could not be appended (disk full).
        Stopped: when ``should_stop`` asked for it.
        WorkerFailed: when a worker process raised or ended.
    """
    options = options or RunOptions()
    wanted = {config.key: config for config in configs}
    book = _Book(wanted, results, options)
    missing = [config for key, config in wanted.items() if key not in book.found]
    if missing:
        with Progress(sum(one.train.steps for one in missing), "training", options.progress) as bar:
            book.bar = bar
            try:
                _train(missing, book, options)
            finally:
                book.locks.close()
    return [book.found[key] for key in wanted if key in book.found]


def _train(missing: list[RunConfig], book: _Book, options: RunOptions) -> None:
    on_gpu = options.local_device().type == "cuda"
    while missing:
        book.elsewhere.clear()
        workers = min(options.workers or (1 if on_gpu else usable_cores()), len(missing))
        if workers > 1:
            _train_in_processes(missing, book, options, workers)
        else:
            _train_here(missing, book, options)
        missing = [one for one in missing if one.key in book.elsewhere]
        if missing:
            time.sleep(WAIT_S)


class _Book:
    """Bookkeeping of a list of runs: records, result file, time budget, progress bar, locks."""

    def __init__(
        self, wanted: dict[str, RunConfig], results: ResultFile | None, options: RunOptions
    ) -> None:
        self.results, self.options = results, options
        self.locks = RunLocks(None if results is None else results.path)
        #: runs that another process was training when this one tried to take them
        self.elsewhere: set[str] = set()
        self.started = time.monotonic()
        self.bar: Progress | None = None
        self.done: dict[str, int] = {}
        self.found: dict[str, Record] = {}
        self._refresh(wanted)

    def _refresh(self, wanted: dict[str, RunConfig]) -> None:
        if self.results is not None:
            for record in self.results.records():
                config = wanted.get(record["key"])
                if config is not None and config.matches(record):
                    self.found[record["key"]] = record

    def may_start(self, config: RunConfig) -> bool:
        """Return whether time is left and no other process has finished or trains this run."""
        budget = self.options.budget_s
        if budget is not None and time.monotonic() - self.started >= budget:
            return False
        taken = self.locks.take(config.key)
        self._refresh({config.key: config})
        if config.key in self.found:
            self.locks.give(config.key)
            self.count(config.key, config.train.steps)
            return False
        if not taken:
            self.elsewhere.add(config.key)
        return taken

    def add(self, record: Record) -> None:
        extra = self.options.extra
        record = {**record, **(extra(record["key"]) if extra else {})}
        self.found[record["key"]] = record
        self.count(record["key"], record["config"]["train"]["steps"])
        if self.results is not None:
            self.results.append(record)
        self.locks.give(record["key"])

    def count(self, key: str, done: int) -> None:
        self.done[key] = done
        if self.bar is not None:
            self.bar.update(sum(self.done.values()), f"{len(self.found)} finished")

    def stopping(self) -> bool:
        return self.options.should_stop is not None and self.options.should_stop()


def _train_here(missing: list[RunConfig], book: _Book, options: RunOptions) -> None:
    """Train one run after another in this process."""
    for config in filter(book.may_start, missing):

        def on_step(done: int, _: int, key: str = config.key) -> bool:
            book.count(key, done)
            return book.stopping()

        settings = TrainOptions(
            device=options.resolved_device(),
            mode=options.mode,
            method=options.method,
            on_step=on_step,
            checkpoint=checkpoint_path(options.checkpoint_folder, config),
            weights=options.weights,
        )
        book.add(train_run(config, settings))


def _train_in_processes(
    missing: list[RunConfig], book: _Book, options: RunOptions, workers: int
) -> None:
    with WorkerPool(
        workers,
        device=options.resolved_device(),
        mode=options.mode,
        method=options.method,
        checkpoint_folder=options.checkpoint_folder,
        weights=options.weights,
    ) as pool:
        for config, event in pool.run(missing, book.may_start):
            if event["event"] == "record":
                book.add(event["record"])
            elif event["event"] == "step":
                book.count(config.key, event["done"])
            if book.stopping():
                raise Stopped("stopped; unfinished runs left no record")
