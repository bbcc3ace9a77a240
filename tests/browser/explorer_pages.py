"""Tiny static pages with explorers in them, written the way the book writes its pages."""

from __future__ import annotations

import json
from pathlib import Path

from coefdyn.widgets import Explorer

ASSETS = Path(__file__).resolve().parents[2] / "book" / "assets"
STATE = "application/vnd.jupyter.widget-state+json"
VIEW = "application/vnd.jupyter.widget-view+json"


def widget_record(explorer: Explorer) -> dict[str, object]:
    """What a saved notebook keeps of one widget."""
    keys = ("_esm", "_css", "_anywidget_id", "settings", "data", "parts", "name", "predict")
    return {
        "model_name": "AnyModel",
        "model_module": "anywidget",
        "state": {key: getattr(explorer, key) for key in keys},
    }


def page_html(*explorers: Explorer, theme: str = "light", head: str = "") -> str:
    """A page of the book, reduced to its widgets."""
    records = {f"model{m}": widget_record(explorer) for m, explorer in enumerate(explorers)}
    background = {"light": "#ffffff", "dark": "#121212"}[theme]
    views = "".join(
        f'<script type="{VIEW}">{json.dumps({"model_id": name})}</script>' for name in records
    )
    state = json.dumps({"state": records}).replace("</", "<\\/")
    host = (ASSETS / "widget-host.js").read_text(encoding="utf-8")
    return (
        f'<!doctype html><html lang="en" data-theme="{theme}"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>Explorer</title>{head}</head>"
        f'<body style="margin:16px;background:{background}"><main><h1 style="display:none">Explorer</h1>'
        f'{views}</main><script type="{STATE}">{state}</script><script>{host}</script></body></html>'
    )


def write_page(folder: Path, *explorers: Explorer, theme: str = "light", head: str = "") -> str:
    """Writes the page and returns its file:// address."""
    path = folder / "page.html"
    path.write_text(page_html(*explorers, theme=theme, head=head), encoding="utf-8")
    return path.as_uri()
