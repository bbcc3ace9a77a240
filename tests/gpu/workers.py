"""Jobs in processes of their own: one that crashes or hangs costs its own result and no other's."""

from __future__ import annotations

import multiprocessing
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from multiprocessing.connection import Connection, wait
from typing import NamedTuple

__all__ = ["Row", "through"]

Row = dict[str, object]
_SPAWN = multiprocessing.get_context("spawn")


class Worker(NamedTuple):
    process: multiprocessing.process.BaseProcess
    job: object
    since: float


def _serve(connection: Connection, perform: Callable[..., Row]) -> None:
    """Answer jobs until one fails."""
    while True:
        try:
            row = perform(*connection.recv())
        except Exception as error:  # whatever it is, it is this job's result
            row = {"ok": False, "error": f"{type(error).__name__}: {str(error)[:300]}"}
        connection.send(row)
        if "error" in row:  # after an illegal access every further call of a process fails
            return


def through(
    jobs: Iterable[tuple],
    perform: Callable[..., Row],
    *,
    processes: int,
    until: float,
    limit: float,
) -> Iterator[tuple[tuple, Row]]:
    """(job, ``perform(*job)``) in the order of completion, until the clock says ``until``.

    A job that ends its process, or takes over ``limit`` seconds, has an "error" for a row; what
    still runs at ``until`` has none.
    """
    waiting, busy = deque(jobs), {}
    idle: list[tuple[multiprocessing.process.BaseProcess, Connection]] = []
    try:
        while waiting or busy:
            if time.monotonic() > until:
                return
            while waiting and len(busy) < processes:
                process, connection = idle.pop() if idle else _started(perform)
                busy[connection] = Worker(process, waiting.popleft(), time.monotonic())
                connection.send(busy[connection].job)
            for connection in wait(list(busy), timeout=0.5):
                worker = busy.pop(connection)
                try:
                    row = connection.recv()
                except (EOFError, OSError):
                    worker.process.join()
                    row = {"ok": False, "error": f"process ended: {worker.process.exitcode}"}
                if "error" in row:
                    _end(worker.process, connection)
                else:
                    idle.append((worker.process, connection))
                yield worker.job, row
            for connection, worker in list(busy.items()):
                if time.monotonic() - worker.since > limit:
                    _end(worker.process, connection)
                    del busy[connection]
                    yield worker.job, {"ok": False, "error": f"no result in {limit:.0f} s"}
    finally:
        for process, connection in [*idle, *((w.process, c) for c, w in busy.items())]:
            _end(process, connection)


def _started(perform) -> tuple[multiprocessing.process.BaseProcess, Connection]:
    here, there = _SPAWN.Pipe()
    process = _SPAWN.Process(target=_serve, args=(there, perform), daemon=True)
    process.start()
    there.close()
    return process, here


def _end(process: multiprocessing.process.BaseProcess, connection: Connection) -> None:
    process.kill()
    process.join()
    connection.close()
