"""Timing and memory of one process on one thread, in the presence of other load."""

from __future__ import annotations

import ctypes
import datetime
import gc
import platform
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch

__all__ = ["cpu_ms", "paired_ms", "peak_mib", "print_rows", "provenance"]

Run = Callable[[], object]


def cpu_ms(run: Run) -> float:
    """CPU time of one call in milliseconds: other processes on the machine do not count."""
    start = time.process_time()
    run()
    return 1e3 * (time.process_time() - start)


def paired_ms(first: Run, second: Run, repeats: int) -> dict[str, float]:
    """Medians of interleaved calls, and the median of the pairwise ratios second / first.

    Both are warmed up, except for a second that is so slow that it is called once only.
    """
    pairs = []
    cpu_ms(first)
    if repeats > 1:
        cpu_ms(second)
    for turn in range(repeats):
        if turn % 2:
            b, a = cpu_ms(second), cpu_ms(first)
        else:
            a, b = cpu_ms(first), cpu_ms(second)
        pairs.append((a, b))
    return {
        "ours_ms": statistics.median(a for a, _ in pairs),
        "peer_ms": statistics.median(b for _, b in pairs),
        "ratio": statistics.median(b / a for a, b in pairs),
        "repeats": repeats,
    }


def _status(key: str) -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(key):
            return int(line.split()[1])
    raise KeyError(key)


def peak_mib(run: Run) -> float | None:
    """Peak resident memory of one call above what was in use before it, in MiB (Linux only)."""
    if not sys.platform.startswith("linux"):
        return None
    gc.collect()
    ctypes.CDLL("libc.so.6").malloc_trim(0)
    Path("/proc/self/clear_refs").write_text("5")
    before = _status("VmRSS")
    run()
    return (_status("VmHWM") - before) / 1024


def print_rows(title: str, rows: list[dict[str, object]]) -> None:
    """A table with a column for each key."""
    keys = list(dict.fromkeys(key for row in rows for key in row))
    told = [keys]
    for row in rows:
        cells = (row.get(key, "-") for key in keys)
        told.append([f"{x:.2f}" if isinstance(x, float) else str(x) for x in cells])
    widths = [max(map(len, column)) for column in zip(*told, strict=True)]
    print(f"\n{title}")
    for line in told:
        print("  ".join(map(str.rjust, line, widths)), flush=True)


def _cpu_model() -> str:
    path = Path("/proc/cpuinfo")
    if path.exists():
        for line in path.read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()


def provenance(peers: dict[str, str]) -> dict[str, object]:
    """Machine, versions and date of the figures."""
    return {
        "date": datetime.date.today().isoformat(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "peers": peers,
        "cpu": _cpu_model(),
        "threads": torch.get_num_threads(),
        "dtype": "float32",
        "clock": "CPU time of the process, median; pairs interleaved",
        "system": platform.system(),
    }
