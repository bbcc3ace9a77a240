"""Versions of packages that are not required, checked once where they are first used."""

from __future__ import annotations

import re
from importlib.metadata import PackageNotFoundError, version

__all__ = ["TRANSFORMERS", "check_transformers"]

#: the oldest transformers whose names and caches the library knows
TRANSFORMERS = "5.20"


def check_transformers(what: str) -> None:
    """Raise if transformers is there, and too old for ``what``.

    Older versions run other operations under the same names, so that layers would be missed.

    Raises:
        ImportError: with the version that is needed and the one found.
    """
    try:
        found = version("transformers")
    except PackageNotFoundError:
        return
    if _numbers(found) < _numbers(TRANSFORMERS):
        raise ImportError(
            f"{what} needs transformers {TRANSFORMERS} or newer, found {found}: pip install "
            "'coefdyn[lens]' (in a checkout: pip install -e '.[lens]')."
        )


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", text)[:2])
