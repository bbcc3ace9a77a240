"""The scripts and the stylesheet of the widgets, each as one text."""

from __future__ import annotations

import base64
import gzip
import re
from functools import cache
from pathlib import Path

from coefdyn.widgets.modules import join

__all__ = [
    "arithmetic_source",
    "figures_source",
    "film_source",
    "lean_style",
    "module_source",
    "pack",
    "packed_source",
    "style_source",
]

_HERE = Path(__file__).parent
_JS = _HERE / "js"


@cache
def arithmetic_source() -> str:
    """From settings to everything on show, as plain top-level functions that need no page; Python
    asks them (``interpreter``)."""
    return join(_JS / "asked.js", whole=True)


@cache
def module_source() -> str:
    """One self-contained ES module: no imports, nothing from another host."""
    return join(_JS / "explorer.js")


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
    return pack(join(_JS / "figures.js"))


@cache
def film_source() -> str:
    """The module of a training film."""
    return join(_JS / "film.js")


@cache
def style_source() -> str:
    """The stylesheet."""
    return lean_style((_HERE / "css" / "explorer.css").read_text(encoding="utf-8"))


def lean_style(text: str) -> str:
    """A stylesheet without comments, indentation and blanks, which weigh on every page."""
    text = re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL)
    text = re.sub(r"\s+", " ", text)
    return re.sub(r" ?([{};,]) ?", r"\1", text).replace(";}", "}").replace(": ", ":").strip()
