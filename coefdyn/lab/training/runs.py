"""Train any list of runs: grouped on a GPU, one process per core on a CPU, with resume."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from coefdyn.lab.training.config import RunConfig
from coefdyn.lab.training.groups import fitting, grouped
from coefdyn.lab.training.loop import TrainOptions, train_group
from coefdyn.lab.training.pool import WorkerPool, usable_cores
from coefdyn.lab.training.progress import Progress
from coefdyn.lab.training.results import Record, ResultFile
from coefdyn.lab.training.turns import Turns

__all__ = ["RunOptions", "train_runs"]

#: seconds between two looks at runs that another process is training
WAIT_S = 5.0


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """Where and how a list of runs is trained.

    Args:
        device: "cpu", "cuda" or "cuda:1"; None for a GPU if there is one, else the CPU.
        workers: processes on a CPU; None for one per core, at most one per run.
        max_replicas: largest number of replicas trained as one program on a GPU, of one model or
            of several; a group that does not fit into its memory is halved.
        mode: how a step is run, one of ``coefdyn.lab.training.step.MODES``.
        method: how coefficients are applied, see ``TrainOptions``.
        budget_s: no run is started once this many seconds have passed; None for no limit.
        progress: show a bar; None for "on a terminal or in a notebook".
        should_stop: asked after every step; a true answer stops all training at once.
        extra: entries added to every record (experiment, profile, variant), by run key.
        checkpoint_folder: where a group trained in this process keeps its checkpoint, so that it
            goes on from there after a kill; None for none. Worker processes keep none.
    """

    device: str | None = None
    workers: int | None = None
    max_replicas: int = 64
    mode: str = "auto"
    method: str = "parallel"
    budget_s: float | None = None
    progress: bool | None = None
    should_stop: Callable[[], bool] | None = None
    extra: Callable[[str], dict[str, Any]] | None = None
    checkpoint_folder: Path | None = None

    def resolved_device(self) -> str:
        """The device, with None resolved."""
        return self.device or ("cuda" if torch.cuda.is_available() else "cpu")

    def local_device(self) -> torch.device:
        """The same for work on this machine.

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

    Each finished replica is appended to ``results`` at once, so a killed call loses at most the
    replicas in flight. On CPU cores several calls may fill one file: each run is trained by one of
    them, and all wait for the last. Runs left out for lack of time have no record in the answer.

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
                _train(wanted, missing, book, options)
            finally:
                book.turns.close()
    return [book.found[key] for key in wanted if key in book.found]


def _train(
    wanted: dict[str, RunConfig], missing: list[RunConfig], book: _Book, options: RunOptions
) -> None:
    if options.local_device().type == "cpu":
        while missing:
            book.elsewhere.clear()
            _train_on_cores(missing, book, options)
            missing = [one for one in missing if one.key in book.elsewhere]
            if missing:
                time.sleep(WAIT_S)
    else:
        # grouped with the finished ones, so that a later call makes the same groups and finds
        # their checkpoints
        for group in grouped(list(wanted.values()), options.max_replicas):
            _train_here(group, book, options)


def _train_on_cores(missing: list[RunConfig], book: _Book, options: RunOptions) -> None:
    workers = min(options.workers or usable_cores(), len(missing))
    if workers > 1:
        _train_in_processes(missing, book, options, workers)
        return
    for config in missing:
        _train_here([config], book, options)


class _Book:
    """Finished records, the file behind them, the clock, the bar, and whose turn a run is."""

    def __init__(
        self, wanted: dict[str, RunConfig], results: ResultFile | None, options: RunOptions
    ) -> None:
        self.results, self.options = results, options
        self.turns = Turns(None if results is None else results.path)
        #: runs that another process was training when they were asked for
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
        """There is time left, and no other process has finished this run or is at it."""
        budget = self.options.budget_s
        if budget is not None and time.monotonic() - self.started >= budget:
            return False
        taken = self.turns.take(config.key)
        self._refresh({config.key: config})
        if config.key in self.found:
            self.turns.give(config.key)
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
        self.turns.give(record["key"])

    def count(self, key: str, done: int) -> None:
        self.done[key] = done
        if self.bar is not None:
            self.bar.update(sum(self.done.values()), f"{len(self.found)} finished")

    def stopping(self) -> bool:
        return self.options.should_stop is not None and self.options.should_stop()


def _train_here(group: list[RunConfig], book: _Book, options: RunOptions) -> None:
    """Train what is missing of a group in this process, in halves if it does not fit."""
    fitting(group, lambda part: _train_missing(part, book, options))


def _train_missing(group: list[RunConfig], book: _Book, options: RunOptions) -> list[Record]:
    missing = [config for config in group if book.may_start(config)]
    if not missing:
        return []

    def on_step(done: int, _: int) -> bool:
        for config in missing:
            if config.key not in book.found:
                book.count(config.key, done)
        return book.stopping()

    folder = options.checkpoint_folder
    settings = TrainOptions(
        device=options.resolved_device(),
        mode=options.mode,
        method=options.method,
        on_step=on_step,
        on_record=book.add,
        checkpoint=None if folder is None else folder / f"{group[0].key}.safetensors",
    )
    return train_group(missing, settings)


def _train_in_processes(
    missing: list[RunConfig], book: _Book, options: RunOptions, workers: int
) -> None:
    from coefdyn.lab.training.loop import Stopped

    with WorkerPool(workers, mode=options.mode, method=options.method) as pool:
        for config, event in pool.run(missing, book.may_start):
            if event["event"] == "record":
                book.add(event["record"])
            elif event["event"] == "step":
                book.count(config.key, event["done"])
            if book.stopping():
                raise Stopped("stopped; unfinished runs left no record")
