"""Command-line values that can be checked before training starts."""

from __future__ import annotations

import argparse
import math
import re
import tempfile
from collections.abc import Iterable
from pathlib import Path

import torch

from coefdyn.lab.experiments.plan import check_profile

__all__ = [
    "cluster",
    "count",
    "device",
    "device_name",
    "facet",
    "figure_file",
    "folder",
    "gathered",
    "profile",
    "seconds",
    "writable",
]

#: separator of two values
COMMA = re.compile(r",(?! )")
FIGURES = (".png", ".svg", ".pdf")


def device_name(text: str) -> str:
    """ "cpu", "cuda" or "cuda:1", of whatever machine."""
    kind, _, number = text.partition(":")
    if kind not in ("cpu", "cuda") or (number and not number.isdecimal()):
        raise argparse.ArgumentTypeError(f"use cpu, cuda or cuda:1; got {text!r}")
    return text


def device(text: str) -> str:
    """ "cpu", "cuda" or "cuda:1", where torch sees it."""
    kind, _, number = device_name(text).partition(":")
    seen = torch.cuda.device_count()
    if kind == "cuda" and int(number or 0) >= seen:
        raise argparse.ArgumentTypeError(
            f"{text} is asked for, and torch {torch.__version__} sees {seen} GPUs here; use cpu"
        )
    return text


def profile(text: str) -> str:
    """Name of a profile: quick, standard or paper."""
    try:
        return check_profile(text)
    except ValueError as unknown:
        raise argparse.ArgumentTypeError(str(unknown)) from None


def cluster(parser: argparse.ArgumentParser) -> None:
    """Add the options that say where runs are trained."""
    parser.add_argument(
        "--cluster",
        metavar="ADDRESS",
        help="of a dask scheduler whose workers train; default: DASK_SCHEDULER_ADDRESS, if set",
    )
    parser.add_argument("--device", type=device_name, help="cpu, cuda or cuda:1; default: a GPU")


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


def facet(text: str) -> tuple[str, tuple[str, ...]]:
    """Parse a facet of an experiment's variants and the chosen values of it: A=1,0.95.

    A comma with a space behind it belongs to a value: "model=qLSTM, sigmoid".
    """
    name, _, values = text.partition("=")
    if not (name and values):
        raise argparse.ArgumentTypeError(f"FACET=VALUE or FACET=VALUE,VALUE; got {text!r}")
    return name, tuple(COMMA.split(values))


def gathered(facets: Iterable[tuple[str, tuple[str, ...]]]) -> dict[str, tuple[str, ...]]:
    """Facets by name; the values of a facet that was given twice are merged."""
    found: dict[str, tuple[str, ...]] = {}
    for name, values in facets:
        found[name] = found.get(name, ()) + values
    return found


def figure_file(text: str) -> Path:
    """Parse the path of a figure: its suffix is known and its folder exists."""
    path = Path(text)
    if path.suffix not in FIGURES or path.is_dir():
        raise argparse.ArgumentTypeError(
            f"a file that ends in {', '.join(FIGURES[:-1])} or {FIGURES[-1]}; got {text!r}"
        )
    if not path.parent.is_dir():
        raise argparse.ArgumentTypeError(f"the folder {path.parent} does not exist; make it first")
    return path


def folder(text: str) -> Path:
    """Parse the path of a folder that exists or can be made."""
    path = Path(text)
    if path.exists() and not path.is_dir():
        raise argparse.ArgumentTypeError(f"{text} is a file; name a folder")
    return path


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
