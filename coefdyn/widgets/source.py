"""Joins the explorer's small files into the one ES module and the one stylesheet of a widget."""

from __future__ import annotations

import base64
import gzip
import json
from functools import cache
from pathlib import Path

from coefdyn.widgets.lean import lean_script, lean_style

__all__ = [
    "ARITHMETIC",
    "arithmetic_source",
    "figures_source",
    "film_source",
    "join_files",
    "module_source",
    "pack",
    "packed_source",
    "style_source",
]

_HERE = Path(__file__).parent

ARITHMETIC = ("facts", "tokens", "ingredients", "math", "blend", "state", "text", "model")
"""Files that never touch a page; the golden-vector tests run exactly these."""

_PAGE = (
    "theme",
    "matrix",
    "views",
    "dom",
    "help",
    "controls",
    "answer",
    "equation",
    "path",
    "pin",
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

_FIGURES = (
    "theme",
    "dom",
    "answer",
    "predict",
    "small",
    "plot",
    "variance",
    "chunks",
    "cost",
    "turning",
    "fading",
    "swing",
    "rows",
    "ranges",
)


def join_files(names: tuple[str, ...]) -> str:
    """The named files of ``js/`` after the schema, without comments and indentation."""
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
    return join_files(ARITHMETIC)


@cache
def module_source() -> str:
    """One self-contained ES module: no imports, nothing from another host."""
    return join_files(ARITHMETIC + _PAGE)


@cache
def packed_source() -> str:
    """The explorer's module as a page carries it, compressed."""
    return pack(module_source())


def pack(module: str) -> str:
    """A module compressed, in a few lines that unpack it. Equal modules have equal texts, so that a
    page carries each once."""
    packed = base64.b64encode(gzip.compress(module.encode(), mtime=0)).decode()
    return (
        f'const packed = Uint8Array.from(atob("{packed}"), (c) => c.charCodeAt(0));\n'
        'const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));\n'
        'const type = { type: "text/javascript" };\n'
        "const url = URL.createObjectURL(new Blob([await new Response(stream).text()], type));\n"
        "const unpacked = await import(url);\n"
        "URL.revokeObjectURL(url);\n"
        "export default unpacked.default;\n"
    )


@cache
def figures_source() -> str:
    """The module of all smaller figures, compressed; each names the one that it is."""
    start = (
        "export default { render: (page) => renderSmall(FIGURES[page.model.get('figure')], page) };"
    )
    return pack(f"{join_files(ARITHMETIC + _FIGURES)}\n{start}")


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
        "predict",
        "small",
        "film_draw",
        "film",
    )
    return join_files(names) + "\nexport default { render: renderFilm };"


@cache
def style_source() -> str:
    """The stylesheet."""
    return lean_style((_HERE / "css" / "explorer.css").read_text(encoding="utf-8"))
