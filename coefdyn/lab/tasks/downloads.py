"""Data sets downloaded through Hugging Face ``datasets``, with errors that name a remedy."""

from __future__ import annotations

import importlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any


def cache_folder() -> Path:
    """``$XDG_CACHE_HOME/coefdyn``, or ``~/.cache/coefdyn``."""
    root = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(root) / "coefdyn"


@contextmanager
def one_process(name: str) -> Iterator[None]:
    """Let one process of this machine fetch a data set, while others wait until it is kept."""
    from filelock import FileLock

    cache_folder().mkdir(parents=True, exist_ok=True)
    with FileLock(cache_folder() / f"{name}.lock"):
        yield


class DataUnavailableError(RuntimeError):
    """A data set is not available; the message says why and names the remedy."""


def optional_module(name: str, what: str, stand_in: str) -> ModuleType:
    """Import an optional package, or say how to install it."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise DataUnavailableError(
            f"{what} needs the package {name!r}, which cannot be imported ({error}). "
            f"Install it with: pip install 'coefdyn[text]'. "
            f"Without it use the embedded task {stand_in!r}."
        ) from error


#: commits of the hub's data sets, so that a record's code revision also fixes its data
REVISIONS = {
    "Salesforce/wikitext": "b08601e04326c79dfdd32d625aee71d232d685c3",
    "openai-community/gpt2": "607a30d783dfa663caf39e06633721c8d4cfcd7e",
    "stanfordnlp/imdb": "e6281661ce1c48d982bc483cf8a173c1bbeb5d31",
    "uoft-cs/cifar10": "0b2714987fa478483af9968de7c934580d0bb9a2",
}


def load_rows(path: str, name: str | None, split: str, what: str, stand_in: str) -> Any:
    """Load one split of a data set of the Hugging Face hub, at its commit in ``REVISIONS``.

    what names it in errors; stand_in is the task that works offline. It is downloaded once for all
    processes of a machine. Raises ``DataUnavailableError`` when the package or the data cannot be
    had.
    """
    datasets = optional_module("datasets", what, stand_in)
    try:
        with one_process(path.replace("/", "--")):
            return datasets.load_dataset(path, name, split=split, revision=REVISIONS[path])
    except Exception as error:
        raise unreachable(what, path, stand_in, error) from error


def unreachable(what: str, path: str, stand_in: str, error: Exception) -> DataUnavailableError:
    """Build the error for data that is neither cached nor reachable."""
    offline = os.environ.get("HF_HUB_OFFLINE", "0") not in ("", "0")
    state = (
        "HF_HUB_OFFLINE is set, so only the cache is read. "
        if offline
        else "With HF_HUB_OFFLINE=1 it is not tried again and again. "
    )
    reason = (str(error).splitlines() or [""])[0]
    return DataUnavailableError(
        f"{what} ({path!r} on the Hugging Face hub) could not be loaded: "
        f"{type(error).__name__}: {reason}. {state}The first use needs a network; after it the "
        f"cache is enough. To work offline load it once elsewhere and copy the cache folder "
        f"(HF_HOME), or use the embedded task {stand_in!r}."
    )
