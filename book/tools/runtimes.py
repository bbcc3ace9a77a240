"""Keep the seconds of the last executions in `data/runtimes.json`, with where they were measured.

    make execute FORCE=1 && make runtimes

Only this command writes the file: an execution alone must give the same files again.
"""

from __future__ import annotations

import json
import os
import platform
import sys
from datetime import date
from importlib.metadata import version
from pathlib import Path

from book.tools.chapters import BUILD, ROOT
from book.tools.execute import RUNTIMES, write

PACKAGES = ("torch", "numpy", "matplotlib", "jupyter-book", "papermill")


def processor() -> str:
    """Name of the CPU, as far as the system reports it."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    names = (line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.processor() or platform.machine())


def record(times: dict[str, dict[str, float]]) -> dict:
    """Seconds by profile and chapter, and the machine and versions they hold for."""
    machine = {"processor": processor(), "cores": os.cpu_count(), "system": platform.system()}
    versions = {"python": platform.python_version(), **{name: version(name) for name in PACKAGES}}
    today = date.today().isoformat()
    return {"date": today, "machine": machine, "seconds": times, "versions": versions}


def main() -> int:
    path = BUILD / "times.json"
    if not path.exists():
        print("no run to record: 'make execute FORCE=1' first", file=sys.stderr)
        return 1
    written = record(json.loads(path.read_text()))
    write(RUNTIMES, json.dumps(written, indent=1, sort_keys=True) + "\n")
    print(f"{RUNTIMES.relative_to(ROOT)} written")
    return 0


if __name__ == "__main__":
    sys.exit(main())
