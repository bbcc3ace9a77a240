"""Locks on runs: processes that fill one result file share its runs, and none is repeated.

A run is taken by a lock on a file of its own, which the system frees on any exit, also by a kill.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

try:
    import fcntl
except ImportError:  # Windows: two processes may then train the same run, and lose only time
    fcntl = None  # type: ignore[assignment]

__all__ = ["RunLocks"]


class RunLocks:
    """The runs of one result file that this process has taken.

    Args:
        path: the result file; None where nothing is shared, so that every run can be taken.
    """

    def __init__(self, path: Path | None) -> None:
        self._folder = None if path is None or fcntl is None else _folder(path)
        self._held: dict[str, int] = {}

    def take(self, key: str) -> bool:
        """Take a run; returns False where another process has it."""
        if self._folder is None or key in self._held:
            return True
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            handle = os.open(self._folder / key, os.O_RDWR | os.O_CREAT, 0o644)
        except OSError:  # no result can be written either: the first write raises the error
            return True
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(handle)
            return False
        self._held[key] = handle
        return True

    def give(self, key: str) -> None:
        """Release a run, finished or not."""
        handle = self._held.pop(key, None)
        if handle is None or self._folder is None:
            return
        with contextlib.suppress(OSError):
            (self._folder / key).unlink()
        os.close(handle)

    def close(self) -> None:
        """Release all runs."""
        for key in list(self._held):
            self.give(key)
        if self._folder is not None:
            with contextlib.suppress(OSError):
                self._folder.rmdir()


def _folder(path: Path) -> Path:
    return path.with_name(f".{path.stem}.turns")
