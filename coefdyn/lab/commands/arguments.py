"""Options and values that several commands share, checked before anything is trained."""

from __future__ import annotations

import argparse
import math
import tempfile
from pathlib import Path

__all__ = ["cluster", "count", "seconds", "writable"]


def cluster(parser: argparse.ArgumentParser) -> None:
    """Add the options that say where runs are trained."""
    parser.add_argument(
        "--cluster",
        metavar="ADDRESS",
        help="of a dask scheduler whose workers train; default: DASK_SCHEDULER_ADDRESS, if set",
    )
    parser.add_argument("--device", help="cpu, cuda or cuda:1; default: a GPU")


def seconds(text: str) -> float:
    """A number of seconds, 0 or more."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not value >= 0:
        raise argparse.ArgumentTypeError(f"a number of seconds, 0 or more; got {text!r}")
    return value


def count(text: str) -> int:
    """A whole number from 1 on."""
    if not (text.isdecimal() and int(text) > 0):
        raise argparse.ArgumentTypeError(f"a whole number from 1 on; got {text!r}")
    return int(text)


def writable(path: Path) -> None:
    """Make the folder; raise ``OSError`` with a message where nothing can be written into it."""
    try:
        path.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=path):
            pass
    except OSError as error:
        reason = error.strerror or str(error)
        raise OSError(f"nothing can be written to {path}: {reason}; choose another folder.") from (
            error
        )
