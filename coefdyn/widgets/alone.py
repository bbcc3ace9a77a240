"""One figure as one file, for a reader without the book: it asks no other file and no host."""

from __future__ import annotations

import html
import json
from functools import cache
from pathlib import Path

import anywidget

from coefdyn.widgets.modules import join

__all__ = ["page_of"]

_STYLE = (
    "html{color-scheme:light dark}html[data-theme=dark]{color-scheme:dark;background:#121212}"
    "body{margin:1rem auto;max-width:1122px;padding:0 1rem;font:1rem/1.5 system-ui,sans-serif}"
)


def page_of(figure: anywidget.AnyWidget, title: str, words: str) -> str:
    """The page as text.

    Args:
        figure: a widget whose synced traits JSON can hold.
        title: of the page.
        words: what the figure shows, for a reader whose browser runs no script.
    """
    own = sorted(set(figure.trait_names(sync=True)) - set(anywidget.AnyWidget.class_trait_names()))
    held = {
        "module": str(figure._esm),
        "style": str(figure._css),
        "state": {name: getattr(figure, name) for name in own},
    }
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{html.escape(title)}</title>\n<style>{_STYLE}</style></head>\n"
        f"<body><main><noscript>{html.escape(words)}</noscript></main>\n"
        f'<script type="application/json" id="figure">{_inside_a_script(held)}</script>\n'
        f'<script type="module">{_host()}</script></body></html>\n'
    )


def _inside_a_script(value: object) -> str:
    """JSON in which nothing ends the element that it stands in."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False).replace("<", "\\u003c")


@cache
def _host() -> str:
    return join(Path(__file__).parent / "js" / "alone.js")
