"""Results on disk: one JSON line per finished run, safe against kills, races and full disks.

The file is only ever appended to, under an exclusive lock, in one write that is flushed to the
disk before the lock is released. A write that a kill tore apart leaves a last line without its
newline; the next append or read takes it away, and the replica is run again.
"""

from __future__ import annotations

import errno
import hashlib
import json
import math
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

try:
    import fcntl
except ImportError:  # Windows: the user must then run one process per file
    fcntl = None  # type: ignore[assignment]

__all__ = ["Record", "ResultFile", "ResultsNotWritten", "config_key", "fault", "plain"]

Record = dict[str, Any]


class ResultsNotWritten(OSError):
    """A finished run could not be appended; the message names where it was kept instead."""


def plain(value: Any) -> Any:
    """Replace every NaN or infinity in ``value`` by None, which strict JSON can hold."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    return value


def config_key(config: dict[str, Any]) -> str:
    """Short name of a configuration: the first 16 hex digits of its canonical JSON's SHA-256."""
    text = json.dumps(plain(config), sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


#: entries of every record, and further ones of a trained run; JSON's true is not a number
_EVERY = {
    "key": (str,),
    "seed": (int,),
    "config": (dict,),
    "final": (dict,),
    "device": (str,),
    "torch": (str,),
    "revision": (str,),
    "timestamp": (str,),
    "diverged_at": (int, type(None)),
}
_TRAINED = {
    "metrics": (dict,),
    "diagnostics": (dict,),
    "solved": (bool,),
    "wall_s": (int, float),
}
_NUMBER = (int, float, type(None))


def fault(record: Any) -> str:
    """Reason why a JSON value is not a record of a finished run; empty if it is one.

    A run is a training, with curves in ``metrics``, or a measurement of seconds.
    """
    if not isinstance(record, dict):
        return f"it is a {type(record).__name__}, not an object"
    wrong = _lacking(record, _EVERY)
    if wrong:
        return wrong
    planned = record["config"].get("seed", record["seed"])
    if planned != record["seed"]:
        return f"its seed is {record['seed']}, and that of its configuration {planned!r}"
    if "seconds" in record["final"]:
        return _lacking(record["final"], {"seconds": _NUMBER})
    return _lacking(record, _TRAINED) or _fault_of_numbers(record["final"], record["metrics"])


def _lacking(record: Record, kinds: dict[str, tuple[type, ...]]) -> str:
    """Describe the first entry that is missing or of another type."""
    for name, allowed in kinds.items():
        if name not in record:
            return f"{name!r} is missing"
        if type(record[name]) not in allowed:
            return f"{name!r} is no {' or '.join(kind.__name__ for kind in allowed)}"
    return ""


def _fault_of_numbers(final: Record, metrics: Record) -> str:
    if "accuracy" not in final:
        return "'final' holds no accuracy"
    accuracy = final["accuracy"]
    if type(accuracy) not in (int, float) or not 0 <= accuracy <= 1:
        return f"an accuracy of {accuracy!r} does not lie in [0, 1]"
    for name, curve in metrics.items():
        if not isinstance(curve, list) or any(type(value) not in _NUMBER for value in curve):
            return f"the curve {name!r} of 'metrics' is no list of numbers"
    lengths = {name: len(curve) for name, curve in metrics.items()}
    for name in ("step", "accuracy"):
        if not lengths.get(name):
            return f"'metrics' holds no {name}"
    if len(set(lengths.values())) > 1:
        return f"the curves of 'metrics' differ in length: {lengths}"
    for name, value in final.items():
        if type(value) not in _NUMBER:
            return f"{name!r} of 'final' is no number"
    return ""


class ResultFile:
    """The finished runs of one experiment and profile.

    Args:
        path: a ``.jsonl`` file; it and its folder are made at the first append.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)

    def records(self) -> list[Record]:
        """Read every complete record, oldest first. A torn last line is left out.

        Raises:
            ValueError: naming every line before the last one that is not JSON, every line that is
                no record of a run, and every second line of a training with other numbers than the
                first; a kill cannot cause any of them.
        """
        if not self.path.exists():
            return []
        lines = self.path.read_bytes().split(b"\n")
        found: list[Record] = []
        damage: list[str] = []
        first: dict[str, tuple[int, Record]] = {}
        for number, line in enumerate(lines, start=1):
            if not line.strip():
                continue
            try:
                record = json.loads(line)
            except (ValueError, RecursionError) as error:
                if number == len(lines):  # without a newline at its end: torn by a kill
                    break
                damage.append(f"line {number} is not JSON ({error})")
                continue
            wrong = fault(record)
            if wrong:
                damage.append(f"line {number} is no record of a finished run: {wrong}")
                continue
            before, same = first.setdefault(record["key"], (number, record))
            if "metrics" in record and any(same[k] != record[k] for k in ("metrics", "final")):
                damage.append(f"line {number} has the key of line {before} and other numbers")
                continue
            found.append(record)
        if damage:
            raise ValueError(
                f"{self.path} was edited or damaged: {'; '.join(damage)}. Delete what is wrong "
                "(runs that are missing are run again) or restore the file."
            )
        return found

    def keys(self) -> set[str]:
        """Keys of every finished run."""
        return {record["key"] for record in self.records()}

    def append(self, record: Record) -> None:
        """Append one record atomically.

        Raises:
            ResultsNotWritten: if the disk is full or the file cannot be written. Finished records
                stay intact, and this one is kept in the temporary folder where that is possible.
        """
        line = json.dumps(plain(record), sort_keys=True, allow_nan=False).encode() + b"\n"
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with _locked(self.path) as handle:
                end = _repair(handle)
                try:
                    _write_all(handle, line)
                    os.fsync(handle)
                except OSError:
                    os.ftruncate(handle, end)
                    raise
        except OSError as error:
            raise self._not_written(line, error) from error

    def _not_written(self, line: bytes, error: OSError) -> ResultsNotWritten:
        full = error.errno == errno.ENOSPC
        cause = "the disk is full" if full else (error.strerror or str(error))
        message = f"could not append a finished replica to {self.path}: {cause}. "
        try:
            with tempfile.NamedTemporaryFile(
                prefix=f"{self.path.stem}-", suffix=".jsonl", delete=False
            ) as spill:
                spill.write(line)
            message += f"It was kept in {spill.name}; append that line once there is room, and "
        except OSError:
            message += "Nor could it be kept in the temporary folder, so it will be run again; "
        message += "run the same command again to go on. Everything written before is intact."
        return ResultsNotWritten(error.errno, message)


@contextmanager
def _locked(path: Path) -> Iterator[int]:
    """Open ``path`` under an exclusive lock, which the system frees on any exit."""
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
    try:
        if fcntl is not None:
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield handle
    finally:
        os.close(handle)


def _repair(handle: int) -> int:
    """Make the file end in a complete line; return its length in bytes.

    A last line without a newline is completed when it is JSON, and cut off when it is not.
    """
    end = os.fstat(handle).st_size
    if end == 0 or os.pread(handle, 1, end - 1) == b"\n":
        return end
    start = end
    tail = b""
    while start > 0 and b"\n" not in tail:
        step = min(65536, start)
        start -= step
        tail = os.pread(handle, step, start) + tail
    torn = tail.rpartition(b"\n")[2]
    try:
        json.loads(torn)
    except ValueError:
        os.ftruncate(handle, end - len(torn))
        return end - len(torn)
    _write_all(handle, b"\n")
    return end + 1


def _write_all(handle: int, data: bytes) -> None:
    while data:
        data = data[os.write(handle, data) :]
