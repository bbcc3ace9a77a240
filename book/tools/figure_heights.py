"""Heights reserved for interactive figures, so that no text moves when they start.

The heights are measured in a browser by `python tests/browser/measure.py heights`, which writes
`figure_heights.json`: for each kind of figure one height in CSS pixels on a phone, a laptop and a
desktop. A figure without a measurement gets the least height of its kind.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from book.tools.digest import short

__all__ = ["HEIGHTS", "SCREENS", "key_of", "opening_tag"]

HEIGHTS = Path(__file__).with_name("figure_heights.json")
#: Widths of the viewport at which heights are measured; the style sheet chooses among them.
SCREENS = {"phone": 360, "laptop": 1024, "desktop": 1440}


def key_of(state: Mapping[str, Any]) -> str:
    """Kind of a figure, and a digest of what decides its height: parts, question, settings."""
    kind = str(state.get("_anywidget_id", "")).rsplit(".", 1)[-1] or "figure"
    settings = state.get("settings", {})
    chosen = {name: settings.get(name) for name in ("kind", "tokens", "structure", "panel")}
    facts = [state.get("parts"), (state.get("predict") or {}).get("question"), chosen]
    if state.get("first"):
        facts.append(["first", state["choices"]])
    if "right" in settings:  # one's own design has controls, and a second one stands beside it
        sides = (settings["left"], settings["right"])
        facts.append([one and one["preset"] == "own" for one in sides])
    if "controls" in state:
        facts.append([state["controls"], state.get("caption")])
    return f"{kind}-{short([json.dumps(facts, sort_keys=True)])}"


def opening_tag(key: str) -> str:
    """Opening tag of the box around a figure, with the heights to reserve."""
    heights = _heights().get(key) or _least(key)
    style = ";".join(f"--cd-{name}:{height}px" for name, height in heights.items())
    return f'<div class="cd-room" data-room="{key}" style="{style}">'


def _least(key: str) -> dict[str, int]:
    kind = key.rpartition("-")[0]
    same = [heights for name, heights in _heights().items() if name.startswith(f"{kind}-")]
    return {name: min((heights[name] for heights in same), default=0) for name in SCREENS}


@cache
def _heights() -> dict[str, dict[str, int]]:
    return json.loads(HEIGHTS.read_text(encoding="utf-8")) if HEIGHTS.exists() else {}
