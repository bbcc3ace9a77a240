"""Train any list of runs: in this process, in several of this machine, or on a cluster."""

from __future__ import annotations

import os
import queue
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from coefdyn.lab.training.checkpoint import checkpoint_path
from coefdyn.lab.training.config import RunConfig
from coefdyn.lab.training.loop import Stopped, TrainOptions, train_run
from coefdyn.lab.training.results import Record, ResultFile
from coefdyn.lab.training.workers import LocalWorkers, WorkerFailed, Workers, usable_cores
from coefdyn.progress import Progress

__all__ = ["RunOptions", "train_runs"]

#: seconds between two looks at the bar, at ``should_stop`` and at the workers
LOOK_S = 0.2
#: a run that failed so often in workers is reported
TRIES = 3
#: the environment's variable for a scheduler's address, as dask names it
ADDRESS = "DASK_SCHEDULER_ADDRESS"


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """Options of training a list of runs: devices, processes, budget.

    Args:
        device: "cpu", "cuda" or "cuda:1"; None for a GPU if there is one, else the CPU.
        workers: processes that share the device, at most one per run; 1 trains in this process.
            None for one per core on a CPU, and 1 on a GPU. On a cluster a run asks for this part
            of a GPU, 1 / workers.
        cluster: address of a dask scheduler, or a cluster of dask, whose workers train the runs.
            None for the address in ``DASK_SCHEDULER_ADDRESS`` where ``workers`` is None, too, and
            else for this machine.
        mode: "eager" or "compiled", see ``TrainOptions``.
        method: how coefficients are applied, see ``TrainOptions``.
        budget_s: no run is started once this many seconds have passed; None for no limit.
        progress: show a bar; None for "on a terminal or in a notebook".
        should_stop: asked after every step; a true answer stops all training at once.
        extra: entries added to every record (experiment, profile, variant), by run key.
        checkpoint_folder: where unfinished runs keep their checkpoints, so that they go on from
            there after a kill; None for none. Workers of a cluster that do not see the folder
            return their checkpoints, and this process keeps them there.
        weights, halved: see ``TrainOptions``.
    """

    device: str | None = None
    workers: int | None = None
    cluster: Any = None
    mode: str = "eager"
    method: str = "parallel"
    budget_s: float | None = None
    progress: bool | None = None
    should_stop: Callable[[], bool] | None = None
    extra: Callable[[str], dict[str, Any]] | None = None
    checkpoint_folder: Path | None = None
    weights: Path | None = None
    halved: bool = True

    def scheduler(self) -> Any:
        """The cluster that trains the runs, with None resolved; None for this machine."""
        if self.cluster is None and self.workers is None:
            return os.environ.get(ADDRESS) or None
        return self.cluster

    def train_options(self) -> TrainOptions:
        """The part of these options that concerns each run."""
        return TrainOptions(
            device=self.resolved_device(),
            mode=self.mode,
            method=self.method,
            weights=self.weights,
            halved=self.halved,
        )

    def resolved_device(self) -> str:
        """The device, with None resolved."""
        return self.device or ("cuda" if torch.cuda.is_available() else "cpu")

    def local_device(self) -> torch.device:
        """Device for work on this machine, with None resolved.

        Raises:
            ValueError: for another name of a device, or a GPU that torch does not see.
        """
        kind, _, number = self.resolved_device().partition(":")
        if kind not in ("cpu", "cuda") or (number and not number.isdecimal()):
            raise ValueError(f"device must be cpu, cuda or cuda:1; got {self.device!r}.")
        seen = torch.cuda.device_count() if torch.cuda.is_available() else 0
        if kind == "cuda" and int(number or 0) >= seen:
            raise ValueError(
                f"device={self.device!r} asks for a GPU, but torch {torch.__version__} sees {seen} "
                "here; use device='cpu', or None for whatever is there."
            )
        return torch.device(self.resolved_device())


def train_runs(
    configs: Sequence[RunConfig],
    results: ResultFile | None = None,
    options: RunOptions | None = None,
) -> list[Record]:
    """Train the runs that ``results`` does not hold yet; return the records of all finished ones.

    Each record is appended to ``results`` at once, so a killed call loses at most the runs in
    flight, and what another call has finished meanwhile is not trained again. Runs left out for
    lack of time have no record in the answer.

    In this process an error of a run ends the call. A run that fails three times in workers is
    left, the others go on, and the error that ends the call tells its traceback.

    Args:
        configs: any runs; equal ones are trained once.
        results: where records are kept and looked up; None keeps nothing.
        options: device, processes or cluster, time.

    Raises:
        ResultsNotWritten: when a record could not be appended (disk full).
        Stopped: when ``should_stop`` asked for it.
        WorkerFailed: when runs failed in their workers, or their workers ended.
        ImportError: for a cluster where ``distributed`` is not installed.
        OSError: for a cluster whose scheduler does not answer.
        ValueError: for a cluster without a worker that has this code, torch and Python.
    """
    options = options or RunOptions()
    wanted = {config.key: config for config in configs}
    book = _Book(wanted, results, options)
    missing = [config for key, config in wanted.items() if key not in book.found]
    if missing:
        with Progress(sum(one.train.steps for one in missing), "training", options.progress) as bar:
            book.bar = bar
            workers = _workers(options, len(missing))
            if workers is None:
                _train_here(missing, book, options)
            else:
                with workers:
                    _train_in(workers, missing, book)
    return [book.found[key] for key in wanted if key in book.found]


def _workers(options: RunOptions, runs: int) -> Workers | None:
    """Workers for so many runs; None for this process."""
    if options.scheduler() is not None:
        from coefdyn.lab.training.cluster import ClusterWorkers

        return ClusterWorkers(
            options.scheduler(),
            options.train_options(),
            options.checkpoint_folder,
            device=options.device,
            share=1 / (options.workers or 1),
        )
    on_gpu = options.local_device().type == "cuda"
    count = min(options.workers or (1 if on_gpu else usable_cores()), runs)
    if count == 1:
        return None
    return LocalWorkers(count, options.train_options(), options.checkpoint_folder)


class _Book:
    """Bookkeeping of a list of runs: records, result file, time budget and progress bar."""

    def __init__(
        self, wanted: dict[str, RunConfig], results: ResultFile | None, options: RunOptions
    ) -> None:
        self.results, self.options = results, options
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
        """Return whether time is left and no other call has finished this run."""
        budget = self.options.budget_s
        if budget is not None and time.monotonic() - self.started >= budget:
            return False
        self._refresh({config.key: config})
        if config.key in self.found:
            self.count(config.key, config.train.steps)
            return False
        return True

    def add(self, record: Record) -> None:
        extra = self.options.extra
        record = {**record, **(extra(record["key"]) if extra else {})}
        self.found[record["key"]] = record
        self.count(record["key"], record["config"]["train"]["steps"])
        if self.results is not None:
            self.results.append(record)

    def count(self, key: str, done: int) -> None:
        self.done[key] = done
        self.show()

    def show(self, note: str = "") -> None:
        if self.bar is not None:
            self.bar.update(sum(self.done.values()), note or f"{len(self.found)} finished")

    def stopping(self) -> bool:
        return self.options.should_stop is not None and self.options.should_stop()


def _train_here(missing: list[RunConfig], book: _Book, options: RunOptions) -> None:
    """Train one run after another in this process."""
    for config in filter(book.may_start, missing):

        def on_step(done: int, _: int, key: str = config.key) -> bool:
            book.count(key, done)
            return book.stopping()

        settings = replace(
            options.train_options(),
            on_step=on_step,
            checkpoint=checkpoint_path(options.checkpoint_folder, config.key),
        )
        book.add(train_run(config, settings))


def _train_in(workers: Workers, missing: list[RunConfig], book: _Book) -> None:
    """Train runs in workers: one in each that is free, and the next when one is done."""
    waiting, begun = deque(missing), set[str]()
    flying: dict[str, Any] = {}
    failures: dict[str, list[str]] = {}
    while waiting or flying:
        while waiting and workers.free() > 0:
            config = waiting.popleft()
            if config.key in begun or book.may_start(config):
                begun.add(config.key)
                flying[config.key] = workers.submit(config)
        ended, future = _next_ended(workers, flying)
        if ended is not None:
            del flying[ended.key]
            try:
                record = workers.result(ended, future)
            except WorkerFailed as failure:
                failures.setdefault(ended.key, []).append(str(failure))
                if len(failures[ended.key]) < TRIES:
                    waiting.append(ended)
            else:
                if record is None:
                    waiting.appendleft(ended)
                else:
                    book.add(record)
        for key, done in workers.steps().items():
            book.count(key, done)
        book.show(workers.note)
        if book.stopping():
            raise Stopped("stopped; unfinished runs left no record")
    failed = {key: told[-1] for key, told in failures.items() if len(told) == TRIES}
    if failed:
        each = "\n".join(f"run {key} failed {TRIES} times:\n{why}" for key, why in failed.items())
        raise WorkerFailed(f"{each}\n{len(failed)} runs failed; all others are finished.")


def _next_ended(
    workers: Workers, flying: dict[str, Any]
) -> tuple[RunConfig, Any] | tuple[None, None]:
    """The next run in flight that is done, with its future; None where none is for a while.

    A future that was given up may tell its end once more, which is left out.
    """
    with suppress(queue.Empty):
        config, future = workers.ended.get(timeout=LOOK_S)
        if flying.get(config.key) is future:
            return config, future
    return None, None
