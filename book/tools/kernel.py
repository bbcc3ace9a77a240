"""The kernel that executes chapters: IPython's, which also notes the files below `data/` it reads.

Cells name some of these files; others are opened by functions of the library that the cells call.
What a chapter has opened is kept with its digests, so that a change of any such file marks it.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from book.tools.chapters import ROOT

__all__ = ["LOG", "read_log", "watch", "write_spec"]

#: the environment variable that names the file for the list of opened files
LOG = "COEFDYN_OPENED"


def watch(log: Path, folder: Path) -> None:
    """Note in `log`, one to a line, every file below a folder that this process opens to read.

    A file that is absent is noted too, because the kernel asked for it. Processes that are forked
    from this one write to the same log.
    """
    start, seen = f"{folder}{os.sep}", set[str]()
    out = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    def note(event: str, arguments: tuple) -> None:
        if event != "open" or not isinstance(arguments[0], str | os.PathLike):
            return
        path = os.path.abspath(os.fsdecode(arguments[0]))
        reads = not arguments[2] & (os.O_WRONLY | os.O_RDWR)
        if path.startswith(start) and reads and path not in seen:
            seen.add(path)
            os.write(out, f"{path}\n".encode())

    sys.addaudithook(note)


def read_log(log: Path) -> list[Path]:
    """The files that a log names; none where there is no log."""
    lines = log.read_text(encoding="utf-8").splitlines() if log.exists() else []
    return sorted({Path(line) for line in lines})


def write_spec(folder: Path) -> None:
    """Make this kernel the one named `python3` for who has the folder in JUPYTER_PATH."""
    spec = {
        "argv": [sys.executable, "-m", "book.tools.kernel", "-f", "{connection_file}"],
        "display_name": "Python 3",
        "language": "python",
    }
    place = folder / "kernels" / "python3"
    place.mkdir(parents=True)
    (place / "kernel.json").write_text(json.dumps(spec), encoding="utf-8")


if __name__ == "__main__":
    del sys.path[0]  # the chapter's folder: IPython puts it where a kernel has it
    if LOG in os.environ:
        watch(Path(os.environ[LOG]), ROOT / "data")
    from ipykernel.kernelapp import launch_new_instance

    launch_new_instance()
