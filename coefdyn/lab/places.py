"""Locations of the repository's files, and of their substitutes for an installed package."""

from __future__ import annotations

import tomllib
from functools import cache
from pathlib import Path

__all__ = ["checkout", "data_file", "data_folder"]

PACKAGE = Path(__file__).resolve().parents[1]


@cache
def checkout() -> Path | None:
    """Path of this project's checkout; None for an installed package.

    A checkout has the package at its top, beside a ``pyproject.toml`` that names it. So neither the
    project around somebody's virtual environment nor a ``data`` folder of another package counts.
    """
    metadata = PACKAGE.parent / "pyproject.toml"
    try:
        name = tomllib.loads(metadata.read_text(encoding="utf-8"))["project"]["name"]
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError, KeyError, TypeError):
        return None
    return PACKAGE.parent if name == "coefdyn" else None


def data_folder() -> Path:
    """Path of ``data`` in the checkout, or in the working folder for an installed package.

    The working folder is asked anew at each call.
    """
    return (checkout() or Path.cwd()) / "data"


def data_file(name: str) -> Path:
    """Path of a file in the project's ``data`` folder, such as ``digits/digits.npz``.

    Raises:
        FileNotFoundError: if it is not there, with the remedy.
    """
    path = data_folder() / name
    if path.is_file():
        return path
    remedy = (
        f"bring it back with `git checkout -- data/{name}`."
        if checkout()
        else "it belongs to the repository of the book and is no part of an installed coefdyn, so "
        "run this from the top folder of a checkout, or copy its data folder here."
    )
    raise FileNotFoundError(f"data/{name} is needed and {path} does not exist; {remedy}")
