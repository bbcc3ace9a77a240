"""A worker of a cluster: it says what it has, and trains a run or a part of it."""

from __future__ import annotations

import functools
import hashlib
import os
import pickle
import platform
import sys
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch

from coefdyn.lab.places import PACKAGE
from coefdyn.lab.tasks import TASKS
from coefdyn.lab.training.config import RunConfig
from coefdyn.lab.training.loop import Stopped, TrainOptions, train_run
from coefdyn.lab.training.provenance import code_revision
from coefdyn.lab.training.results import Record
from coefdyn.lab.training.workers import WorkerFailed
from coefdyn.mixers.registry import REGISTERED

__all__ = ["SHARED", "STEPS", "admit", "facts", "own_classes", "read_bytes", "train_there"]

#: topic of the events that tell steps
STEPS = "coefdyn-steps"
#: seconds between two of them
TELL_S = 0.5
#: facts that a worker must share with the client; the commit is told beside them
SHARED = ("sources", "torch", "Python")


def read_bytes(path: Path) -> bytes:
    """Content of a file; nothing where there is none."""
    return path.read_bytes() if path.exists() else b""


@functools.cache
def facts() -> dict[str, str]:
    """Everything that decides about the numbers of a run: commit, sources, torch and Python.

    The sources are told by a digest, which is the same for a commit and for the wheel built of it.
    """
    digest = hashlib.sha256()
    for path in sorted(PACKAGE.rglob("*.py")):
        digest.update(path.relative_to(PACKAGE).as_posix().encode() + path.read_bytes())
    return {
        "commit": code_revision(),
        "sources": digest.hexdigest()[:12],
        "torch": torch.__version__.partition("+")[0],
        "Python": ".".join(platform.python_version_tuple()[:2]),
    }


async def admit(here: dict[str, str], resource: str, dask_worker: Any) -> dict[str, str]:
    """Say a worker's facts, and give it the resource that runs take where they are the client's."""
    found = facts()
    if all(found[name] == here[name] for name in SHARED):
        await dask_worker.set_resources(**{resource: 1.0})
    return found


def train_there(
    run: dict[str, Any],
    options: TrainOptions,
    state: bytes,
    *,
    own: bytes | None,
    keep: bool,
    mark: Path,
    return_s: float,
) -> tuple[Record | None, bytes]:
    """Train a run, or a part of it, on a worker.

    Args:
        run: as ``RunConfig.to_dict`` says it.
        options: without callbacks and folders.
        state: a checkpoint to go on from, where no folder is shared; empty for none.
        own: a reader's own classes, pickled.
        keep: return the trained weights of a run with ``keep``.
        mark: a file that the client made beside its checkpoints.
        return_s: seconds after which an unfinished run returns, where no folder is shared.

    Returns:
        The record and the trained weights; or None and a checkpoint.

    Raises:
        WorkerFailed: with the traceback of what was raised.
    """
    from distributed import get_worker

    worker, started = get_worker(), time.monotonic()
    task, told = worker.get_current_task(), started
    shared = os.path.exists(mark)
    try:
        mixers, tasks = pickle.loads(own) if own else ({}, {})
        REGISTERED.update(mixers)
        TASKS.update(tasks)
        config = RunConfig.from_dict(run)
        with TemporaryDirectory() as folder:
            checkpoint = (mark.parent if shared else Path(folder)) / f"{config.key}.safetensors"
            if state and not shared:
                checkpoint.write_bytes(state)

            def on_step(done: int, total: int) -> bool:
                nonlocal told
                now = time.monotonic()
                if now - told > TELL_S:
                    told = now
                    worker.log_event(STEPS, {"run": config.key, "done": done})
                return not _wanted(worker, task) or (not shared and now - started > return_s)

            weights = Path(folder, "weights")
            with suppress(Stopped):
                record = train_run(
                    config,
                    replace(
                        options,
                        on_step=on_step,
                        checkpoint=checkpoint,
                        weights=weights if keep else None,
                    ),
                )
                return record, read_bytes(weights / checkpoint.name)
            return None, b"" if shared else read_bytes(checkpoint)
    except Exception:
        raise WorkerFailed(traceback.format_exc()) from None


def _wanted(worker: Any, task: str) -> bool:
    """Return whether the scheduler still asks for a task, and the worker is not about to end."""
    known = worker.state.tasks.get(task)
    ending = worker.status.name in ("closing", "closing_gracefully", "closed", "failed")
    return not ending and known is not None and known.state != "cancelled"


def own_classes(config: RunConfig) -> bytes | None:
    """A reader's own mixers and task of a run, pickled with their code; None for none."""
    names = config.model.mixer
    names = names if isinstance(names, tuple) else (names,)
    mixers = {name: REGISTERED[name] for name in names if name in REGISTERED}
    task = TASKS[config.task.task_name]
    home = sys.modules.get(task.__module__)
    kept = getattr(home, task.__name__, None) is task
    tasks = {} if kept and task.__module__.startswith("coefdyn.") else {task.task_name: task}
    if not mixers and not tasks:
        return None
    import cloudpickle

    with _by_value(cloudpickle):
        return cloudpickle.dumps((mixers, tasks))


@contextmanager
def _by_value(cloudpickle: Any) -> Iterator[None]:
    """Have cloudpickle send the code of the modules in the working folder."""
    chosen = [one for one in list(sys.modules.values()) if _is_own(one)]
    for module in chosen:
        cloudpickle.register_pickle_by_value(module)
    try:
        yield
    finally:
        for module in chosen:
            cloudpickle.unregister_pickle_by_value(module)


def _is_own(module: Any) -> bool:
    file = Path(getattr(module, "__file__", None) or "/").resolve()
    installed = "site-packages" in file.parts or PACKAGE in file.parents
    return Path.cwd() in file.parents and not installed and module.__name__ != "__main__"
