"""Joins the explorer's small files into the one ES module and the one stylesheet of a widget."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

from coefdyn.widgets.lean import lean_script, lean_style

__all__ = [
    "ARITHMETIC",
    "arithmetic_source",
    "film_source",
    "module_source",
    "small_source",
    "style_source",
]

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
    schema = json.loads((_HERE / "schema.json").read_text(encoding="utf-8"))
    compact = json.dumps(schema, ensure_ascii=False, separators=(",", ":"))
    parts = [f"const SCHEMA = {compact};"]
    parts += [
        lean_script((_HERE / "js" / f"{name}.js").read_text(encoding="utf-8")) for name in names
    ]
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
def small_source(file: str, design: str) -> str:
    """The module of a smaller figure: the same parts, and one file of its own."""
    names = ("tokens", "math", "text", "theme", "dom", "small", file)
    return _join(names) + f"\nexport default {{ render: (page) => renderSmall({design}, page) }};"


@cache
def film_source() -> str:
    """The module of a training film."""
    names = (
        "tokens",
        "math",
        "blend",
        "text",
        "theme",
        "dom",
        "matrix",
        "small",
        "film_draw",
        "film",
    )
    return _join(names) + "\nexport default { render: renderFilm };"


@cache
def style_source() -> str:
    """The stylesheet."""
    return lean_style((_HERE / "css" / "explorer.css").read_text(encoding="utf-8"))
