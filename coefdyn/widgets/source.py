"""Joins the explorer's small files into the one ES module and the one stylesheet of a widget."""

from __future__ import annotations

from functools import cache
from pathlib import Path

__all__ = ["ARITHMETIC", "arithmetic_source", "module_source", "style_source"]

_HERE = Path(__file__).parent

ARITHMETIC = ("tokens", "ingredients", "math", "blend", "state", "text", "model")
"""Files that never touch a page; the golden-vector tests run exactly these."""

_PAGE = (
    "theme",
    "matrix",
    "views",
    "dom",
    "controls",
    "numbers",
    "inspect",
    "morph",
    "stability",
    "positions",
    "geometry",
    "panels",
    "predict",
    "address",
    "explorer",
)


def _join(names: tuple[str, ...]) -> str:
    schema = (_HERE / "schema.json").read_text(encoding="utf-8")
    compact = " ".join(line.strip() for line in schema.splitlines())
    parts = [f"const SCHEMA = {compact};"]
    parts += [(_HERE / "js" / f"{name}.js").read_text(encoding="utf-8") for name in names]
    return "\n".join(parts)


@cache
def arithmetic_source() -> str:
    """The arithmetic alone, as plain top-level functions."""
    return _join(ARITHMETIC)


@cache
def module_source() -> str:
    """One self-contained ES module: no imports, nothing from another host."""
    return _join(ARITHMETIC + _PAGE)


@cache
def style_source() -> str:
    """The stylesheet."""
    return (_HERE / "css" / "explorer.css").read_text(encoding="utf-8")
